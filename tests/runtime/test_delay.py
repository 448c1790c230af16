"""Learned policies that take their time: what has been run stays as it was, and plans go on from there."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from robots import RATE

import small
from mgp.evaluation import Missing, rollout
from mgp.policies.mgp import MGP
from mgp.runtime import Controller, EnvRobot, Guards, Reading, Simulated, VirtualClock
from mgp.runtime.simulate import Trial, drive, drive_all
from wave_robot import WaveEnv

HORIZON = 24


def make(horizon: int = HORIZON) -> WaveEnv:
    return WaveEnv("toy/static", horizon)


def short(**changes) -> MGP:
    return small.policy(small.tiny("short", **{"policy.tokenizer.window": 16, **changes}))


def long(**changes) -> MGP:
    restless = {"policy.sampling.mask_ratio": 1.0, "policy.sampling.temperature": 1.0}
    return small.policy(small.tiny("long", **{**restless, **changes}))


def load_long() -> MGP:
    return long()


def episode(policy, delay: float, mode: str = "frozen", seed: int = 4, **options):
    env = make()
    log = drive(policy, env, seed, Trial(lambda: policy, make, delay, mode, limits=None, **options))
    return log, np.stack(env.actions)


def untrained(method: str):
    return small.untrained(small.tiny_of(method))


@pytest.mark.parametrize("method", ["mgp-short", "mgp-long", "bc", "act", "dp3-full"])
@pytest.mark.parametrize("mode", ["frozen", "naive", "wait"])
def test_without_delay_a_controller_acts_as_evaluation_does(method, mode):
    policy = small.policy(small.tiny_of(method)) if method.startswith("mgp") else untrained(method)
    env = make()
    rollout(policy, [env], [4], full_length=True)
    log, actions = episode(policy, 0.0, mode)
    np.testing.assert_array_equal(actions, np.stack(env.actions)[: len(actions)])
    assert log.counts == {}


@pytest.mark.parametrize("mode", ["frozen", "naive", "wait"])
@pytest.mark.parametrize("delay", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("build", [short, long])
def test_the_same_delay_gives_the_same_episode(build, delay, mode):
    first, second = (episode(build(), delay, mode)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(first) == HORIZON


# --- MGP-Long ---------------------------------------------------------------------------------------------------------


class Dropping(EnvRobot):
    """Whose frames are withheld as `missing` says, a step where an evaluation has a control cycle."""

    def __init__(self, missing: Missing, seed: int, clock: VirtualClock, horizon: int = HORIZON):
        super().__init__(make(horizon), seed, clock, full_length=True)
        self.missing, self.seed = missing, seed

    def observe(self):
        reading = super().observe()
        return reading if self.missing.arrives(self.seed, reading.number, reading.number) else None


@pytest.mark.parametrize(
    "missing",
    [*(Missing(share) for share in (0.0, 0.35, 0.5, 0.7)), Missing(0.5, burst=4), Missing(0.35, lost_from=13)],
    ids=str,
)
def test_executed_tokens_stay_byte_identical_whenever_plans_come(missing):
    """Early, in time, late and after dropouts: a token that was begun is never written again."""
    random = np.random.default_rng(3)
    policy = long()
    per = policy.options.tokenizer.actions_per_token

    class Moody(Simulated):
        def submit(self, make):
            super().submit(make)
            self._ready = (self.clock.now() + int(random.integers(0, 7)) / RATE, self._ready[1])

    edited = late = 0
    for seed in range(12):
        clock, snapshots = VirtualClock(), []

        def note(controller, seen, step, snapshots=snapshots):
            planner = controller.driver.memory.planner
            # the next plan is made at once and handed out later; until then the robot runs the one before
            held = (planner.before or [None])[0] if controller.planning.thinking else planner.tokens
            if held is not None:
                began = controller.driver.memory.steps + controller.driver.since
                snapshots.append((-(-began // per), held[0].numpy().copy()))

        robot = Dropping(missing, seed, clock)
        worker = Moody(clock, 0.1)
        log = Controller(
            policy, robot, RATE, clock=clock, worker=worker, limits=None, seed=seed, observers=(note,)
        ).run()
        for begun, tokens in snapshots:
            np.testing.assert_array_equal(snapshots[-1][1][:begun], tokens[:begun])
        edited += len({tokens.tobytes() for _, tokens in snapshots}) - 1
        late += sum(one.late for one in log.plans)
    assert edited > 6, "pending ones are rewritten, in every second episode at least"
    assert late > 3


@pytest.mark.parametrize("blind", [0.5, 3.0])  # seconds; the plan is over after 1.2
@pytest.mark.parametrize("delay", [0.0, 0.1])
def test_when_sight_is_lost_for_ever_the_plan_runs_on_for_a_stated_time_and_then_the_robot_holds(delay, blind):
    policy, clock = long(), VirtualClock()
    robot = Dropping(Missing(lost_from=6), 4, clock, horizon=2 * HORIZON)
    worker = Simulated(clock, delay)
    controller = Controller(policy, robot, RATE, clock=clock, worker=worker, limits=None, guards=Guards(blind=blind))
    first = round(delay * RATE)  # step of the first command
    while controller.log.total < first + 8:  # the plan that was asked for before the loss is there
        controller.step()
        clock.sleep(1 / RATE)
    driver = controller.driver
    tokens, rest, begun = (
        driver.memory.planner.tokens.clone(),
        driver.chunk.actions[0, driver.taken :],
        len(robot.env.actions),
    )
    log = controller.run()
    assert torch.equal(driver.memory.planner.tokens, tokens), "nothing is rewritten blindly"
    last = 5 + round(blind * RATE) + 1 - first  # actions until blind: step 5 has the last frame
    moves = min(last - begun, len(rest))
    commands = np.stack(robot.env.actions[begun:])
    assert begun + len(rest) == HORIZON, "all that was planned"
    np.testing.assert_array_equal(commands[:moves], rest[:moves])
    assert np.abs(rest[:, :2]).min() > 0
    assert len(commands) > moves
    assert (commands[moves:] == 0).all(), "as the scene holds"
    assert log.counts["blind" if blind < 1 else "run out"] == len(commands) - moves


def test_a_late_plan_joins_after_the_token_that_was_begun():
    policy = long(**{"policy.sampling.execution_horizon": 8})
    driver = policy.reset([0])
    driver.memory.traced = True
    frames = [{"state": np.full(7, 0.1 * number, np.float32)} for number in range(3)]
    driver.see(0, frames[0])
    first = driver.plan()
    tokens = driver.memory.planner.tokens.clone()
    driver.take(4)
    driver.see(0, frames[1])
    make_plan = driver.ask(ahead=1)  # it is to be there after one step
    driver.take(6)  # it takes six
    second = make_plan()
    assert driver.memory.planner.frozen == 2, "the token begun by then"
    changed = driver.memory.planner.tokens.clone()
    assert not torch.equal(changed[:, 2:], tokens[:, 2:])
    joined = driver.join(second)
    # at step 10 the third token is half run: it ends as it was planned before
    np.testing.assert_array_equal(joined.actions[0, 6:8], first.actions[0, 10:12])
    np.testing.assert_array_equal(joined.actions[0, 8:], second.actions[0, 8:])
    assert torch.equal(driver.memory.planner.tokens[:, :3], tokens[:, :3])
    assert torch.equal(driver.memory.planner.tokens[:, 3:], changed[:, 3:])
    np.testing.assert_array_equal(policy.trace(driver.memory, 0).tokens[-1], driver.memory.planner.tokens[0].numpy())
    driver.see(0, frames[2])
    driver.plan()
    assert driver.memory.steps == 10


def test_the_network_sees_the_frozen_tokens_unmasked_and_the_time_of_the_observation():
    policy = long()
    driver = policy.reset([0])
    driver.see(0, {"state": np.zeros(7, np.float32)})
    driver.plan()
    driver.take(4)
    kept = driver.memory.planner.tokens[0, :3].clone()
    told = []

    def forward(tokens, condition, executed):
        told.append((tokens[0].clone(), int(executed[0])))
        return torch.zeros(*tokens.shape, policy.transformer.vocabulary.predicted)

    small.plant(policy, forward)
    driver.see(0, {"state": np.ones(7, np.float32)})
    chunk = driver.ask(ahead=5)()  # steps 4 to 8 will have been run: the third token is begun
    mask = policy.transformer.vocabulary.mask
    assert len(told) == 3
    for tokens, executed in told:
        assert executed == 1, "the frame is of step 4"
        assert torch.equal(tokens[:3], kept)
    assert (told[0][0][3:] == mask).all()
    assert (told[1][0][3:] == mask).all()
    driver.join(chunk)
    assert torch.equal(driver.memory.planner.tokens[0, :3], kept)


def test_a_refused_plan_leaves_the_tokens_and_a_failed_one_the_count_of_steps():
    policy = long()
    driver = policy.reset([0])
    driver.see(0, {"state": np.zeros(7, np.float32)})
    first = driver.plan()
    tokens = driver.memory.planner.tokens.clone()
    driver.take(4)
    driver.see(0, {"state": np.ones(7, np.float32)})
    driver.ask(2)()
    assert not torch.equal(driver.memory.planner.tokens, tokens)
    driver.take(1)
    driver.refuse()
    assert torch.equal(driver.memory.planner.tokens, tokens)
    np.testing.assert_array_equal(driver.take()[0, 0], first.actions[0, 5])
    driver.ask()  # never made
    driver.take(1)
    driver.fail()
    driver.plan()
    assert driver.memory.steps == 7


# --- MGP-Short --------------------------------------------------------------------------------------------------------


def test_short_begins_its_window_with_the_tokens_of_what_is_run():
    policy = short(**{"encoder.history": 3})
    driver = policy.reset([0])
    driver.see(0, {"state": np.zeros(7, np.float32)})
    first = driver.plan()
    driver.take(4)
    driver.see(0, {"state": np.ones(7, np.float32)})
    told = []
    forward = policy.transformer.forward

    def note(tokens, condition, executed):
        told.append(tokens[0].clone())
        return forward(tokens, condition, executed)

    small.plant(policy, note)
    chunk = driver.ask(ahead=3)()
    # the window begins two steps before now: 2 + 3 actions are known, which begin two of its four tokens
    known = np.concatenate([first.actions[:, 2:], *[first.actions[:, -1:]] * 4], axis=1)
    expected = policy.tokenize(torch.from_numpy(known))[0]
    for tokens in told:
        assert torch.equal(tokens[:2], expected[:2])
    assert (told[0][2:] == policy.transformer.vocabulary.mask).all()
    assert chunk.actions.shape == first.actions.shape
    assert 0 < chunk.confidence[0] <= 1, "of the tokens that were drawn"
    driver.join(chunk)
    driver.take(1)
    driver.see(0, {"state": np.ones(7, np.float32)})
    told.clear()
    driver.ask(ahead=9)()
    assert (told[0][3:] == policy.transformer.vocabulary.mask).all(), "one token is free in any case"
    assert (told[0][:3] < 16).all()


def test_a_batch_with_delay_equals_its_episodes_alone():
    policy = short()
    view = [small.frames(policy.config, 3, 1, seed) for seed in range(2)]

    def chunks(rows: list[int]) -> np.ndarray:
        driver = policy.reset(rows)
        for number, row in enumerate(rows):
            driver.see(number, {"state": view[0]["state"][row, 0]})
        driver.plan()
        driver.take(4)
        for number, row in enumerate(rows):
            driver.see(number, {"state": view[1]["state"][row, 0]})
        return driver.ask(3)().actions

    together = chunks([0, 1, 2])
    for row in range(3):
        np.testing.assert_allclose(chunks([row])[0], together[row], rtol=1e-4, atol=1e-5)


def test_confidence_is_told_with_each_plan():
    for policy in (short(), long()):
        log, _ = episode(policy, 0.1)
        assert all(0 < one.confidence <= 1 for one in list(log.plans)[:4])


# --- whole episodes ---------------------------------------------------------------------------------------------------


def test_episodes_over_processes_are_those_of_one():
    trial = Trial(load_long, make, 0.1, limits=None)
    alone = drive_all(trial, [1, 2, 3], workers=1, progress=False)
    together = drive_all(trial, [1, 2, 3], workers=2, progress=False)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.array("given"), other.array("given"))
        assert one.success == other.success
        np.testing.assert_array_equal(one.trace.tokens, other.trace.tokens)
    assert [one.seed for one in alone] == [1, 2, 3]


def test_a_simulated_episode_begins_with_the_first_command():
    """A plan that takes eight steps: the first finds the scene as it was, and so does the episode."""
    log, actions = episode(long(), 0.4)
    assert log.counts["waiting"] == 8
    assert len(actions) == HORIZON
    assert log.total == 8 + HORIZON
    robot = EnvRobot(make(), 1, VirtualClock())
    before = robot.observe()
    robot.hold()
    after = robot.observe()
    np.testing.assert_array_equal(before.frame["state"], after.frame["state"])
    assert (before.number, after.number) == (0, 1), "a frame of its own"
    for _ in range(HORIZON - 1):
        assert not robot.done
        robot.hold()
    assert robot.done, "nobody waits for ever"


def test_a_simulator_is_a_robot():
    clock = VirtualClock(5.0)
    robot = EnvRobot(make(), 1, clock)
    reading = robot.observe()
    assert isinstance(reading, Reading)
    assert (reading.time, reading.number) == (5.0, 0)
    assert robot.observe().frame is reading.frame, "nobody looks twice"
    robot.command(np.array([0.1, 0.2, 0.3], np.float32))
    robot.hold()
    np.testing.assert_allclose(robot.env.actions, [[0.1, 0.2, 0.3], [0, 0, 0]], atol=1e-6)
    assert robot.observe().number == 2
    for _ in range(HORIZON - 2):
        assert not robot.done
        robot.hold()
    assert robot.done


def test_demonstrated_limits_change_nothing_that_was_demonstrated():
    """A policy that repeats its demonstration, under guards and limits as they are by default."""
    data = small.demonstrations(lengths=(24,))
    policy = small.policy(small.tiny("long"), data)
    recorded = data.arrays["action"].numpy()
    policy.plan = (
        lambda observation, memory, observed=None, executed=None: (
            type(policy)
            .plan(  # type: ignore[method-assign]
                policy, observation, memory, observed, executed
            )
            ._replace(actions=np.concatenate([recorded, np.zeros((8, 3), np.float32)])[None, memory.steps :])
        )
    )
    env = make()
    log = drive(policy, env, 0, Trial(lambda: policy, make))
    np.testing.assert_allclose(np.stack(env.actions), recorded[: len(env.actions)], atol=1e-5)
    assert "limited" not in log.counts
