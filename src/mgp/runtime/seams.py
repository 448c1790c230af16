"""The seam between two plans: how far the new one jumps from the old, and how jerky the commands are across it.

Nobody has an agreed measure. Here: the *jump* is the new plan's first action minus what the old one had for that step;
the *jerk* of a seam is the largest third difference of positions (per second cubed) among the three that span it, and
stands beside the jerk inside plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mgp.data import motion
from mgp.runtime.log import ControlLog


@dataclass(frozen=True)
class Seams:
    steps: np.ndarray  # (S,) the first step of each new plan
    jump: np.ndarray  # (S, A)
    jerk: np.ndarray  # (S, A)
    inside: np.ndarray  # (T', A) the jerk of every step that no seam is near


def seams(log: ControlLog) -> Seams:
    """Of the commands as planned, before limits; held steps count, since a stop is felt too."""
    hold = np.array([np.nan if value is None else value for value in log.hold])
    joined = [one for one in log.plans if one.jump]
    offset = log.total - len(log.steps)  # steps that were dropped from the log
    wanted = log.array("wanted").reshape(-1, len(hold))
    jerk = np.abs(motion.jerks(wanted, motion.is_place(hold))) * log.rate**3  # (T - 3, A); row i ends at step i + 3
    near = np.zeros(len(jerk), bool)
    found: list[tuple[int, np.ndarray, np.ndarray]] = []
    for one in joined:
        first = max(one.came - offset, 0)
        span = slice(max(first - 3, 0), first)
        if len(jerk[span]):
            near[span] = True
            found.append((one.came, np.abs(np.array(one.jump)), jerk[span].max(0)))
    width = (0, len(hold))
    return Seams(
        np.array([step for step, _, _ in found], int),
        np.array([jump for _, jump, _ in found]).reshape(-1, width[1]),
        np.array([value for _, _, value in found]).reshape(-1, width[1]),
        jerk[~near],
    )
