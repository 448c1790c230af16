"""How the towel of `sorting/towel-nudged` is shifted: once, after the lamp went out and before anybody grasps it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgp.envs.nudge import is_nudged, nudge_random

STEPS = (6, 28)  # drawn from these control steps; the lamp is dark after 5, the expert grasps from 26 on
SHIFT = (0.05, 0.08)  # metres sideways
FURTHEST = 0.09  # metres from the middle that it may lie; beyond, the baskets are in the gripper's way
TURN, MOST_TURNED = 0.15, 0.20  # radians, of the change and of what comes of it
# A gripper lower and nearer than this is about to grasp: it comes then at the latest, or who is quick would be spared.
LOW, NEAR = 0.045, 0.08  # metres above the table, and from the towel's middle


@dataclass(frozen=True)
class TowelNudge:
    step: int  # control step before which it comes, if no gripper is near before
    x: float  # metres, where the towel lies afterwards
    turn: float  # radians, likewise

    @classmethod
    def of(cls, seed: int, x: float, turn: float) -> TowelNudge | None:
        """The nudge of an episode whose towel lies at `x`, turned by `turn`; None: it has none."""
        if not is_nudged(seed):
            return None
        random = nudge_random(seed)
        step = int(random.integers(STEPS[0], STEPS[1] + 1))
        way = random.uniform(*SHIFT) * random.choice((-1, 1))
        if abs(x + way) > FURTHEST:
            way = -way
        turned = np.clip(turn + random.uniform(-TURN, TURN), -MOST_TURNED, MOST_TURNED)
        return cls(step, x + float(way), float(turned))

    def is_due(self, step: int, tip: np.ndarray, towel: np.ndarray) -> bool:
        """Before control step `step`, with the fingertip and the towel at (3,) each."""
        about_to_grasp = tip[2] < LOW and np.hypot(*(tip - towel)[:2]) < NEAR
        return step >= self.step or (step >= STEPS[0] and bool(about_to_grasp))
