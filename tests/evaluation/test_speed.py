"""Policies timed in turns, and the table that comes of it."""

import time
from typing import ClassVar

import numpy as np
import pytest
import torch

from mgp.errors import ConfigError, DataError
from mgp.evaluation import speed_table
from mgp.evaluation.idle import Others
from mgp.evaluation.replay import Replay
from mgp.evaluation.speed import Race, Times, race, turn
from mgp.evaluation.speed_table import COLUMNS, Entry, read_speed, speed_lines, write_speed
from mgp.policies.base import Chunk, Memory, Policy
from small import demonstrations, tiny_of, untrained

HORIZON = 24  # of the demonstrations
IDLE, BUSY = Others(0.02), Others(0.9)


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> list[float]:
    """Only thinking takes time, so that a busy machine changes nothing."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Sleeper, "clock", now)
    return now


class Sleeper(Policy):
    """Thinks for so many seconds; `threads` of torch at each plan are written down."""

    clock: ClassVar[list[float]] = [0.0]  # seconds

    observation_shapes = {"state": (7,)}  # noqa: RUF012

    def __init__(self, seconds: float = 0.001, run: int = 4, history: int = 2):
        self.seconds, self.execution_horizon, self.history = seconds, run, history
        self.threads: list[int] = []

    def begin(self, seeds):
        return Memory(tuple(seeds), np.zeros((len(seeds), 3), np.float32))

    def plan(self, observation, memory, observed=None, executed=None):
        self.threads.append(torch.get_num_threads())
        self.clock[0] += self.seconds
        return Chunk(np.zeros((1, self.execution_horizon, 3), np.float32), self.execution_horizon)


@pytest.fixture
def episode() -> Replay:
    return Replay(demonstrations("state"))


def test_a_recorded_episode_is_shown_whatever_is_done(episode):
    first, _ = episode.reset(seed=0)
    recorded = demonstrations("state").arrays["state"]
    assert np.array_equal(first["state"], recorded[0])
    for step in range(1, HORIZON + 1):
        seen, _, _, truncated, info = episode.step(np.ones(3))
        assert np.array_equal(seen["state"], recorded[min(step, HORIZON - 1)])
        assert truncated == (step == HORIZON)
        assert not info["success"]
    assert episode.whole
    episode.deadline = time.perf_counter() - 1
    episode.reset(seed=0)
    assert episode.step(np.ones(3))[3]
    assert not episode.whole


def test_policies_take_turns_with_each_number_of_threads(episode):
    policies, turns = {"one": Sleeper(), "two": Sleeper(run=6)}, []
    before = torch.get_num_threads()
    raced = race(policies, episode, (1, 2), rounds=2, seconds=0.01, rest=0.0, tick=turns.append)
    assert turns == ["one", "two"] * 2 * 2
    assert list(raced.times) == [("one", 1), ("two", 1), ("one", 2), ("two", 2)]
    # in each turn one plan that is not timed, and episodes of 6 or 4 plans as long as they fit into 10 ms
    assert policies["one"].threads == ([1] * 7 + [2] * 7) * 2
    assert policies["two"].threads == ([1] * 9 + [2] * 9) * 2
    assert torch.get_num_threads() == before
    assert {name: (len(times.replans), len(times.sequences)) for (name, _), times in raced.times.items()} == {
        "one": (12, 2),
        "two": (16, 4),
    }


def test_a_sequence_is_the_sum_of_its_plans(episode):
    times = Times()
    turn(Sleeper(0.002), episode, times, seconds=0.02)
    assert times.replans == pytest.approx([2.0] * 6)
    assert times.sequences == pytest.approx([12.0])


def test_a_slow_policy_is_cut_off_and_a_very_slow_one_has_one_plan_a_turn(episode):
    times = Times()
    turn(Sleeper(0.01), episode, times, seconds=0.025)
    assert times.replans == pytest.approx([10.0] * 3), "the plan that is on when time is up is finished"
    assert not times.sequences
    times, slow = Times(), Sleeper(0.05)
    turn(slow, episode, times, seconds=0.03)
    assert len(slow.threads) == 1
    assert times.replans == pytest.approx([50.0])


def test_who_has_thought_for_long_enough_sits_out(episode):
    turns: list[str] = []
    race({"slow": Sleeper(30.0), "quick": Sleeper()}, episode, (1,), 4, 0.01, rest=0.0, tick=turns.append)
    assert (turns.count("slow"), turns.count("quick")) == (2, 4)


def test_the_busiest_round_counts(episode, monkeypatch):
    cores = iter([0.01, 0.8, 0.0, 0.02, None])
    monkeypatch.setattr("mgp.evaluation.idle._others", lambda begin, end: next(cores))
    assert race({"one": Sleeper()}, episode, (1,), 3, 0.001, rest=0.0).machine == Others(0.8)
    assert race({"one": Sleeper()}, episode, (1,), 2, 0.001, rest=0.0).machine == Others(None)


def test_encoding_is_timed_inside_of_a_plan(episode, clock):
    policy, times = untrained(tiny_of("bc")), Times()

    def takes(module, seconds):
        module.register_forward_pre_hook(lambda *_: clock.__setitem__(0, clock[0] + seconds))

    takes(policy.encoder.encoders["state"], 0.002)
    takes(policy.head, 0.003)
    turn(policy, episode, times, seconds=0.05)
    assert times.replans == pytest.approx([5.0] * len(times.replans))
    assert times.encoding == pytest.approx([2.0] * len(times.replans))
    assert not policy.encoder._forward_hooks, "nothing is left behind"


def lines(entries=None) -> list[dict[str, str]]:
    short, slow = entries or (Entry("MGP-Short", "released", "a", 3.0, 135.0, 1.0), Entry("DP3", "released", "b"))
    policies = {short.name: Sleeper(run=5), slow.name: Sleeper(run=8)}
    times = {(short.name, 1): Times([10.0] * 99 + [20.0], [4.0], [400.0, 500.0]), (slow.name, 1): Times([800.0])}
    return speed_lines([short, slow], policies, Race(times, IDLE), 200)


def test_a_line_says_replan_step_sequence_and_ratios():
    short, slow = lines()
    assert {name: short[name] for name in ("replan_p50", "step_p50", "sequence_p50", "encode_p50")} == {
        "replan_p50": "10", "step_p50": "2", "sequence_p50": "450", "encode_p50": "4",
    }  # fmt: skip
    assert 10 < float(short["replan_p99"]) <= 20
    assert (short["step_ratio"], short["paper_step"], short["paper_sequence"]) == ("1", "3.0", "135.0")
    assert (slow["replan_ratio"], slow["step_ratio"]) == ("80", "50")
    assert (slow["sequences"], slow["sequence_p50"]) == ("0", "2e+04"), "25 replans of 0.8 s"
    assert "sequence_p99" not in slow
    assert "encode_p50" not in slow
    assert set(slow) <= set(COLUMNS)


def test_without_mgp_short_there_are_no_ratios():
    found = lines((Entry("MGP-Short", "default", "a"), Entry("DP3", "released", "b")))
    assert not any("step_ratio" in line for line in found)


def test_a_table_is_written_only_from_an_idle_machine_and_a_clean_commit(tmp_path, monkeypatch):
    path = tmp_path / "speed.csv"
    monkeypatch.setattr(speed_table, "commit", lambda: "0123456789ab")
    for machine in (BUSY, Others(None)):
        with pytest.raises(ConfigError, match="wait until the machine is idle"):
            write_speed(path, COLUMNS, lines(), machine)
    monkeypatch.setattr(speed_table, "commit", lambda: "0123456789ab+dirty")
    with pytest.raises(ConfigError, match=r"\+dirty"):
        write_speed(path, COLUMNS, lines(), IDLE)
    assert not path.exists()
    monkeypatch.setattr(speed_table, "commit", lambda: "0123456789ab")
    write_speed(path, COLUMNS, lines(), IDLE)
    write_speed(path, COLUMNS, lines()[:1], IDLE)  # of one run, not of two
    assert read_speed(path) == lines()[:1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy,sizes\nDP3,released\n", "has no column threads, replan_p50"),
        ("policy,sizes,threads,replan_p50,step_p50,sequence_p50\nDP3,released,1,x,1,1\n", "replan_p50 = 'x'"),
        ("policy,sizes,threads,replan_p50,step_p50,sequence_p50\nDP3,released,1,1,inf,1\n", "step_p50 = 'inf'"),
        (None, "make it with `python -m benchmarks.speed`"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, text, expected):
    path = tmp_path / "speed.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=expected):
        read_speed(path)
