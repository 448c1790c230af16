"""What a controller needs of a robot: three methods. A simulator behind them is a robot too."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from mgp.envs.base import RobotEnv
from mgp.policies.base import Frame
from mgp.runtime.clock import Clock


class Reading(NamedTuple):
    """What the sensors saw, and when."""

    frame: Frame  # an array for each key of the observation
    time: float | None = None  # seconds on the controller's clock (`time.monotonic`); None: when it was handed over
    number: int | None = None  # counts up with each frame; None: the time tells which is newer


class Robot(Protocol):
    """All three return at once: who needs to wait for a camera does so in a thread of its own."""

    def observe(self) -> Reading | Frame | None:
        """The newest reading, None if there is none. The same one twice is recognised by its time or number."""

    def command(self, action: np.ndarray) -> None:
        """Go: (A,) float32 in the units of the demonstrations. Called once a control step, or `hold` is."""

    def hold(self) -> None:
        """Stay where you are, until the next command."""


class EnvRobot:
    """One episode of a simulator as a robot: each command, and each hold, is a control step of it.

    It begins with the first command: a robot at rest may wait for its first plan as long as it likes, while many a
    simulator would settle meanwhile into a state that no demonstration begins with.
    """

    def __init__(self, env: RobotEnv, seed: int, clock: Clock, full_length: bool = False):
        """An episode that has succeeded ends, unless `full_length`."""
        self.env, self.clock, self.full_length = env, clock, full_length
        self._frame: Frame | None = env.reset(seed=seed)[0]  # of the present step, None where nobody has looked yet
        self._hold = env.hold_command()  # (A,) NaN: the last command goes on
        self._last = np.nan_to_num(self._hold)
        self.steps, self.done = 0, False
        self.waited = 0  # holds before the first command
        self.success_step: int | None = None  # control steps taken when success first came
        self.info: dict[str, Any] = {}

    def observe(self) -> Reading:
        if self._frame is None:
            self._frame = self.env.observe()
        return Reading(self._frame, self.clock.now(), self.waited + self.steps)

    def command(self, action: np.ndarray) -> None:
        _, terminated, truncated, self.info = self.env.advance(action)
        self._frame, self._last = None, np.asarray(action)
        self.steps += 1
        if self.info["success"] and self.success_step is None:
            self.success_step = self.steps
        over = self.success_step is not None and not self.full_length
        self.done = self.done or over or terminated or truncated or self.steps >= self.env.horizon

    def hold(self) -> None:
        if not self.steps:
            self.waited += 1
            self.done = self.waited >= self.env.horizon  # nothing comes
            return
        self.command(np.where(np.isnan(self._hold), self._last, self._hold).astype(np.float32))
