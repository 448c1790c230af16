"""Whether others compute meanwhile, from made-up counters of the system."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from toy_robot import ToyEnv, ToyPolicy

from mgp.evaluation import idle, measure
from mgp.evaluation.idle import _living, watched

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


def child(machine, seconds: float, number: int = 77, parent: int | None = None) -> int:
    """A process that has used so many seconds, as the system tells it; its name has a space and a bracket."""
    path = machine["stat"].parent / str(number) / "stat"
    path.parent.mkdir(exist_ok=True)
    mine = os.getpid() if parent is None else parent
    path.write_text(f"{number} (a) b) S {mine} 1 1 0 -1 4194560 9 9 9 9 {seconds * TICKS:.0f} 0 0 0 20 0 1 0\n")
    return number


def test_a_child_that_lives_is_no_other(machine):
    server = child(machine, 5.0)
    with watched(1.0, machine["stat"], children=[server]) as others:
        machine["work"](10.0, busy=1.5)
        machine["own"] += 5.0
        child(machine, 15.0)
    assert others.cores == 0
    assert others.idle
    child(machine, 5.0)
    with watched(1.0, machine["stat"]) as others:
        machine["work"](10.0, busy=1.5)
        machine["own"] += 5.0
        child(machine, 15.0)
    assert others.cores == pytest.approx(10 / 12, abs=2e-3), "unless nobody says that it is ours"


def test_beside_a_child_others_still_count(machine):
    server = child(machine, 0.0)
    with watched(1.0, machine["stat"], children=[server]) as others:
        machine["work"](10.0, busy=1.5)
        child(machine, 9.0)
    assert others.cores == pytest.approx(6 / 12, abs=2e-3)
    assert not others.idle


@pytest.mark.parametrize("number_is_given_to_another", [False, True])
def test_a_child_that_ends_meanwhile_is_counted_once(machine, number_is_given_to_another):
    server = child(machine, 5.0)
    with watched(1.0, machine["stat"], children=[server]) as others:
        machine["work"](10.0, busy=1.5)
        machine["own"] += 5.0 + 15.0  # of these the child's 15, of which 10 are of now
        (machine["stat"].parent / str(server) / "stat").unlink()
        if number_is_given_to_another:
            child(machine, 1000.0, parent=1)
    assert others.cores == 0


def test_a_real_child_is_told_from_others():
    """The system's own counters: a child that computes takes as much from the others as it used."""
    burn = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(burn) as process, watched(0.0) as all_others, watched(0.0, children=[process.pid]) as others:
        time.sleep(1.0)
        spent = _living(Path(f"/proc/{process.pid}/stat"))
        process.kill()  # it is not waited for yet: the system still tells what it used
    if others.cores is None or all_others.cores is None or not idle.STAT.exists():
        pytest.skip("this system does not say what it does")
    assert spent > 0
    assert all_others.cores - others.cores == pytest.approx(spent, rel=0.5, abs=0.1)


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
