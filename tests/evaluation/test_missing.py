"""Withheld observations: the pattern, what is looked at, and what Short and Long do meanwhile."""

from itertools import groupby

import gymnasium as gym
import numpy as np
import pytest
from toy_robot import ToyEnv, ToyPolicy, make_toy

import small
from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError
from mgp.evaluation import Missing, Recording, evaluate, rollout
from mgp.sampling.long import LongPlanner


def pattern(missing: Missing, seed: int, cycles: int, length: int = 5) -> list[bool]:
    return [missing.arrives(seed, cycle, cycle * length) for cycle in range(cycles)]


def told(policy) -> list[bool]:
    return [bool(row[0]) for row in policy.observed]


@pytest.mark.parametrize("burst", [1, 3, 6])
def test_the_share_of_missing_cycles_is_the_probability_in_every_cycle(burst):
    draws = np.array([pattern(Missing(0.35, burst), seed, 25) for seed in range(400)])  # (seeds, cycles)
    assert draws[:, 0].all()
    assert 1 - draws[:, 1:].mean() == pytest.approx(0.35, abs=0.02)
    assert np.abs(1 - draws[:, 1:].mean(0) - 0.35).max() < 0.11  # also early in the episode


def test_a_burst_lasts_its_length():
    lengths = []
    for seed in range(30):
        runs = [(arrived, len(list(run))) for arrived, run in groupby(pattern(Missing(0.2, burst=4), seed, 60))]
        # the first may have begun before the episode, the last is cut by its end
        lengths += [length for arrived, length in runs[2:-1] if not arrived]
    assert min(lengths) == 4
    assert np.median(lengths) < 8


def test_loss_is_for_good_from_a_control_step_on():
    assert pattern(Missing(lost_from=12), 3, 6) == [True, True, True, False, False, False]
    assert pattern(Missing(lost_from=10), 3, 6) == [True, True, False, False, False, False]
    assert not any(pattern(Missing(0.5, lost_from=1), 3, 20)[1:])
    before = pattern(Missing(0.5, lost_from=50), 3, 10)
    assert before == pattern(Missing(0.5), 3, 10), "what comes before is not changed by it"


def test_draws_follow_from_seed_and_cycle():
    assert pattern(Missing(0.5), 3, 50) == pattern(Missing(0.5), 3, 50)
    assert pattern(Missing(0.5), 3, 50) != pattern(Missing(0.5), 4, 50)
    assert all(pattern(Missing(), 3, 50))
    assert not any(pattern(Missing(1.0), 3, 50)[1:])


def test_what_is_withheld_is_not_cast():
    env, policy = ToyEnv(horizon=100, reach=0), ToyPolicy(history=2, execution_horizon=5)
    (result,) = rollout(policy, [env], [3], missing=Missing(0.5))
    assert told(policy) == pattern(Missing(0.5), 3, 20)
    assert 0 < result.missing == told(policy).count(False) < 20
    assert env.looks == [0] + [5 * cycle - back for cycle in range(1, 20) if told(policy)[cycle] for back in (1, 0)]


def test_a_lost_camera_is_never_looked_at_again():
    env, policy = ToyEnv(horizon=40, reach=0), ToyPolicy(history=2, execution_horizon=5)
    (result,) = rollout(policy, [env], [3], missing=Missing(lost_from=11))
    assert told(policy) == [True, True, True] + [False] * 5
    assert env.looks == [0, 4, 5, 9, 10]
    assert result.missing == 5


def test_frames_from_before_a_gap_are_no_history():
    """With more frames of history than steps in a cycle the old ones would pass for the steps just before."""
    policy = ToyPolicy(history=4, execution_horizon=2)
    rollout(policy, [ToyEnv(horizon=60, reach=0)], [3], missing=Missing(0.4))
    gaps = [c for c in range(1, 30) if told(policy)[c] and not told(policy)[c - 1]]
    assert gaps
    for cycle in gaps:
        assert policy.frames_seen[cycle][0, :, 2].tolist() == [2 * cycle - 1] * 3 + [2 * cycle]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probability": 1.5}, r"probability=1\.5"),
        ({"probability": float("nan")}, "probability=nan"),
        ({"probability": 0.5, "burst": 0}, "burst=0"),
        ({"burst": 3}, "burst=3 with probability=0"),
        ({"lost_from": 0}, "lost_from=0"),
    ],
)
def test_impossible_patterns_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Missing(**settings)


def test_an_evaluation_says_what_was_withheld():
    def run(missing):
        return evaluate(
            ToyPolicy, "toy/line", "state", {}, [5], latency=False, workers=1, progress=False, make=make_toy,
            missing=missing, variant={"temperature": 1},
        )  # fmt: skip

    bursts = run(Missing(0.5, 3, 12))
    assert bursts.missing == 0.5
    assert bursts.variant == {"temperature": 1, "missing_burst": 3, "missing_from": 12}
    assert run(Missing(0.5)).variant == {"temperature": 1}


