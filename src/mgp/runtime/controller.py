"""A policy drives a robot at a fixed rate. The loop never waits for a plan.

Each control step: look, take in a plan that has come, ask for one that is due, give a command. The plan in hand goes on
while the next one is made (`worker.py`); when that comes, it joins at the step the robot has got to (`planning.py`).
What is bad does not get in (`guards.py`), what is wild does not get out (`limiter.py`), and all of it is written down
(`log.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, Self

import numpy as np

from mgp.policies.base import Policy
from mgp.policies.driver import Driver
from mgp.runtime.clock import Clock, SystemClock
from mgp.runtime.doubt import Alarm, Doubt
from mgp.runtime.guards import Guards, Seen, Watch
from mgp.runtime.limiter import Limiter, Limits
from mgp.runtime.log import TRACED, ControlLog, Event, StepNote
from mgp.runtime.planning import Planning
from mgp.runtime.robot import Robot
from mgp.runtime.worker import Background, Worker

Observer = Callable[["Controller", Seen, StepNote], None]  # is shown each step when it is over, e.g. to record it


class Controller:
    """One episode of one robot: `with Controller(policy, robot) as controller: log = controller.run(seconds=10)`."""

    def __init__(
        self,
        policy: Policy,
        robot: Robot,
        rate: float = 20.0,
        *,
        mode: str = "frozen",
        every: int | None = None,
        guards: Guards | None = None,
        limits: Limits | Literal["demonstrated"] | None = "demonstrated",
        alarm: Alarm | None = None,
        start: np.ndarray | None = None,
        clock: Clock | None = None,
        worker: Worker | None = None,
        observers: tuple[Observer, ...] = (),
        seed: int = 0,
    ):
        """`rate`: control steps a second, that of the demonstrations. `mode`: one of `planning.MODES`. `every`: steps
        between two looks, else as the policy says. `limits`: None gives commands as they are planned. `start` (A,):
        where the robot stands, in the units of a command. `clock` and `worker`: others than the system's and a thread;
        a worker is one controller's.
        """
        self.policy, self.robot, self.rate = policy, robot, float(rate)
        self.clock, self.guards, self.observers = clock or SystemClock(), guards or Guards(), observers
        self.driver, self.watch, self.doubt = (
            Driver(policy, [seed], trace=True),
            Watch(policy, self.guards),
            Doubt(alarm),
        )
        worker = worker or Background(self.clock)
        self.planning = Planning(self.driver, worker, self.rate, mode, every, self.guards)
        chosen = Limits.of(policy, self.rate) if limits == "demonstrated" else limits
        self.limiter = None if chosen is None else Limiter(chosen, self.rate, start)
        spec, width = getattr(policy, "spec", None), self.driver.memory.last.shape[-1]
        still = spec.hold_command if spec else chosen.hold if chosen else 0.0
        self.still = np.broadcast_to(np.asarray(still, np.float64), width)  # (A,) NaN: the last command goes on
        self.log = ControlLog(
            str(getattr(policy, "label", type(policy).__name__)),
            self.rate,
            mode,
            [None if math.isnan(value) else value for value in self.still.tolist()],
            seed,
        )
        self.began = self._next = self.clock.now()
        self._kinds: set[str] = set()  # of events in this step and in the one before:
        self._before: set[str] = set()  # of a row of the same kind only the first is written down

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.planning.worker.close()

    def run(self, seconds: float | None = None, steps: int | None = None) -> ControlLog:
        """Drive for so long, or until the robot says that it is `done`, then come to rest."""
        most = steps if steps is not None else math.inf if seconds is None else round(seconds * self.rate)
        self._next = self.clock.now()
        try:
            while self.log.total < most and not self.finished:
                self.step()
                self._pace()
        except BaseException:
            with suppress(Exception):  # the first error is the one to be told
                self.rest()
            raise
        self.rest()
        if self.planning.end(lambda: self.clock.sleep(1 / self.rate)):
            self.log.trace = self.policy.trace(self.driver.memory, 0)
        return self.log

    @property
    def finished(self) -> bool:
        return bool(getattr(self.robot, "done", False))

    def step(self) -> None:
        """One control step, without the pause after it."""
        now, step = self.clock.now(), self.log.total
        self._before, self._kinds = self._kinds, set()
        seen = self._look(now)
        self._collect(step)
        if seen.frame is not None and self.planning.due(step):
            self.planning.ask(step)
            self._collect(step)  # a plan that takes no time is there already
        plan, place = len(self.log.plans) - 1, self.driver.taken
        wanted = self._choose(now)
        held, wanted = wanted is None, self._stay() if wanted is None else wanted
        given = self._give(wanted, held)
        age = None if self.watch.time is None else now - self.watch.time
        sure = self.log.plans[-1].confidence if self.log.plans else None
        note = StepNote(now - self.began, age, plan, place, held, sure, wanted.tolist(), given.tolist())
        self.log.steps.append(note)
        self.log.total += 1
        for observer in self.observers:
            observer(self, seen, note)

    def rest(self) -> None:
        """Come to rest inside the limits, and hold. A robot that is done is left alone."""
        while not self.finished and self.limiter is not None:
            command = self.limiter.brake()
            if command is None:
                break
            self.robot.command(command)
            self.clock.sleep(1 / self.rate)
        if not self.finished:
            self.robot.hold()

    def _look(self, now: float) -> Seen:
        if not self.policy.observation_shapes:  # it looks at nothing
            self.watch.time = now
            return Seen({})
        try:
            seen = self.watch(self.robot.observe(), now)
        except Exception as error:  # the driver of a camera may raise anything, and the arm must not fall
            seen = Seen(None, "missing", f"{type(error).__name__}: {error}")
        if seen.frame is None:
            self._say(seen.kind, seen.text)
            self.driver.miss(0)
        else:
            self.driver.see(0, seen.frame)
        return seen

    def _collect(self, step: int) -> None:
        note = self.planning.collect(step, self._say)
        if note is None:
            return
        self.log.plans.append(note)
        self.driver.memory.traced = len(self.log.plans) < TRACED
        if self.doubt.look(note.confidence):
            self._say("unsure" if self.doubt.unsure else "sure again", f"confidence {note.confidence:.4f}")

    def _choose(self, now: float) -> np.ndarray | None:
        """The action (A,) of this step, None to hold."""
        if self.driver.chunk is None or (self.planning.mode == "wait" and self.planning.thinking):
            self._say("waiting", "the plan is not there yet")
        elif self.watch.time is None or now - self.watch.time > self.guards.blind + 1e-9:
            self._say("blind", f"no good observation for {self.guards.blind} s")
        elif self.doubt.holding:
            self._say("held", "confidence stays low")
        elif self.planning.coasts:
            self._say("coasting", "the plan in hand is over, and the next is not there yet: the last action goes on")
            return self.driver.coast()[0]
        elif not self.driver.left:
            self._say("run out", "the plan in hand is over, and the next is not there yet")
        else:
            return self.driver.take()[0, 0]
        return None

    def _give(self, wanted: np.ndarray, held: bool) -> np.ndarray:
        """Command the robot; returns the command (A,)."""
        command = None if held else wanted
        if self.limiter is not None:
            command = self.limiter.brake() if held else self.limiter(wanted)
        if command is None:
            self.robot.hold()
        else:
            self.robot.command(np.array(command, np.float32))
        given = wanted if command is None else np.asarray(command, np.float32)
        if held:
            self.driver.give(given[None])
        else:
            self.driver.amend(given[None])
            if not np.allclose(given, wanted, 1e-5, 1e-6):
                self._say("limited", f"by {np.abs(given - wanted).max():.4g} at most")
        return given

    def _stay(self) -> np.ndarray:
        """(A,) the command that holds."""
        return np.where(np.isnan(self.still), self.driver.given[-1][0], self.still).astype(np.float32)

    def _pace(self) -> None:
        """Sleep until the next step. Steps that were missed are not made up for: a burst of commands is no motion."""
        period, now = 1 / self.rate, self.clock.now()
        self._next += period
        if now > self._next:
            self._say("overrun", f"{now - self._next:.3f} s late")
            self._next = now
        else:
            self.clock.sleep(min(self._next - now, period))  # whatever the clock did meanwhile

    def _say(self, kind: str, text: str) -> None:
        self.log.counts[kind] += 1
        self._kinds.add(kind)
        if kind not in self._before:
            self.log.events.append(Event(self.log.total, kind, text))
