"""Commands inside limits of position, velocity and jerk, whatever is asked for, across the seam of two plans too.

The limiter only ever goes where it knows how to stop: with each command it has a stop at hand that keeps all limits,
and takes that if nothing nearer to the command asked for has one. So there is no corner it cannot get out of.
A numbers of a command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mgp.data.motion import is_place
from mgp.errors import ConfigError
from mgp.policies.base import Policy
from mgp.runtime.braking import LONGEST, Brake

HALVINGS = 12  # in the search for the command nearest to the one asked for
MARGIN = 1.5  # of what was demonstrated
FASTEST = 1e9  # a control step: stands for no limit
STILL = 1e-12  # a control step, of a place of 1: slower than this is rounding

Vector = float | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Limits:
    """Per second; a number stands for all A. Positions of displacements are their sums since the robot started."""

    hold: Vector  # the command that holds; NaN: the last one goes on, and the number is a place, else a displacement
    low: Vector = -np.inf
    high: Vector = np.inf
    velocity: Vector = np.inf
    jerk: Vector = np.inf

    def __post_init__(self) -> None:
        width = np.atleast_1d(np.asarray(self.hold, np.float64)).shape
        for name in ("low", "high", "velocity", "jerk"):
            value = np.atleast_1d(np.asarray(getattr(self, name), np.float64))
            if value.shape not in (width, (1,)):
                raise ConfigError(
                    f"limits.{name} has {value.size} numbers, a command {width[0]}: give one, or one each"
                )
            if np.isnan(value).any() or (name in ("velocity", "jerk") and not (value > 0).all()):
                raise ConfigError(f"limits.{name} = {value.tolist()}: give numbers above 0, infinity for no limit")
            object.__setattr__(self, name, np.broadcast_to(value, width).astype(np.float64))
        object.__setattr__(self, "hold", np.atleast_1d(np.asarray(self.hold, np.float64)))
        if not (np.asarray(self.low) <= np.asarray(self.high)).all():
            raise ConfigError(f"limits.low = {self.low} exceeds limits.high = {self.high}: swap them")

    @classmethod
    def of(cls, policy: Policy, rate: float, margin: float = MARGIN) -> Limits | None:
        """What was demonstrated, with a margin on velocity and jerk; None of a policy that was not learned."""
        spec = getattr(policy, "spec", None)
        if spec is None:
            return None
        hold = np.asarray(spec.hold_command, np.float64)
        scale, offset = (getattr(policy.normalizer, f"action_{n}").double().cpu().numpy() for n in ("scale", "offset"))  # type: ignore[attr-defined]
        low, high = ((end - offset) / scale for end in (-1.0, 1.0))
        place = is_place(hold)
        kept = len(spec.velocity) == len(hold)  # checkpoints from before they were recorded know the range alone
        return cls(
            hold,
            low=np.where(place, low, -np.inf),
            high=np.where(place, high, np.inf),
            velocity=np.maximum(margin * np.array(spec.velocity), 1e-6) * rate if kept else np.inf,
            jerk=np.maximum(margin * np.array(spec.jerk), 1e-6) * rate**3 if kept else np.inf,
        )


class Limiter:
    """The state of one robot's commands: position, velocity and acceleration, in units of a control step."""

    def __init__(self, limits: Limits, rate: float, start: np.ndarray | None = None):
        """`start` (A,): where the robot stands, as a command; else its first command is taken for the place."""
        self.place = is_place(np.asarray(limits.hold))
        self.low, self.high = np.asarray(limits.low), np.asarray(limits.high)
        # looser ones would change nothing: who stays in a box moves by its width at most, and who moves by v at most
        # has third differences up to 4 v
        widest = np.maximum(self.high - self.low, STILL)  # a number that never varied
        self.velocity = np.minimum(np.minimum(np.asarray(limits.velocity) / rate, widest), FASTEST)
        self.jerk = np.minimum(np.asarray(limits.jerk) / rate**3, 4 * self.velocity)
        steps = 2 * np.sqrt(6 * self.velocity / self.jerk)
        if steps.max() > LONGEST:
            axis = int(steps.argmax())
            raise ConfigError(
                f"limits.jerk = {np.asarray(limits.jerk)[axis]:g} and limits.velocity ="
                f" {np.asarray(limits.velocity)[axis]:g} of number {axis} of a command: a stop may take"
                f" {steps[axis]:.0f} control steps, {LONGEST} at most are allowed; raise the one or lower the other"
            )
        self._stop = Brake(self.jerk, self.velocity, self.low, self.high)
        self.begun = ~self.place if start is None else np.ones_like(self.place)  # whose place is known
        self.p = np.clip(np.where(self.place, 0.0 if start is None else start, 0.0), self.low, self.high)
        self.v, self.a = np.zeros_like(self.p), np.zeros_like(self.p)
        self.target = self.p.copy()  # the last place asked for
        self.following = np.ones_like(self.place)  # the last command was the one asked for
        self.way = self._stop(self.p, self.v, self.a).jerks  # (A, N) to rest from here, inside all limits

    @property
    def resting(self) -> bool:
        return not (self.v.any() or self.a.any())

    def __call__(self, action: np.ndarray) -> np.ndarray | None:
        """The command (A,) float32 that is nearest to an action (A,); what is not finite is a wish to `brake`."""
        wish = np.asarray(action, np.float64)
        if not np.isfinite(wish).all():
            return self.brake()
        new = ~self.begun
        self.p[new] = self.target[new] = np.clip(wish, self.low, self.high)[new]
        self.begun[:] = True
        target = np.clip(np.where(self.place, wish, self.p + wish), self.low, self.high)
        moving = np.clip(target - self.target, -self.velocity, self.velocity)
        jerk = target - self.p - self.v - self.a  # leads there at once
        there = (np.abs(jerk) <= self.jerk) & (self.following | self._can_follow(target, moving))
        if not there.all():
            jerk = np.where(there, jerk, self._approach(target, moving))
        chosen, way = self._nearest(jerk)
        self.target, self.following = target, there & (chosen == jerk)
        return self._move(chosen, way)

    def brake(self) -> np.ndarray | None:
        """The next command (A,) on the way to rest, None at rest: there the robot holds by itself."""
        if self.resting:
            return None
        self.target, self.following = self.p, self.following & False
        return self._move(self.way[:, 0], np.pad(self.way[:, 1:], ((0, 0), (0, 1))))

    def _move(self, jerk: np.ndarray, way: np.ndarray) -> np.ndarray:
        self.a = self.a + jerk
        self.v = self.v + self.a
        self.p = np.clip(self.p + self.v, self.low, self.high)  # rounding
        still = np.maximum(np.abs(self.v), np.abs(self.a)) <= STILL * (1 + np.abs(self.p))
        self.v[still] = self.a[still] = 0.0
        self.way = way
        return np.where(self.place, self.p, self.v).astype(np.float32)

    def _after(self, jerk: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        a = self.a + jerk
        return self.p + self.v + a, self.v + a, a

    def _nearest(self, jerk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The jerk (A,) nearest to the one wished for from which there is a way to rest, and that way (A, N)."""
        safe, way = self.way[:, 0], np.pad(self.way[:, 1:], ((0, 0), (0, 1)))
        tried, bad = jerk, jerk
        for attempt in range(HALVINGS + 1):
            p, v, a = self._after(tried)
            found, possible = self._stop(p, v, a)
            slow = np.abs(v) <= self.velocity * (1 + 1e-9)
            good = possible & slow & (p >= self.low - 1e-12) & (p <= self.high + 1e-12)
            safe, bad = np.where(good, tried, safe), np.where(good, bad, tried)
            way = np.where(good[:, None], found, way)
            if attempt == 0 and good.all():
                break
            if attempt == 0:
                bad = np.where(good, jerk, bad)  # done: the middle below is the wish itself
            tried = (safe + bad) / 2
        return safe, way

    def _can_follow(self, target: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """Whether a target (A,) that is reached now, and goes on as it did, is not lost in the next steps."""
        v = target - self.p
        a = v - self.v
        place = (np.abs(moving - v - a) <= self.jerk) & (np.abs(moving - v) <= self.jerk)
        return np.where(self.place, place, np.abs(a) <= self.jerk)

    def _approach(self, target: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """A jerk (A,) within its limit that leads to a target out of reach without going beyond it.

        A place is met with its own velocity, so that it can be followed from there on. A displacement is a velocity, to
        be met without acceleration.
        """

        def beyond(jerk: np.ndarray) -> np.ndarray:
            p, v, a = self._after(jerk)
            ramp = np.floor(np.abs(a) / self.jerk)  # steps at the full jerk until the acceleration is over
            settled = v + np.sign(a) * (ramp * np.abs(a) - self.jerk * ramp * (ramp + 1) / 2)
            return np.where(self.place, p - target + self._stop.distance(v - moving, a), settled - (target - self.p))

        low, high = -self.jerk, self.jerk
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            over = beyond(middle) > 0
            low, high = np.where(over, low, middle), np.where(over, middle, high)
        return (low + high) / 2
