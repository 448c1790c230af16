"""How to come to rest with bounded jerk.

In units of a control step, for each of A independent axes: a' = a + j, v' = v + a', p' = p + v', so that j is the third
difference of the positions. Of all ways to rest (v = a = 0) in n steps the one with the least sum of squared jerks has
jerks on a straight line; the fewest steps are taken for which that line stays within the limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LONGEST = 1024  # steps of a stop


class Stop(NamedTuple):
    """A way to rest for each axis; an axis that is at rest before step N stays so."""

    jerks: np.ndarray  # (A, N)
    possible: np.ndarray  # (A,) bool, within the limits on jerk, velocity and position


class Brake:
    """Stops within limits (A,) on jerk, velocity and position."""

    def __init__(self, jerk: np.ndarray, velocity: np.ndarray, low: np.ndarray, high: np.ndarray):
        self.jerk, self.velocity, self.low, self.high = jerk, velocity, low, high
        # from v with a = 0 it takes sqrt(6 v / j) steps; with the worst a, which is about sqrt(2 v j), less than twice
        most = int(np.ceil(2 * np.sqrt(6 * np.max(velocity / jerk, initial=0.0)))) + 4
        self.steps = np.arange(2, min(most, LONGEST) + 1, dtype=np.float64)[:, None]  # (M, 1) lengths to choose from
        n = self.steps
        first, second = n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6  # sums of the weights n .. 1, and their squares
        scale = n**2 * (n**2 - 1) / 12  # determinant of the normal equations
        self._n, self._first, self._second = n / scale, first / scale, second / scale
        self._weight = self.steps - np.arange(len(n) + 1)  # (M, N): n, n - 1, ..., 1, and then below 1

    def __call__(self, p: np.ndarray, v: np.ndarray, a: np.ndarray) -> Stop:
        end_a, end_v = -a, -(v + self.steps * a)  # (A,), (M, A): what the jerks have to add up to
        level = self._second * end_a - self._first * end_v  # (M, A)
        slope = self._n * end_v - self._first * end_a
        worst = np.maximum(np.abs(level + slope), np.abs(level + self.steps * slope))
        fits = worst <= self.jerk * (1 + 1e-9)
        chosen = fits.argmax(0)  # (A,) the shortest
        axis = np.arange(len(p))
        weight = self._weight[chosen]  # (A, N)
        jerks = np.where(weight >= 1, level[chosen, axis, None] + slope[chosen, axis, None] * weight, 0.0)
        speed = v[:, None] + np.cumsum(a[:, None] + np.cumsum(jerks, axis=1), axis=1)  # (A, N)
        place = p[:, None] + np.cumsum(speed, axis=1)
        slack = 1e-9 * (1 + np.abs(place))
        inside = (place >= self.low[:, None] - slack) & (place <= self.high[:, None] + slack)
        slow = np.abs(speed) <= self.velocity[:, None] * (1 + 1e-9)
        return Stop(jerks, fits.any(0) & inside.all(1) & slow.all(1))

    def distance(self, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """(A,) how far a stop leads, whatever the limits on velocity and position."""
        jerks = self(np.zeros_like(v), v, a).jerks
        return np.cumsum(v[:, None] + np.cumsum(a[:, None] + np.cumsum(jerks, axis=1), axis=1), axis=1)[:, -1]
