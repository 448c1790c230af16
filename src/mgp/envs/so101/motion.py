"""Smooth paths of the scripted experts: poses, one a control step, in whatever coordinates suit a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Path:
    """Poses over time, and the one they have come to."""

    pose: np.ndarray
    steps: list[np.ndarray] = field(default_factory=list)

    def move(self, goal: Sequence[float], steps: int) -> None:
        """To a pose with the least jerk."""
        start, end = self.pose, np.asarray(goal, float)
        self.steps += [start + ease(i / steps) * (end - start) for i in range(1, steps + 1)]
        self.pose = end

    def stay(self, steps: int) -> None:
        self.steps += [self.pose] * steps


def ease(share: float) -> float:
    """Least-jerk way from 0 to 1."""
    share = min(max(share, 0.0), 1.0)
    return share**3 * (10 - 15 * share + 6 * share**2)
