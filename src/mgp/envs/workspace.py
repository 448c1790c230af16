"""Where points of a cloud are wanted: a box above the table, given once when a robot is set up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CLEAR = 0.006  # metres from a known plane within which points are taken for it; DP3's crop begins 5 mm above the table
SEARCH = 0.03  # metres round the known height of the table within which it is looked for


Box = tuple[tuple[float, float, float], tuple[float, float, float]]  # low and high corner


@dataclass(frozen=True)
class Workspace:
    """Metres in the world: what is above the table or in its hole, and in none of the walls."""

    low: tuple[float, float]  # x, y
    high: tuple[float, float, float]
    table: float  # height of the table's top
    hole: Box | None = None  # in the table
    walls: tuple[Box, ...] = ()

    @property
    def box(self) -> Box:
        """All that is kept lies in it."""
        return (*self.low, self.hole[0][2] if self.hole else self.table + CLEAR), self.high

    def keep(self, points: np.ndarray, clear: float = CLEAR) -> np.ndarray:
        """Which of the points (M, 3) are wanted, (M,) bool; less than `clear` above the table they are taken for it."""
        kept = _inside(points, ((*self.low, self.table + clear), self.high))
        if self.hole:
            low, high = np.array(self.hole)
            kept |= _inside(points, (low + clear, high - clear))
        for wall in self.walls:
            kept &= ~_inside(points, wall)
        return kept

    def find_table(self, points: np.ndarray) -> tuple[float, float]:
        """By how much the table in the points (M, 3) lies too high, and how far from it to drop points, in metres.

        A camera that is not where it is believed to be shows the first, noise the second. Most points near the table's
        height are the table's, so that their median is it; four deviations from it hardly any of them is left.
        """
        inside = np.all((points[:, :2] > self.low) & (points[:, :2] < self.high[:2]), axis=1)
        heights = points[inside & (np.abs(points[:, 2] - self.table) < SEARCH), 2]
        if len(heights) == 0:
            return 0.0, CLEAR
        level = float(np.median(heights))
        spread = 1.4826 * float(np.median(np.abs(heights - level)))  # a normal distribution's deviation
        return level - self.table, max(CLEAR, 4 * spread)


def _inside(points: np.ndarray, box: Box | tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Which of the points (M, 3) lie in a box, (M,) bool."""
    inside = np.ones(len(points), bool)
    for values, low, high in zip(points.T, *box, strict=True):
        inside &= (values > low) & (values < high)
    return inside
