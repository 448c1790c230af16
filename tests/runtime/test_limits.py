"""Commands inside limits: whatever is asked for, and near to it where that is allowed."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from robots import Counting, Moody

import small
from mgp.data import motion
from mgp.data.spec import DataSpec
from mgp.errors import ConfigError
from mgp.policies.base import Chunk, Memory
from mgp.runtime import Controller, Guards, VirtualClock
from mgp.runtime.limiter import Limiter, Limits
from mgp.runtime.planning import MODES

RATE = 20.0
NAN = float("nan")
exactly = settings(derandomize=True, deadline=None, max_examples=40)

wishes = st.one_of(
    st.floats(-3, 3),
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([0.0, -1.0, 1.0, 1e30, -1e30, NAN, float("inf")]),
)


@st.composite
def bounds(draw) -> Limits:
    """A place and a displacement, each with or without a limit of each kind."""
    hold = [NAN, 0.0]
    low = [draw(st.sampled_from([-np.inf, -1.0, -0.2, 0.0])) for _ in hold]
    high = [draw(st.sampled_from([np.inf, 1.0, 0.3])) for _ in hold]
    velocity = [draw(st.floats(0.05, 20)) for _ in hold]
    jerk = [value * draw(st.floats(0.5, 400)) for value in velocity]
    loose = draw(st.booleans())
    return Limits(hold, low, high, velocity, np.inf if loose else jerk)


def driven(limiter: Limiter, sequence: list[list[float]], stops: set[int]) -> np.ndarray:
    """(T, A) the commands; where it says to hold, the one that holds. At the steps `stops` it is asked to brake."""
    told: list[np.ndarray] = []
    for step, wish in enumerate(sequence):
        out = limiter.brake() if step in stops else limiter(np.array(wish))
        if out is None:
            assert limiter.resting
            out = np.where(limiter.place, told[-1] if told else np.nan, 0.0).astype(np.float32)
        told.append(out)
    return np.array(told, np.float64)


def check(told: np.ndarray, limits: Limits, start: np.ndarray | None) -> None:
    # before its first command a robot that stands somewhere is not told where; from then on every number counts
    begun = np.logical_or.accumulate(np.isfinite(told).all(1))
    told = told[begun]
    if not len(told):
        return
    place = motion.is_place(np.asarray(limits.hold))
    assert np.isfinite(told).all()
    first = np.where(place, told[0] if start is None else start, 0.0)
    whole = np.concatenate([np.tile(first, (3, 1)), told])
    rounding = 4e-7 * (1 + np.abs(whole).max())  # of float32
    positions = motion.positions(whole, place)
    assert (positions >= limits.low - len(told) * rounding).all()
    assert (positions <= limits.high + len(told) * rounding).all()
    velocity, jerk = np.abs(motion.velocities(whole, place)), np.abs(motion.jerks(whole, place))
    assert (velocity <= np.asarray(limits.velocity) / RATE * (1 + 1e-6) + 2 * rounding).all()
    assert (jerk <= np.asarray(limits.jerk) / RATE**3 * (1 + 1e-6) + 8 * rounding).all()


@exactly
@given(
    bounds(), st.lists(st.tuples(wishes, wishes), min_size=1, max_size=60), st.sets(st.integers(0, 60)), st.booleans()
)
def test_for_any_actions_all_limits_are_kept(limits, sequence, stops, known):
    start = np.clip(np.array([0.1, 0.0]), limits.low, limits.high) if known else None
    limiter = Limiter(limits, RATE, start)
    told = driven(limiter, [list(one) for one in sequence], stops)
    if not known:
        check(told, limits, None)
    else:
        check(told, limits, start)
    steps = 0
    while limiter.brake() is not None:
        steps += 1
        assert steps < 1024, "it comes to rest"


@exactly
@given(bounds(), st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=12), min_size=2, max_size=5))
def test_across_the_seams_of_any_plans_all_limits_are_kept(limits, plans):
    """Each plan is smooth in itself and starts anywhere, as those of a policy do."""
    whole = [
        [value, value / 10]
        for plan in plans
        for value in np.interp(np.linspace(0, len(plan) - 1, 20), range(len(plan)), plan)
    ]
    check(driven(Limiter(limits, RATE), whole, set()), limits, None)


# --- tokens -----------------------------------------------------------------------------------------------------------

LONG = small.policy(small.tiny("long"))
WORDS = LONG.transformer.vocabulary


class Dictated(Counting):
    """Its plans are tokens that it is told, one after the other, decoded as those of MGP are."""

    def __init__(self, plans: list[list[int]], run: int):
        super().__init__(run)
        self.plans = plans

    def begin(self, seeds):
        return Memory(tuple(seeds), np.zeros((len(seeds), small.ACTION), np.float32))

    def plan(self, observation, memory, observed=None, executed=None):
        tokens = self.plans[len(self.given) % len(self.plans)]
        self.given.append({})
        return Chunk(LONG.actions(torch.tensor([tokens])).numpy(), self.execution_horizon)


class Told:
    """Where a robot was told to be, or how far to go, in every step: (T, A)."""

    def __init__(self, limits: Limits):
        self.still = np.asarray(limits.hold)
        self.commands: list[np.ndarray] = []

    def observe(self):
        return {"state": np.zeros(2, np.float32)}

    def command(self, action):
        assert np.isfinite(action).all()
        self.commands.append(action)

    def hold(self):
        last = self.commands[-1] if self.commands else self.still
        self.commands.append(np.where(np.isnan(self.still), last, self.still))


@st.composite
def tight(draw) -> Limits:
    """Those of the demonstrations, as they are and so tight that little of a plan keeps them; and a small workspace."""
    limits = Limits.of(LONG, RATE, draw(st.sampled_from([1.5, 0.3, 0.05])))
    assert limits is not None
    reach = draw(st.sampled_from([np.inf, 1.0, 0.1]))
    return replace(limits, low=np.maximum(limits.low, -reach), high=np.minimum(limits.high, reach))


def plans(words: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, words - 1), min_size=LONG.tokens, max_size=LONG.tokens)


@exactly
@given(
    tight(), plans(WORDS.codes), plans(WORDS.codes), st.integers(1, 24), st.integers(0, 23), st.sets(st.integers(0, 47))
)
def test_for_any_tokens_all_limits_are_kept_wherever_two_plans_are_joined(limits, first, second, end, begin, stops):
    old, new = LONG.actions(torch.tensor([first, second])).numpy()
    check(driven(Limiter(limits, RATE), [*old[:end], *new[begin:]], stops), limits, None)


@exactly
@given(
    tight(),
    st.lists(st.one_of(plans(WORDS.codes), plans(WORDS.mask + 1)), min_size=2, max_size=5),
    st.lists(st.integers(0, 9), min_size=12, max_size=12),
    st.integers(1, 8),
    st.sampled_from(MODES),
)
def test_a_controller_keeps_all_limits_for_any_tokens_whenever_their_plans_come(limits, told, delays, run, mode):
    """A plan with a word among its tokens that is no code fails: the one in hand goes on, or the robot holds."""
    clock, robot, policy = VirtualClock(), Told(limits), Dictated(told, run)
    controller = Controller(
        policy,
        robot,
        RATE,
        mode=mode,
        limits=limits,
        clock=clock,
        worker=Moody(clock, *delays),
        guards=Guards(failures=99),
    )
    log = controller.run(steps=40)
    assert len(robot.commands) >= 40
    came = len(log.plans) + log.counts["failed"]
    assert log.counts["failed"] == sum(max(told[plan % len(told)]) >= WORDS.codes for plan in range(came))
    check(np.array(robot.commands, np.float64), limits, None)


def test_what_keeps_the_limits_is_given_as_it_is():
    time = np.arange(200) / RATE
    sequence = np.stack([0.3 * np.sin(2 * time), 0.02 * np.sin(3 * time)], axis=1)
    place = np.array([True, False])
    limits = Limits(
        [NAN, 0.0],
        velocity=1.01 * np.abs(motion.velocities(sequence, place)).max(0) * RATE,
        jerk=1.5 * np.abs(motion.jerks(np.concatenate([np.zeros((3, 2)), sequence]), place)).max(0) * RATE**3,
    )
    limiter = Limiter(limits, RATE)
    told = np.stack([limiter(one) for one in sequence])
    np.testing.assert_allclose(told, sequence, atol=1e-6)


def test_without_limits_anything_finite_goes():
    limiter = Limiter(Limits([NAN, 0.0]), RATE)
    random = np.random.default_rng(0)
    for size in (1e3, 1.0, 1e-3):
        for wish in random.normal(0, size, (50, 2)):
            np.testing.assert_allclose(limiter(wish), wish, rtol=1e-5, atol=1e-9)


def test_a_place_out_of_reach_is_approached_and_not_overshot():
    limiter = Limiter(Limits(NAN, low=-1, high=1, velocity=2, jerk=40), RATE, np.zeros(1))
    told = np.array([limiter(np.array([0.5]))[0] for _ in range(40)])
    assert told[0] < 0.01
    assert (np.diff(told) >= -1e-6).all()
    assert told.max() <= 0.5 + 1e-6
    assert abs(told[-1] - 0.5) < 1e-4


def test_a_place_that_moves_is_caught_up_with_and_then_followed():
    limiter = Limiter(Limits(NAN, velocity=2, jerk=40), RATE, np.zeros(1))
    target = 0.3 + 0.02 * np.arange(60)
    told = np.array([limiter(np.array([one]))[0] for one in target])
    assert abs(told[0] - target[0]) > 0.2
    np.testing.assert_allclose(told[30:], target[30:], atol=2e-3)


def test_a_displacement_out_of_reach_is_approached_and_not_overshot():
    limiter = Limiter(Limits(0.0, velocity=2, jerk=40), RATE)
    told = np.array([limiter(np.array([0.08]))[0] for _ in range(30)])
    assert told[0] < 0.01
    assert told.max() <= 0.08 + 1e-5
    np.testing.assert_allclose(told[12:], 0.08, atol=1e-4)


def test_a_stop_is_smooth_and_ends_at_rest():
    limiter = Limiter(Limits(NAN, velocity=2, jerk=40), RATE, np.zeros(1))
    told = [limiter(np.array([0.01 * step**1.5]))[0] for step in range(30)]
    assert not limiter.resting
    while (out := limiter.brake()) is not None:
        told.append(out[0])
    assert limiter.resting
    assert np.abs(np.diff(told[-3:])).max() < 0.02
    place = motion.jerks(np.array(told, np.float64)[:, None], np.array([True]))
    assert np.abs(place).max() <= 40 / RATE**3 + 1e-5
    assert limiter.brake() is None


def test_before_the_first_command_it_knows_no_place():
    limiter = Limiter(Limits(NAN, low=-1, high=1, velocity=1, jerk=50), RATE)
    assert limiter.brake() is None, "a robot that was told nothing is told to hold, not to go to 0"
    assert limiter(np.array([NAN])) is None
    assert limiter(np.array([0.7]))[0] == pytest.approx(0.7)
    assert limiter(np.array([0.2]))[0] > 0.69, "from there on all limits hold"


def test_limits_of_a_policy_are_those_of_its_demonstrations():
    config = small.tiny("short")
    policy, data = small.policy(config), small.demonstrations()
    limits = Limits.of(policy, RATE, margin=2.0)
    assert limits is not None
    actions = data.arrays["action"].numpy()
    place = np.array([False, False, True])  # the last one is the gripper's, which goes on in holding
    np.testing.assert_array_equal(motion.is_place(np.asarray(limits.hold)), place)
    np.testing.assert_allclose(np.asarray(limits.low)[2], actions[:, 2].min(), atol=1e-5)
    assert np.isinf(np.asarray(limits.low)[:2]).all(), "of displacements only the sums have a place"
    spec = DataSpec.of(data)
    np.testing.assert_allclose(np.asarray(limits.velocity), 2 * np.array(spec.velocity) * RATE)
    np.testing.assert_allclose(np.asarray(limits.velocity)[0], 2 * np.abs(actions[:, 0]).max() * RATE, rtol=1e-6)
    # what was demonstrated, from rest on, passes unchanged
    limiter, begin = Limiter(Limits.of(policy, RATE, 1.01), RATE), 0
    for end in data.ends.tolist()[:1]:
        told = np.stack([limiter(one) for one in actions[begin:end]])
        np.testing.assert_allclose(told, actions[begin:end], atol=1e-5)


def test_an_older_checkpoint_knows_the_range_alone():
    policy = small.policy(small.tiny("short"))
    content = {k: v for k, v in policy.spec.to_dict().items() if k not in ("velocity", "jerk")}
    policy.spec = DataSpec.from_dict(content)
    limits = Limits.of(policy, RATE)
    assert np.isinf(np.asarray(limits.velocity)).all()
    assert np.isfinite(np.asarray(limits.high)[2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"hold": [0, 0], "velocity": [1, 2, 3]}, "limits.velocity has 3 numbers, a command 2"),
        ({"hold": 0, "jerk": 0}, r"limits.jerk = \[0.0\]"),
        ({"hold": 0, "low": NAN}, "limits.low"),
        ({"hold": 0, "low": 1, "high": 0}, "swap them"),
    ],
)
def test_limits_that_are_none_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        Limits(**options)
    with pytest.raises(ConfigError, match=r"number 0 of a command: a stop may take .* control steps"):
        Limiter(Limits(NAN, velocity=1e3, jerk=1e-3), RATE)
