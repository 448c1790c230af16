"""Who drives: frames, gaps and chunks. A robot that is asked frame by frame acts as it was evaluated."""

from __future__ import annotations

import functools

import fit
import gymnasium as gym
import numpy as np
import pytest
import torch

import small
from mgp.envs.base import RobotEnv
from mgp.errors import ConfigError, ObservationError
from mgp.evaluation import Missing, rollout
from mgp.policies.base import Chunk, Memory, Policy
from mgp.policies.driver import Driver, History
from mgp.policies.learned import LearnedPolicy
from mgp.policies.random import RandomPolicy

STEPS = 26  # past the end of a plan of 24


class Waves(RobotEnv):
    """A seeded wave that the actions shift, looked at as the synthetic demonstrations are."""

    def __init__(self, observation: str = "state", horizon: int = STEPS):
        self.name, self.horizon, self.width = "toy/waves", horizon, small.STATE[observation]
        self.hold_action = np.zeros(small.ACTION, np.float32)
        self.action_space = gym.spaces.Box(-1, 1, (small.ACTION,))
        self.cloud = observation == "cloud"
        self.actions: list[np.ndarray] = []
        self.looks: list[int] = []

    def reset(self, *, seed=None, options=None):
        self.phase, self.steps, self.shift = np.random.default_rng(seed).uniform(0, 6), 0, 0.0
        return self.observe(), {}

    def advance(self, action):
        self.actions.append(np.array(action))
        self.shift += 0.1 * float(action[0])
        self.steps += 1
        return 0.0, False, self.steps >= self.horizon, {"success": False}

    def observe(self):
        self.looks.append(self.steps)
        wave = 0.3 * np.sin(self.steps / 8 + self.phase + np.arange(self.width)) + self.shift
        frame = {"state": wave.astype(np.float32)}
        if self.cloud:
            points = np.random.default_rng(self.steps).normal(0, 0.1, (small.POINTS, 3))
            frame["cloud"] = (wave[:3] + points).astype(np.float32)
        return frame


def evaluated(policy: Policy, seed: int, missing: Missing, observation: str = "state") -> np.ndarray:
    """(STEPS, A) of an evaluation."""
    env = Waves(observation)
    rollout(policy, [env], [seed], missing=missing, full_length=True)
    return np.stack(env.actions)


