"""Demonstrations in which the robot is pushed, and told each time to go on as if it had not been.

A scripted expert never leaves its way, so that its demonstrations do not show how to come back to one. A policy that
learns from them does as it was doing: it reads its next command off its own motion, and is lost a few centimetres
aside. Pushed about by what is added to the commands, but not recorded, the robot stands beside the way, and what is
recorded leads back to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STREAM = 0x70757368  # keeps these draws apart from those of scene and expert
KEPT = 0.9  # of a push from one control step to the next


class Disturbance:
    """A slow random walk about zero, of a deviation (A,) in the units of an action; the same for the same seed."""

    def __init__(self, deviation: Sequence[float], seed: int):
        self.deviation = np.asarray(deviation, float)
        self._push = np.zeros(len(self.deviation))
        self._random = np.random.default_rng([STREAM, seed])

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """What the robot is told in place of an action."""
        drawn = self._random.normal(size=len(self._push))
        self._push = KEPT * self._push + np.sqrt(1 - KEPT**2) * self.deviation * drawn
        return (action + self._push).astype(action.dtype)
