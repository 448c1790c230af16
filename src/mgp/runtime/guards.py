"""What may reach the policy, and what may come from it. What is refused counts as missing, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mgp.config import not_negative, positive
from mgp.errors import ConfigError, ObservationError
from mgp.policies.base import Chunk, Policy, check_observation
from mgp.runtime.robot import Reading

SANE = (-1e3, 1e3)  # metres and radians: no sensor of a robot reads more


@dataclass(frozen=True)
class Guards:
    age: float = 0.2  # seconds: an observation that is older counts as missing
    future: float = 0.05  # seconds by which the stamp of an observation may be ahead of the clock
    # seconds that the last action of a plan that is over goes on while the next is made; then the robot holds. A stop
    # looks like the end of a motion to a policy that sees two frames (docs/deploy.md)
    coast: float = 0.1
    blind: float = 3.0  # seconds that a plan is run after the newest good observation; then the robot holds
    failures: int = 10  # plans in a row that may fail; then the robot stops, and the error is raised
    # by key of the observation, the least and the greatest number; else SANE, and nothing for whole numbers (pictures)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive(self, "age", "blind", "failures")
        not_negative(self, "future", "coast")
        for key, (low, high) in self.ranges.items():
            if not low <= high:
                raise ConfigError(f"guards.ranges[{key!r}] = ({low}, {high}): the least comes first")


class Seen(NamedTuple):
    frame: dict[str, Any] | None  # a copy to keep; None: it counts as missing
    kind: str = ""  # why: missing, stale, duplicate, out of order, ahead, refused
    text: str = ""


class Watch:
    """Looks at each reading of one episode. Only a good one moves the time and number that the next is held against."""

    def __init__(self, policy: Policy, guards: Guards):
        self.policy, self.guards = policy, guards
        self.time: float | None = None  # of the newest good reading
        self.number: int | None = None

    def __call__(self, reading: Reading | Mapping[str, Any] | None, now: float) -> Seen:
        if reading is None:
            return Seen(None, "missing", "the robot had no observation")
        if not isinstance(reading, Reading):
            reading = Reading(reading)
        time = now if reading.time is None else float(reading.time)
        wrong = self._wrong_time(time, reading.number, now)
        if wrong:
            return Seen(None, *wrong)
        try:
            frame = self.policy.copied(reading.frame)
            check_observation(frame, self.policy.observation_shapes, uint8=self.policy.observation_uint8)
            self._check_ranges(frame)
        except (ObservationError, TypeError, ValueError, KeyError) as error:  # arrays that are none raise the others
            return Seen(None, "refused", str(error))
        self.time, self.number = time, reading.number
        return Seen(frame)

    def _wrong_time(self, time: float, number: int | None, now: float) -> tuple[str, str] | None:
        limits = self.guards
        if not np.isfinite(time):
            return "refused", f"the observation's time is {time}"
        if time > now + limits.future:
            return "ahead", f"stamped {time - now:.3f} s after now, {limits.future} s are allowed: use time.monotonic()"
        if now - time > limits.age:
            return "stale", f"{now - time:.3f} s old, {limits.age} s are allowed"
        if number is not None and self.number is not None:
            order = number - self.number
        else:
            order = 1 if self.time is None else int(np.sign(time - self.time))
        if order == 0:
            return "duplicate", "the same observation as before"
        if order < 0:
            return "out of order", "an observation from before the newest one"
        return None

    def _check_ranges(self, frame: Mapping[str, Any]) -> None:
        for key in self.policy.observation_shapes:
            value = frame[key]
            if key not in self.guards.ranges and value.dtype.kind != "f":
                continue
            low, high = self.guards.ranges.get(key, SANE)
            if value.size and not (low <= value.min() and value.max() <= high):
                raise ObservationError(
                    f"{key!r} reaches from {value.min():g} to {value.max():g}, allowed is {low:g} to {high:g}: mend the"
                    f" sensor, or widen guards.ranges[{key!r}]"
                )


def flaw(chunk: Chunk, width: int | None) -> str | None:
    """What is wrong with a chunk for one robot whose commands have `width` numbers, if anything is."""
    shape = np.shape(chunk.actions)
    if len(shape) != 3 or shape[0] != 1 or shape[1] < 1 or (width is not None and shape[2] != width):
        return f"a plan of shape {shape}: need (1, actions, {'numbers' if width is None else width})"
    if not np.isfinite(chunk.actions).all():
        return "a plan with NaN or Inf: the weights have most likely diverged"
    return None
