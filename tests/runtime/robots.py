"""Robots and policies of which everything is known: what they were told, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgp.policies.base import Chunk, Memory, Policy
from mgp.runtime import Controller, Reading, Simulated, VirtualClock

RATE = 20.0


class Counting(Policy):
    """Action i of the plan of step s is 100 s + i: each action says where it comes from."""

    observation_shapes = {"state": (2,)}  # noqa: RUF012
    history, execution_horizon = 1, 4

    def __init__(self, run: int = 4, planned: int = 12, confidence: Callable[[int], float] | None = None):
        self.execution_horizon, self.planned, self.confidence = run, planned, confidence
        self.given: list[dict[str, Any]] = []  # what each plan was told
        self.joins: list[int] = []

    def begin(self, seeds):
        return Memory(tuple(seeds), np.zeros((len(seeds), 1), np.float32))

    def plan(self, observation, memory, observed=None, executed=None):
        step = int(observation["state"][0, -1, 0])
        told = memory.committed
        self.given.append({"step": step, "executed": executed, "ahead": told.ahead if told else 0, "told": told})
        actions = (100 * step + np.arange(self.planned, dtype=np.float32))[None, :, None]
        sure = None if self.confidence is None else np.array([self.confidence(len(self.given) - 1)])
        return Chunk(actions, self.execution_horizon, sure)

    def joined(self, memory, chunk, passed, rest):
        self.joins.append(passed)
        return chunk


class Cloudy(Counting):
    """Sees a cloud, with the step in its first number."""

    observation_shapes = {"cloud": (16, 3)}  # noqa: RUF012

    @staticmethod
    def frame(step: int = 0) -> dict[str, np.ndarray]:
        return {"cloud": np.full((16, 3), step, np.float32)}

    def plan(self, observation, memory, observed=None, executed=None):
        return super().plan({"state": observation["cloud"][:, :, 0]}, memory, observed, executed)


class Moody(Simulated):
    """A stand-in that expects a plan in one step, or so many, and takes as many as it is told to."""

    def __init__(self, clock: VirtualClock, *steps: int, expected: int = 1):
        super().__init__(clock, expected / RATE)
        self.steps = list(steps)

    def submit(self, make):
        super().submit(make)
        taken = self.steps.pop(0) if self.steps else round(self.delay * RATE)
        self._ready = (self.clock.now() + taken / RATE, self._ready[1])


class Scripted:
    """Observes what `reading(step, now)` gives, else a good frame that shows the step; notes what it is told."""

    def __init__(self, clock: VirtualClock, reading: Callable[[int, float], Any] | None = None):
        self.clock, self.reading = clock, reading
        self.told: list[float | None] = []  # commands, None for holding

    @property
    def step(self) -> int:
        return len(self.told)

    def frame(self) -> dict[str, np.ndarray]:
        return {"state": np.array([self.step, 0.5], np.float32)}

    def observe(self):
        now = self.clock.now()
        return Reading(self.frame(), now, self.step) if self.reading is None else self.reading(self.step, now)

    def command(self, action):
        assert action.shape == (1,)
        assert action.dtype == np.float32
        self.told.append(float(action[0]))

    def hold(self):
        self.told.append(None)


def controlled(policy: Policy, delay: float = 0.0, reading=None, **options: Any) -> tuple[Controller, Scripted]:
    """A controller over a scripted robot, in made-up time and without limits."""
    clock = VirtualClock()
    robot = Scripted(clock, reading)
    worker = options.pop("worker", None) or Simulated(clock, delay)
    controller = Controller(
        policy, robot, RATE, clock=options.pop("clock", clock), worker=worker, limits=None, **options
    )
    return controller, robot
