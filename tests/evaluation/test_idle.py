"""Whether others compute meanwhile, from made-up counters of the system."""

import os
import time

import pytest
from toy_robot import ToyEnv, ToyPolicy

from mgp.evaluation import idle, measure
from mgp.evaluation.idle import watched

TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A clock that a rest advances, and counters of two cores of which `busy` are at work; `own` is this process."""
    now = {"seconds": 0.0, "busy": 0.0, "own": 0.0}

    def rest(seconds, busy=None):
        rate = now["rate"] if busy is None else busy
        now["seconds"] += seconds
        now["busy"] += seconds * rate
        stat.write_text(
            f"cpu  {now['busy'] * TICKS:.0f} 0 0 {(2 * now['seconds'] - now['busy']) * TICKS:.0f} 0 0 0 0 0 0\n"
        )

    stat = tmp_path / "stat"
    now["rate"] = 0.0
    rest(0)
    monkeypatch.setattr(time, "monotonic", lambda: now["seconds"])
    monkeypatch.setattr(time, "sleep", rest)
    monkeypatch.setattr(os, "times", lambda: os.times_result((now["own"], 0, 0, 0, now["seconds"])))
    now["work"], now["stat"] = rest, stat
    return now


def test_own_work_does_not_count(machine):
    with watched(1.0, machine["stat"]) as others:
        machine["work"](10.0, busy=1.02)
        machine["own"] += 10.0
    assert others.cores == pytest.approx(0.017, abs=2e-3)
    assert others.idle


def test_others_in_the_rests_or_meanwhile_count(machine):
    with watched(1.0, machine["stat"]) as others:
        machine["work"](2.0, busy=2.0)
        machine["own"] += 2.0
    assert others.cores == pytest.approx(0.5)
    assert not others.idle
    machine["rate"] = 1.0
    with watched(1.0, machine["stat"]) as others:
        machine["work"](2.0, busy=1.0)
        machine["own"] += 2.0
    assert not others.idle


def test_not_to_know_is_not_to_be_idle(machine, monkeypatch, tmp_path):
    still = tmp_path / "still"
    still.write_text("cpu  5 0 0 5 0 0 0 0\n")
    with watched(1.0, still) as others:
        pass
    assert others.cores is None
    assert not others.idle
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 1.0, 1.0))
    with watched(1.0, tmp_path / "none") as others:
        pass
    assert others.cores == 1.5


@pytest.mark.parametrize(("cores", "expected"), [(0.01, True), (0.9, False), (None, False)])
def test_a_latency_says_whether_it_was_alone(cores, expected, monkeypatch):
    monkeypatch.setattr(idle, "_others", lambda begin, end: cores)
    latency = measure(ToyPolicy(), ToyEnv(), 3, threads=1, rest=0.0)
    assert (latency.idle, latency.others) == (expected, cores)