class Body(RobotEnv):
    """Fits the tiny policies; writes down every command."""

    def __init__(self, horizon: int = 24):
        self.name, self.horizon = "toy/body", horizon
        self.action_space = gym.spaces.Box(-9, 9, (small.ACTION,))
        self.commands: list[np.ndarray] = []

    def reset(self, *, seed=None, options=None):
        self.commands.clear()
        return self.observe(), {}

    def advance(self, action):
        self.commands.append(np.array(action))
        return 0.0, False, len(self.commands) >= self.horizon, {"success": False}

    def observe(self):
        random = np.random.default_rng(len(self.commands))
        return {"state": random.normal(0, 0.3, small.STATE["state"]).astype(np.float32)}


def test_short_holds_whole_clips_until_sensing_resumes_then_plans_anew():
    policy, env, missing = small.policy(small.tiny("short")), Body(), Missing(0.5)
    arrived = pattern(missing, 1, 6, policy.execution_horizon)
    assert {True, False} == set(arrived[1:-1])
    rollout(policy, [env], [1], missing=missing)
    clips = np.stack(env.commands).reshape(6, policy.execution_horizon, small.ACTION)
    plain = Body()
    rollout(policy, [plain], [1])
    unbroken = np.stack(plain.commands).reshape(clips.shape)
    for cycle, clip in enumerate(clips):
        if arrived[cycle]:  # the same frames, so the same clip as if nothing had been missing
            np.testing.assert_allclose(clip, unbroken[cycle], atol=1e-6)
        else:
            assert (clip[:, :2] == 0).all(), "the arm stands still"
            assert (clip[:, 2] == clips[cycle - 1][-1, 2]).all(), "the gripper keeps its last command"


@pytest.mark.parametrize("variant", ["long", "no-sm"])
def test_long_runs_its_plan_and_skips_scoring(variant, monkeypatch):
    config = small.tiny("long", **{"policy.sampling.mask_ratio": 1.0, "policy.sampling.variant": variant})
    policy, env = small.policy(config), Body()
    scored = []
    step = LongPlanner.step  # which is handed what scores and rewrites, in one call
    monkeypatch.setattr(
        LongPlanner,
        "step",
        lambda self, logits, observed, executed, frozen, rewrite: step(
            self, logits, observed, executed, frozen, rewrite and (lambda *a: scored.append(executed) or rewrite(*a))
        ),
    )
    (result,) = rollout(policy, [env], [1], missing=Missing(lost_from=5), recording=Recording((1,), every=0))
    trace = result.trace
    assert scored == [1], "the plan is scored once, at step 4, and never after the loss"
    assert (trace.tokens[1:] == trace.tokens[1]).all()
    assert (trace.masked[2:] == 0).all()
    blind = np.stack(env.commands)
    full = policy.with_sampling(variant="full")
    assert np.abs(blind[8:]).max() > 0, "it moves on"
    other = Body()
    rollout(full, [other], [1])
    np.testing.assert_allclose(blind[:4], other.commands[:4], atol=1e-6)


WITHHELD = [
    *(Missing(probability) for probability in (0.0, 0.35, 0.5, 0.7)),
    Missing(0.5, burst=3),
    Missing(0.35, lost_from=9),
    Missing(lost_from=1),
]


@pytest.mark.parametrize("missing", WITHHELD, ids=str)
@pytest.mark.parametrize("variant", ["long", "no-sm"])
def test_executed_tokens_stay_byte_identical_whatever_is_withheld(variant, missing):
    """Of a plan that is rewritten as a whole wherever it may be, in episodes twice as long as it."""
    restless = {"policy.sampling.mask_ratio": 1.0, "policy.sampling.temperature": 1.0}
    policy = small.policy(small.tiny("long", **restless, **{"policy.sampling.variant": variant}))
    seeds = tuple(range(12))
    envs, looks = [Body(2 * small.HORIZON) for _ in seeds], 2 * small.HORIZON // policy.execution_horizon
    results = rollout(policy, envs, list(seeds), missing=missing, recording=Recording(seeds, every=0))
    edited = 0
    for seed, env, result in zip(seeds, envs, results, strict=True):
        arrived, trace = pattern(missing, seed, looks, policy.execution_horizon), result.trace
        assert len(trace.tokens) == looks
        assert result.missing == arrived.count(False)
        for look in range(1, looks):
            executed, before, after = trace.executed[look], trace.tokens[look - 1], trace.tokens[look]
            assert executed == min(look, policy.tokens), "a token of four actions a look"
            assert after[:executed].tobytes() == before[:executed].tobytes()
            assert arrived[look] or after.tobytes() == before.tobytes(), "nothing is rewritten blindly"
            edited += not np.array_equal(before, after)
        commands = np.stack(env.commands)
        assert np.abs(commands[: small.HORIZON, :2]).min() > 0, "the plan runs on to its end"
        assert (commands[small.HORIZON :, :2] == 0).all(), "and then the robot holds"
        assert (commands[small.HORIZON :, 2] == commands[small.HORIZON - 1, 2]).all()
    there = sum(sum(pattern(missing, seed, policy.tokens, policy.execution_horizon)[1:]) for seed in seeds)
    assert edited == pytest.approx(there, rel=0.1), "where there is something to see, what is pending is rewritten"
