"""The loop: what is run when, whatever the plans and the sensors do."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np
import pytest
from robots import RATE, Cloudy, Counting, Moody, Scripted, controlled

from mgp.errors import ConfigError, ObservationError, UnknownNameError
from mgp.policies.base import Chunk
from mgp.policies.random import RandomPolicy
from mgp.runtime import Alarm, Background, Controller, Guards, Limits, Reading, Simulated, SystemClock, VirtualClock


def actions(*plans: tuple[int, Iterable[int]]) -> list[float]:
    """The actions `range` of the plans of some steps."""
    return [100.0 * step + place for step, places in plans for place in places]


# --- plans that come later -------------------------------------------------------------------------------------------


def test_a_plan_that_takes_no_time_is_run_at_once():
    controller, robot = controlled(Counting())
    log = controller.run(steps=10)
    assert robot.told[:10] == actions((0, range(4)), (4, range(4)), (8, range(2)))
    assert [one.passed for one in log.plans] == [0, 0, 0]
    assert log.counts == {}


@pytest.mark.parametrize("mode", ["frozen", "naive"])
def test_the_plan_in_hand_goes_on_and_a_new_one_joins_where_the_robot_is(mode):
    policy = Counting()
    controller, robot = controlled(policy, delay=0.1, mode=mode)
    log = controller.run(steps=12)
    held: list[float | None] = [None, None]  # nothing to do before the first plan
    assert robot.told[:12] == held + actions((0, range(4)), (4, range(2, 6)), (8, range(2, 4)))
    # the plan of step 0 began at step 2, was due at step 4 and went on until the next was there
    assert [(one.asked, one.came, one.passed) for one in log.plans] == [(0, 2, 0), (4, 6, 2), (8, 10, 2)]
    assert [one["executed"] for one in policy.given] == [None, 2, 4]
    assert [one["ahead"] for one in policy.given] == ([0, 2, 2] if mode == "frozen" else [0, 0, 0])
    assert policy.joins == [2, 2]
    assert log.counts == {"waiting": 2}
    assert [one.jump for one in log.plans] == [[], [402.0 - 4.0], [802.0 - 406.0]]


def test_what_is_committed_is_what_is_run():
    policy = Counting()
    policy.past = 3
    controller, robot = controlled(policy, delay=0.15)
    controller.run(steps=30)
    assert len(policy.given) == 8
    for one in policy.given[1:-1]:  # the last is not there at the end
        told, step = one["told"], one["step"]
        run = [0.0 if value is None else value for value in robot.told]
        assert told.ahead == 3
        assert told.actions[0, :3, 0].tolist() == run[step - 3 : step], "what was given before now"
        assert told.actions[0, 3:6, 0].tolist() == run[step : step + 3], "and what will be until the plan is there"


def test_a_robot_that_waits_holds_while_it_thinks():
    controller, robot = controlled(Counting(), delay=0.1, mode="wait")
    log = controller.run(steps=14)
    none: list[float | None] = [None, None]
    assert robot.told[:14] == [*none, *actions((0, range(4))), *none, *actions((6, range(4))), *none]
    assert all(one.passed == 0 for one in log.plans)


def test_it_asks_early_enough_for_a_short_plan():
    """Seven actions, five to be run, and four steps to think: asked again as soon as a plan is there."""
    controller, robot = controlled(Counting(run=5, planned=7), delay=0.2, guards=Guards(coast=0.0))
    log = controller.run(steps=40)
    # a plan is run from its fifth action to its seventh, or from its fourth after a hold, and the next takes four steps
    assert [step for step in range(4, 36) if robot.told[step] is None] == [12, 20, 28]
    assert log.counts["run out"] == sum(value is None for value in robot.told[:40]) - 4
    controller, robot = controlled(Counting(run=5, planned=8), delay=0.2)
    controller.run(steps=40)
    assert None not in robot.told[4:40], "eight are enough"


def test_a_plan_that_is_over_goes_on_with_its_last_action_for_a_while():
    """Seven actions and four steps to think: one step in four has no action of its own."""
    policy = Counting(run=5, planned=7)
    controller, robot = controlled(policy, delay=0.2)
    log = controller.run(steps=41)
    assert robot.told[4:17] == actions((0, range(5)), (5, range(4, 7)), (5, [6]), (9, range(4, 7)), (9, [6]))
    assert None not in robot.told[4:41]
    assert log.counts == {"waiting": 4, "coasting": 8}
    for one in policy.given[1:-1]:
        told, step = one["told"], one["step"]
        assert told.ahead == 4
        assert told.actions[0, :4, 0].tolist() == robot.told[step : step + 4], "it is told of the action that goes on"


@pytest.mark.parametrize(("beat", "asked"), [(1, [0, 4, 8, 12, 16]), (4, [0, 5, 9, 13, 17])])
def test_it_looks_where_a_token_begins(beat, asked):
    """A step to think: the first plan begins at step 1, so that tokens of four actions begin at 5, 9 and so on."""
    policy = Counting()
    policy.beat = beat
    log = controlled(policy, delay=0.05)[0].run(steps=19)
    assert [one.asked for one in log.plans] == asked
    policy = Counting(run=5, planned=7)
    policy.beat = 4
    controller, robot = controlled(policy, delay=0.2)
    controller.run(steps=41)
    assert None not in robot.told[4:41], "but never so late that the plan in hand is over"


@pytest.mark.parametrize(("coast", "steps"), [(0.0, 0), (0.1, 2), (0.2, 4)])
def test_it_does_not_coast_for_longer_than_was_said(coast, steps):
    clock = VirtualClock()
    controller, robot = controlled(
        Counting(run=2, planned=3), clock=clock, worker=Moody(clock, 0, 1000), guards=Guards(coast=coast)
    )
    robot.clock = clock
    log = controller.run(steps=12)
    held: list[float | None] = [None] * (12 - 3 - steps)
    assert robot.told[:12] == actions((0, range(3)), (0, [2] * steps)) + held
    assert log.counts["coasting"] == steps
    assert log.counts["run out"] == len(held)


def test_a_plan_may_take_a_step_longer_than_expected_where_it_is_not_known_exactly():
    """Seven actions, five to be run, two steps to think, and now and then three, as on a busy machine."""
    held = []
    for spare in (0, Background.spare):
        clock = VirtualClock()
        worker = Moody(clock, *([2] * 5 + [3]) * 3, expected=2)
        worker.spare = spare
        controller, robot = controlled(Counting(run=5, planned=7), clock=clock, worker=worker, guards=Guards(coast=0.0))
        robot.clock = clock
        controller.run(steps=100)
        held.append(robot.told[2:100].count(None))
    assert held == [3, 0]


def test_looks_as_often_as_it_is_told_to():
    policy = Counting()
    controller, _ = controlled(policy, every=2)
    controller.run(steps=7)
    assert [one["step"] for one in policy.given] == [0, 2, 4, 6]


def test_a_plan_that_is_late_is_counted_and_bridged():
    policy = Counting()
    clock = VirtualClock()
    controller, robot = controlled(policy, clock=clock, worker=Moody(clock, 1, 1, 5))
    robot.clock = clock
    log = controller.run(steps=20)
    assert None not in robot.told[1:20], "the plan in hand bridges it"
    late = [one for one in log.plans if one.late]
    assert [(one.asked, one.came, one.ahead, one.passed) for one in late] == [(8, 13, 1, 5)]
    assert robot.told[9:14] == [*actions((4, range(5, 9))), 805.0]
    assert log.counts == {"waiting": 1, "late": 3}, "the steps 10 to 12"
    assert [one.kind for one in log.events] == ["waiting", "late"]


def test_a_plan_that_comes_after_the_last_is_over_finds_the_robot_holding():
    clock = VirtualClock()
    worker = Moody(clock, 1, 6)
    controller, robot = controlled(Counting(run=4, planned=6), clock=clock, worker=worker, guards=Guards(coast=0.0))
    robot.clock = clock
    controller.run(steps=14)
    # asked for at step 4 with three actions left, there at step 10: it goes on from its fourth until the next is there
    assert robot.told[1:12] == [
        *actions((0, range(6))),
        None,
        None,
        None,
        *actions((4, range(3, 4)), (10, range(1, 2))),
    ]


# --- plans that do not come -------------------------------------------------------------------------------------------


class Faulty(Counting):
    def __init__(self, faults: dict[int, object], **options):
        super().__init__(**options)
        self.faults, self.calls = faults, 0

    def plan(self, observation, memory, observed=None, executed=None):
        fault = self.faults.get(self.calls)
        self.calls += 1
        if isinstance(fault, Exception):
            raise fault
        chunk = super().plan(observation, memory, observed, executed)
        return chunk if fault is None else fault(chunk)


def test_a_plan_that_fails_changes_nothing_and_is_asked_for_again():
    policy = Faulty({1: ObservationError("a cloud of wool"), 2: RuntimeError("out of memory")})
    controller, robot = controlled(policy)
    log = controller.run(steps=10)
    assert robot.told[:10] == actions((0, range(6)), (6, range(4)))
    assert [one["executed"] for one in policy.given] == [None, 6], "as if it had not been asked at 4 and 5"
    assert log.counts["failed"] == 2
    assert "ObservationError: a cloud of wool" in [one.text for one in log.events]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda chunk: chunk._replace(actions=chunk.actions * np.nan), "NaN or Inf"),
        (lambda chunk: chunk._replace(actions=chunk.actions[:, :, [0, 0]]), "shape (1, 12, 2)"),
        (lambda chunk: chunk._replace(actions=chunk.actions[:, :0]), "shape (1, 0, 1)"),
        (lambda chunk: Chunk(chunk.actions[0], 4), "shape (12, 1)"),
    ],
)
def test_a_bad_plan_is_refused_and_the_one_in_hand_goes_on(fault, said):
    refused = []
    policy = Faulty({1: fault})
    policy.refused = lambda memory: refused.append(True)  # type: ignore[method-assign]
    controller, robot = controlled(policy)
    log = controller.run(steps=9)
    assert robot.told[:9] == actions((0, range(5)), (5, range(4))), "asked again at once"
    assert refused == [True]
    assert [one.kind for one in log.events] == ["refused plan"]
    assert said in log.events[0].text


def test_after_too_many_failures_the_robot_holds_and_the_error_is_told():
    policy = Faulty(dict.fromkeys(range(1, 99), RuntimeError("broken")))
    controller, robot = controlled(policy, guards=Guards(failures=3))
    with pytest.raises(RuntimeError, match="broken"):
        controller.run(steps=99)
    assert robot.told[-1] is None
    assert len(robot.told) == 7, "steps 4, 5 and 6 failed"


def test_a_camera_that_raises_counts_as_missing_and_an_arm_that_does_is_told():
    def broken(step, now):
        if step in (2, 3):
            raise OSError("unplugged")
        return robot.frame()

    controller, robot = controlled(Counting(), reading=broken)
    log = controller.run(steps=8)
    assert log.counts["missing"] == 2
    assert log.events[0].text == "OSError: unplugged"

    class Jammed(Scripted):
        def command(self, action):
            super().command(action)
            if self.step == 3:
                raise OSError("jammed")

    clock = VirtualClock()
    arm = Jammed(clock)
    controller = Controller(Counting(), arm, RATE, clock=clock, worker=Simulated(clock), limits=None)
    with pytest.raises(OSError, match="jammed"):
        controller.run(steps=8)
    assert arm.told[-1] is None, "it was asked to hold"


# --- sensors ----------------------------------------------------------------------------------------------------------


def dropping(probability: float, burst: int = 1, seed: int = 0):
    """Readings that are withheld; the first always comes."""
    random = np.random.default_rng(seed)
    gone: set[int] = set()
    for step in range(1, 400):
        if random.random() < probability / burst:
            gone |= set(range(step, step + burst))
    return gone - {0}


@pytest.mark.parametrize("delay", [0.0, 0.1])
@pytest.mark.parametrize(("probability", "burst"), [(0.0, 1), (0.35, 1), (0.5, 1), (0.7, 1), (0.5, 6)])
def test_dropouts_are_run_over(probability, burst, delay):
    gone = dropping(probability, burst)
    policy = Counting(planned=40)
    controller, robot = controlled(
        policy, delay, reading=lambda step, now: None if step in gone else Reading(robot.frame(), now, step)
    )
    log = controller.run(steps=200)
    assert log.counts["missing"] == len([step for step in gone if step < 200])
    assert all(one["step"] not in gone for one in policy.given), "no plan is made without a frame"
    if not delay:
        assert None not in robot.told[:200]
    # every action is the one that some plan had for this very step
    for step, value in enumerate(robot.told[:200]):
        if value is not None and not delay:
            made, place = divmod(int(value), 100)
            assert made + place == step


def test_on_permanent_loss_the_plan_runs_to_the_stated_horizon_and_then_holds():
    policy = Counting(planned=90)
    controller, robot = controlled(
        policy,
        guards=Guards(blind=1.0),
        reading=lambda step, now: Reading(robot.frame(), now, step) if step < 6 else None,
    )
    log = controller.run(steps=60)
    # the last frame is of step 5; one second later is step 25
    assert robot.told[4:26] == actions((4, range(22)))
    assert robot.told[26:60] == [None] * 34
    assert log.counts["blind"] == 34
    assert [(one.step, one.kind) for one in log.events] == [(6, "missing"), (26, "blind")]
    assert log.array("age")[25] == pytest.approx(1.0)


def test_a_plan_that_is_shorter_than_the_horizon_ends_in_holding_too():
    controller, robot = controlled(
        Counting(planned=7), reading=lambda step, now: Reading(robot.frame(), now, step) if step < 1 else None
    )
    controller.run(steps=12)
    assert robot.told[:12] == [*actions((0, range(7))), *[None] * 5]


def test_sight_that_comes_back_is_planned_from_at_once():
    policy = Counting(planned=90)
    controller, robot = controlled(
        policy,
        guards=Guards(blind=0.5),
        reading=lambda step, now: None if 5 <= step < 40 else Reading(robot.frame(), now, step),
    )
    controller.run(steps=42)
    assert robot.told[20:40] == [None] * 20
    assert robot.told[40:42] == actions((40, range(2)))
    assert policy.given[-1]["executed"] == 11, "4 to 14 were run of the last plan"


def test_a_camera_that_sees_nothing_counts_as_missing():
    """An empty cloud: the plan in hand goes on, then the robot holds, and the first full one is planned from."""
    empty = {"cloud": np.zeros((0, 3), np.float32)}
    policy = Cloudy(planned=90)
    controller, robot = controlled(
        policy,
        guards=Guards(blind=0.5),
        reading=lambda step, now: empty if step < 2 or 6 <= step < 30 else Cloudy.frame(step),
    )
    log = controller.run(steps=32)
    held: list[float | None] = [None] * 14
    assert robot.told[:32] == [None, None, *actions((2, range(14))), *held, *actions((30, range(2)))]
    assert log.counts["refused"] == 26
    assert [one["step"] for one in policy.given] == [2, 30]
    assert log.events[0][1:] == ("refused", "'cloud' has shape (0, 3), the policy was trained on (16, 3)")


def test_a_frame_before_the_first_plan_is_waited_for():
    controller, robot = controlled(
        Counting(), reading=lambda step, now: None if step < 5 else Reading(robot.frame(), now, step)
    )
    controller.run(steps=8)
    assert robot.told[:8] == [*[None] * 5, *actions((5, range(3)))]


def test_a_plain_frame_will_do():
    controller, robot = controlled(Counting(), reading=lambda step, now: robot.frame())
    assert controller.run(steps=6).counts == {}


def test_who_looks_at_nothing_needs_no_observations():
    clock = VirtualClock()
    robot = Scripted(clock, reading=lambda step, now: 1 / 0)
    policy = RandomPolicy([-1.0], [1.0], 3)
    log = Controller(policy, robot, RATE, clock=clock, worker=Simulated(clock, 0.05)).run(steps=20)
    assert robot.told[0] is None
    assert None not in robot.told[1:20:3]
    assert "missing" not in log.counts


# --- time -------------------------------------------------------------------------------------------------------------


class Slow(Scripted):
    """Takes its time over some commands."""

    def __init__(self, clock, pauses):
        super().__init__(clock)
        self.pauses = pauses

    def command(self, action):
        self.clock.sleep(self.pauses.get(self.step, 0.0))
        super().command(action)


def test_steps_that_were_missed_are_counted_and_not_made_up_for():
    clock = VirtualClock()
    robot = Slow(clock, {3: 0.32, 7: 0.06})
    controller = Controller(Counting(), robot, RATE, clock=clock, worker=Simulated(clock), limits=None)
    log = controller.run(steps=10)
    assert log.counts["overrun"] == 2
    times = np.diff(log.array("time"))
    assert times.round(3).tolist() == [0.05, 0.05, 0.05, 0.32, 0.05, 0.05, 0.05, 0.06, 0.05], "no burst afterwards"
    assert len(robot.told) == 11


def test_a_clock_that_jumps_neither_stops_nor_rushes_the_loop():
    class Jumping(VirtualClock):
        slept = 0.0

        def sleep(self, seconds):
            assert 0 <= seconds <= 1 / RATE + 1e-9
            super().sleep(seconds)
            if round(self.time * RATE) == 5:
                self.time -= 3.0  # no monotonic clock does so; a machine that was moved may have none

    clock = Jumping()
    robot = Scripted(clock)
    log = Controller(Counting(), robot, RATE, clock=clock, worker=Simulated(clock), limits=None).run(steps=40)
    assert len(robot.told) == 41
    assert log.counts.keys() <= {"ahead", "overrun", "blind", "out of order"}


def test_a_robot_whose_stamps_jump_is_blind_until_they_are_right_again():
    def reading(step, now):
        return Reading({"state": np.array([step, 0], np.float32)}, now + (50.0 if 5 <= step < 9 else 0.0), step)

    controller, robot = controlled(Counting(), reading=reading)
    log = controller.run(steps=20)
    assert log.counts["ahead"] == 4
    assert robot.told[9:13] == actions((9, range(4))), "planned from the first good one"


def test_in_real_time_the_loop_keeps_its_rate_beside_a_policy_that_does_not():
    class Dreamer(Counting):
        def plan(self, *arguments):
            time.sleep(0.06)
            return super().plan(*arguments)

    class Arm(Scripted):
        def command(self, action):
            super().command(action)
            stamps.append(time.monotonic())

    stamps: list[float] = []
    clock = SystemClock()
    arm = Arm(clock)
    with Controller(Dreamer(run=10, planned=60), arm, 50.0, clock=clock, limits=None) as controller:
        log = controller.run(steps=60)
    assert isinstance(controller.planning.worker, Background)
    assert len(arm.told) == 61
    assert None not in arm.told[20:60], "it never waits for a plan"
    assert len(log.plans) >= 3
    assert all(one.passed >= 3 for one in log.plans if one.jump), "60 ms are three steps at 50 Hz"
    assert np.median(np.diff(stamps)) == pytest.approx(0.02, abs=0.01)
    assert not controller.planning.worker._thread.is_alive()


def test_a_policy_that_hangs_blocks_neither_the_loop_nor_its_end():
    release = []

    class Hanging(Counting):
        def plan(self, *arguments):
            while len(self.given) == 1 and not release:
                time.sleep(0.01)
            return super().plan(*arguments)

    arm = Scripted(SystemClock())
    start = time.monotonic()
    with Controller(Hanging(planned=8), arm, 100.0, limits=None) as controller:
        log = controller.run(steps=30)
    assert time.monotonic() - start < 10
    assert arm.told[-1] is None
    assert log.counts["run out"] > 0
    assert log.trace is None
    release.append(True)


# --- confidence -------------------------------------------------------------------------------------------------------


def test_an_alarm_is_raised_when_confidence_stays_low_and_ends_when_it_does_not():
    sure = [0.9, 0.1, 0.9, 0.1, 0.1, 0.1, 0.1, 0.8, 0.1]
    for then in ("report", "hold"):
        policy = Counting(run=2, confidence=lambda look: sure[min(look, 8)])
        controller, robot = controlled(policy, alarm=Alarm(0.5, looks=3, then=then))
        log = controller.run(steps=18)
        assert [(one.step, one.kind) for one in log.events if "sure" in one.kind] == [
            (10, "unsure"),
            (14, "sure again"),
        ]
        assert [value is None for value in robot.told[:18]] == [
            then == "hold" and 10 <= step < 14 for step in range(18)
        ]
        assert log.counts["held"] == (4 if then == "hold" else 0)
        assert log.array("confidence")[:6].tolist() == [0.9, 0.9, 0.1, 0.1, 0.9, 0.9]


def test_a_policy_without_confidence_raises_no_alarm():
    policy = Counting(confidence=lambda look: np.nan)
    log = controlled(policy, alarm=Alarm(0.5, looks=1))[0].run(steps=9)
    assert log.counts == {}
    assert np.isnan(log.array("confidence")).all()


# --- what is asked for ------------------------------------------------------------------------------------------------


def test_mistakes_are_named():
    with pytest.raises(UnknownNameError, match=r"unknown mode of a controller 'freeze'\. Did you mean 'frozen'"):
        controlled(Counting(), mode="freeze")
    with pytest.raises(ConfigError, match="every = 0"):
        controlled(Counting(), every=0)
    with pytest.raises(ConfigError, match=r"Guards.age = 0"):
        Guards(age=0)
    with pytest.raises(ConfigError, match="the least comes first"):
        Guards(ranges={"state": (1, 0)})
    with pytest.raises(ConfigError, match=r"alarm\.below = 3"):
        Alarm(3)
    with pytest.raises(UnknownNameError, match="stop"):
        Alarm(0.3, then="stop")  # type: ignore[arg-type]


def test_limits_bind_the_commands_and_the_policy_knows_what_was_given():
    clock = VirtualClock()
    robot, policy = Scripted(clock), Counting()
    limits = Limits(np.nan, low=0, high=3, velocity=100, jerk=1e6)
    controller = Controller(policy, robot, RATE, clock=clock, worker=Simulated(clock), limits=limits)
    log = controller.run(steps=6)
    assert max(value for value in robot.told if value is not None) <= 3
    assert log.counts["limited"] == 2
    assert controller.driver.given[-1][0, 0] == robot.told[5]
    assert log.array("wanted")[4:, 0].tolist() == [400, 401]
    assert log.array("given")[4:, 0].max() <= 3