def acted(policy: Policy, seed: int, missing: Missing, observation: str = "state") -> np.ndarray:
    """(STEPS, A) of `act`: None for every frame that a plan without an observation would have seen."""
    env, run = Waves(observation), policy.execution_horizon
    frame, _ = env.reset(seed=seed)
    buffer = {key: value.copy() for key, value in frame.items()}
    policy.reset([seed])
    given: dict[str, np.ndarray] | None = buffer
    for step in range(1, STEPS + 1):
        env.advance(policy.act(given))
        for key, value in env.observe().items():
            buffer[key][:] = value  # a robot that reuses its arrays
        cycle = -(-step // run)
        left = cycle * run - step  # actions still to run until the plan that may see this frame
        withheld = left < policy.history and not missing.arrives(seed, cycle, cycle * run)
        given = None if withheld else buffer
    return np.stack(env.actions)


@functools.cache
def trained(method: str, observation: str, history: int, first: bool, run: int) -> LearnedPolicy:
    changes = {"encoder.history": history, "encoder.first": first, "policy.sampling.execution_horizon": run}
    if method.startswith("mgp"):
        changes |= {"policy.tokenizer.actions_per_token": 2, "policy.sampling.temperature": 1.0}
    return fit.fit(small.tiny_of(method, observation, **changes))[0]


# Which frames, gaps and chunks meet is the driver's business: one policy without and one with a plan of its own see
# every case, the others one with frames between two plans that are never seen, and one where plans share frames.
EVERY = [(first, history, run) for first in (False, True) for history in (1, 2, 3, 5) for run in (2, 6)]
SOME = [(False, 1, 6), (True, 3, 2)]
STEPWISE = [name for name in small.METHODS if small.tiny_of(name).policy.sampling.execution_horizon == 1]


def runs(method: str, run: int) -> int:
    """A policy that looks at every step runs one action, whatever is asked."""
    return 1 if method in STEPWISE else run


def test_who_looks_at_every_step():
    assert STEPWISE == ["act", "prise", "resnet-t"]  # averages chunks, decodes with the newest look, has no chunk
    for method in STEPWISE:
        with pytest.raises(ConfigError, match="execution_horizon = 2"):
            trained(method, "state", 2, False, 2)


CASES = [
    pytest.param(method, *case, marks=pytest.mark.xdist_group(method))
    for method in small.METHODS
    for case in (EVERY if method in ("bc", "mgp-long") else SOME)
]


@pytest.mark.parametrize(("method", "first", "history", "run"), CASES)
def test_acting_frame_by_frame_equals_evaluation(method, first, history, run):
    policy = trained(method, "state", history, first, runs(method, run))
    kept = {}
    for missing in (Missing(), Missing(0.5), Missing(0.3, burst=2), Missing(lost_from=9)):
        kept[missing] = evaluated(policy, 4, missing)
        np.testing.assert_array_equal(acted(policy, 4, missing), kept[missing])
    assert kept[Missing()].std(0).max() > 1e-4, "it does move"
    # gaps tell, but to who runs open loop: its one plan is of the first frame, which is always there
    assert np.array_equal(kept[Missing()], kept[Missing(0.5)]) == (method == "dp3-full")


@small.every_method
def test_acting_on_clouds_equals_evaluation(method):
    policy = trained(method, "cloud", 3, True, runs(method, 2))
    for missing in (Missing(), Missing(0.5)):
        expected = evaluated(policy, 4, missing, "cloud")
        np.testing.assert_array_equal(acted(policy, 4, missing, "cloud"), expected)


@small.every_method
def test_only_the_frames_a_plan_sees_are_looked_at(method):
    """In an evaluation a look may be dear; the first frame is looked at once."""
    seen = [[0, 6, 12, 18, 24], list(range(25))]  # of SOME; after 24 of 26 steps the last plan is made
    if method == "bc":
        seen.append([0, 5, 6, 11, 12, 17, 18, 23, 24])
    for (first, history, run), looks in zip([*SOME, (True, 2, 6)], seen, strict=False):
        env = Waves()
        rollout(trained(method, "state", history, first, runs(method, run)), [env], [4])
        assert env.looks == (list(range(STEPS)) if method in STEPWISE else looks)


def frame(number: int) -> dict[str, np.ndarray]:
    return {"state": np.full(7, number, np.float32)}


def numbers(history: History) -> list[int]:
    return [int(one["state"][0]) for one in history.frames()]


def test_the_first_frame_stands_for_those_before_it_and_stays_in_view():
    for first, seen in ((False, []), (True, [1])):
        history = History(3, first)
        assert numbers(history) == []
        history.push(frame(1))
        assert numbers(history) == [*seen, 1, 1, 1]
        history.push(frame(2))
        assert numbers(history) == [*seen, 1, 1, 2]
        for number in (3, 4):
            history.push(frame(number))
        assert numbers(history) == [*seen, 2, 3, 4]


def test_frames_from_before_a_gap_are_no_history_but_the_first_is():
    history = History(3, True)
    for number in (1, 2, 3):
        history.push(frame(number))
    history.miss()
    assert history.gap
    assert numbers(history) == [1, 1, 2, 3], "nobody looks at them"
    history.push(frame(7))
    assert not history.gap
    assert numbers(history) == [1, 7, 7, 7]
    history.push(frame(8))
    assert numbers(history) == [1, 7, 7, 8]


def test_a_gap_before_the_first_frame_leaves_no_trace():
    history = History(2, True)
    history.miss()
    history.push(frame(5))
    assert numbers(history) == [5, 5, 5]


class Counting(Policy):
    """Numbers its plans and actions, runs as many of them as it is told to, and writes down what it was given."""

    observation_shapes = {"state": (7,)}  # noqa: RUF012

    def __init__(self, runs: list[int], history: int = 2, planned: int = 8):
        self.runs, self.history, self.planned = runs, history, planned
        self.execution_horizon = runs[0]
        self.given: list[tuple[list[int], list[bool], int | None, np.ndarray]] = []

    def begin(self, seeds):
        return Memory(tuple(seeds), np.zeros((len(seeds), small.ACTION), np.float32))

    def plan(self, observation, memory, observed=None, executed=None):
        newest = observation["state"][:, :, 0]
        self.given.append((newest[0].astype(int).tolist(), observed.tolist(), executed, memory.last[:, 0].copy()))
        number = len(self.given)
        actions = 100 * number + np.arange(self.planned, dtype=np.float32)
        batch = np.broadcast_to(actions[None, :, None], (len(memory.seeds), self.planned, small.ACTION))
        return Chunk(batch, self.runs[min(number, len(self.runs)) - 1])


def test_a_chunk_says_how_much_of_it_is_run():
    """More or fewer actions than the policy's usual number, whoever drives."""
    policy = Counting([3, 5, 1, 2])
    policy.reset([0])
    actions = [int(policy.act(frame(number))[0]) for number in range(10)]
    expected = [100, 101, 102, 200, 201, 202, 203, 204, 300, 400]
    assert actions == expected
    assert policy.given == [([0, 0], [True], None, 0), ([2, 3], [True], 3, 102), ([7, 8], [True], 5, 204),
                            ([8, 9], [True], 1, 300)]  # fmt: skip
    env = Waves(horizon=11)
    (result,) = rollout(Counting([3, 5, 1, 2]), [env], [0])
    assert [int(action[0]) for action in env.actions] == [*expected, 401]
    assert result.replans == 4
    assert env.looks == [0, 2, 3, 7, 8, 9]


def test_a_plan_may_come_before_the_chunk_is_run():
    policy = Counting([6])
    driver = Driver(policy, [0, 1])
    assert driver.due
    for row in (0, 1):
        driver.see(row, frame(row))
    chunk = driver.plan()
    assert not driver.due
    np.testing.assert_array_equal(driver.take(2), chunk.actions[:, :2])
    assert not driver.due
    driver.see(0, frame(2))
    driver.miss(1)
    driver.plan()
    assert policy.given[-1][1:3] == ([True, False], 2), "two of six were run"
    np.testing.assert_array_equal(policy.given[-1][3], [101, 101])
    driver.take(6)
    assert driver.due
    driver.plan()
    assert policy.given[-1][2] == 6


@pytest.mark.parametrize(("history", "wanted"), [(1, [0]), (2, [0, 1]), (9, list(range(6)))])
def test_a_driver_wants_the_frames_that_the_next_plan_sees(history, wanted):
    driver = Driver(Counting([6], history), [0])
    assert [left for left in range(6) if driver.wants(left)] == wanted
    assert not Driver(RandomPolicy([0.0], [1.0]), [0]).wants(0), "who is blind wants none"


def test_the_first_observation_must_be_there():
    policy = trained("bc", "state", 2, True, 2)
    policy.reset([0])
    env = Waves()
    first, _ = env.reset(seed=4)
    with pytest.raises(ObservationError, match="the first observation of an episode is missing: wait for one"):
        policy.act(None)
    begun = policy.act(first)  # it may come later
    policy.reset([0])
    np.testing.assert_array_equal(policy.act(first), begun)
    driver = Driver(policy, [0, 1])
    driver.see(0, first)
    with pytest.raises(ObservationError, match="first observation"):
        driver.plan()
    driver.see(1, first)
    driver.plan()


def test_acting_begins_an_episode_by_itself_and_anew_with_reset():
    policy = trained("mgp-long", "state", 2, False, 2).with_sampling(temperature=0.5)
    stream = [Waves().reset(seed=seed)[0] for seed in range(6)]
    alone = [policy.act(one) for one in stream]
    again = [policy.act(one) for one in stream]
    assert not np.array_equal(alone, again), "the plan went on"
    policy.reset([0])
    np.testing.assert_array_equal([policy.act(one) for one in stream], alone)
    alone[0][:] = 99.0  # what is handed out is the caller's
    policy.reset([0])
    assert policy.act(stream[0])[0] != 99.0


def test_who_looks_at_nothing_acts_on_nothing():
    policy = RandomPolicy([-1.0, 0.0], [1.0, 2.0], 3)
    policy.reset([5])
    blind = [policy.act(None) for _ in range(7)]
    policy.reset([5])
    np.testing.assert_array_equal([policy.act({"state": np.zeros(3)}) for _ in range(7)], blind)


def test_a_sensor_that_is_not_there_is_named_in_an_evaluation_as_in_acting():
    policy = trained("bc", "cloud", 2, False, 2)
    with pytest.raises(ObservationError, match=r"observation has no 'cloud' .*record that sensor"):
        policy.act({"state": np.zeros(9, np.float32)})

    class Blind(Waves):
        def observe(self):
            return {"state": super().observe()["state"]}

    with pytest.raises(ObservationError, match=r"observation has no 'cloud' .*record that sensor"):
        rollout(policy, [Blind("cloud")], [0])


# --- MGP-Long, whose plan goes on when a chunk is not run to its end --------------------------------------------------


@pytest.mark.parametrize("executed", [1, 3, 4, 5, 7, 8])
def test_long_counts_a_token_begun_as_executed_and_keeps_the_prefix(executed):
    changes = {"policy.sampling.execution_horizon": 8, "policy.sampling.mask_ratio": 1.0}
    policy = small.policy(small.tiny("long", **changes))
    plan = [1, 2, 3, 4, 5, 6]

    def forward(seen: torch.Tensor, condition: torch.Tensor, executed: torch.Tensor) -> torch.Tensor:
        told.append(int(executed[0]))
        logits = torch.zeros(*seen.shape, policy.transformer.vocabulary.predicted)
        return logits.scatter(-1, torch.tensor(plan).expand_as(seen)[..., None], 20.0)

    small.plant(policy, forward)
    told: list[int] = []
    driver = Driver(policy, [0], trace=True)
    driver.see(0, frame(0))
    driver.plan()
    driver.take(executed)
    first = policy.trace(driver.memory, 0).tokens[0]
    plan[:], told[:] = [9] * 6, []
    driver.see(0, frame(1))
    chunk = driver.plan()
    begun = -(-executed // 4)
    trace = policy.trace(driver.memory, 0)
    assert set(told) == {begun}
    assert trace.executed.tolist() == [0, begun]
    assert trace.tokens[1].tolist() == [*first[:begun].tolist(), *[9] * (6 - begun)]
    assert (trace.masked[1, :begun] == 0).all()
    whole = policy.actions(torch.from_numpy(trace.tokens[1:2]))[0].numpy()
    np.testing.assert_allclose(chunk.actions[0], whole[executed:], atol=1e-6)  # it goes on where it was broken off
    driver.take(8)
    driver.see(0, frame(2))
    driver.plan()
    assert driver.memory.steps == executed + 8
    trace = policy.trace(driver.memory, 0)
    assert trace.executed.tolist() == [0, begun, -(-(executed + 8) // 4)]
    np.testing.assert_array_equal(trace.tokens[:, :begun], np.repeat(first[None, :begun], 3, axis=0))


def test_the_executed_prefix_is_byte_identical_whatever_part_of_a_chunk_is_run():
    policy = trained("mgp-long", "state", 2, False, 6).with_sampling(mask_ratio=0.9)
    driver, random = Driver(policy, [3], trace=True), np.random.default_rng(0)
    env = Waves()
    driver.see(0, env.reset(seed=1)[0])
    while driver.memory.steps < 20:
        driver.plan()
        for action in driver.take(int(random.integers(1, 7)))[0]:
            env.advance(action)
            driver.see(0, env.observe())
    trace = policy.trace(driver.memory, 0)
    assert len(trace.executed) > 4
    for tokens, done in zip(trace.tokens[1:], trace.executed[1:], strict=True):
        np.testing.assert_array_equal(trace.tokens[-1, :done], tokens[:done])
    for before, tokens, done in zip(trace.tokens, trace.tokens[1:], trace.executed[1:], strict=False):
        np.testing.assert_array_equal(before[:done], tokens[:done])
    assert not np.array_equal(trace.tokens[0], trace.tokens[-1])


@small.every_method
def test_batched_evaluation_equals_episodes_alone(method):
    policy = trained(method, "state", 3, True, runs(method, 2))
    missing, seeds = Missing(0.4), (4, 5, 6)
    together = [Waves() for _ in seeds]
    rollout(policy, together, seeds, missing=missing, full_length=True)
    for env, seed in zip(together, seeds, strict=True):
        np.testing.assert_allclose(np.stack(env.actions), evaluated(policy, seed, missing), rtol=1e-4, atol=1e-5)


# --- plans that are made while actions are taken ----------------------------------------------------------------------


def test_a_plan_that_is_asked_for_joins_where_the_robot_is():
    policy = Counting([4])
    policy.past = 2
    driver = Driver(policy, [0])
    driver.see(0, frame(0))
    driver.plan()
    driver.take(3)
    driver.see(0, frame(1))
    make = driver.ask(ahead=2)
    told = driver.memory.committed
    assert told.ahead == 2
    assert told.actions[0, :, 0].tolist() == [101, 102, *range(103, 108)], "two commands given, and all in hand"
    with pytest.raises(AssertionError, match="one plan at a time"):
        driver.ask()
    assert driver.take(2)[0, :, 0].tolist() == [103, 104]
    assert driver.memory.last[0, 0] == 102, "the memory is the plan's"
    driver.join(make())
    assert driver.memory.last[0, 0] == 104
    assert (driver.taken, driver.left) == (2, 6)
    assert driver.take()[0, 0, 0] == 202
    driver.amend(np.full((1, small.ACTION), 7.0))
    driver.give(np.full((1, small.ACTION), 8.0))  # it was held
    assert [float(one[0, 0]) for one in driver.given] == [7, 8]
    driver.see(0, frame(2))
    driver.plan()
    assert policy.given[-1][2] == 3, "actions since the last plan was asked for; holding is none"
    assert driver.memory.committed is None


def test_a_plan_that_fails_is_as_if_nobody_had_asked():
    class Failing(Counting):
        def plan(self, *arguments):
            if len(self.given) in broken:
                broken.clear()
                raise RuntimeError("broken")
            return super().plan(*arguments)

    broken = [0]
    policy = Failing([4])
    driver = Driver(policy, [0])
    driver.see(0, frame(0))
    with pytest.raises(RuntimeError):
        driver.plan()
    driver.plan()
    assert policy.given[-1][2] is None, "it was the first plan still"
    driver.take(3)
    broken.append(1)
    with pytest.raises(RuntimeError):
        driver.plan()
    assert driver.take()[0, 0, 0] == 103, "the chunk in hand goes on"
    driver.plan()
    assert policy.given[-1][2] == 4


def test_what_is_promised_beyond_what_is_in_hand_is_its_last_action():
    driver = Driver(Counting([4], planned=5), [0])
    driver.see(0, frame(0))
    driver.ask(ahead=3)()
    assert driver.memory.committed is None, "there is no plan yet"
    driver.fail()
    driver.plan()
    driver.take(4)
    driver.ask(ahead=3)
    told = driver.memory.committed
    assert told.ahead == 3
    last = driver.chunk.actions[:, -1]
    np.testing.assert_array_equal(told.actions, np.stack([last] * 3, axis=1))
    assert driver.take().tolist() == [last.tolist()]
    for _ in range(2):
        np.testing.assert_array_equal(driver.coast(), last)
    assert (driver.since, driver.run, driver.left) == (3, 7, 0)
