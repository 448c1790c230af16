"""Scenes that are shifted once while the robot works: in which episodes, and the draws of when and how far.

They come from a generator of their own, so that an episode begins as that of the same seed in the static twin.
"""

from __future__ import annotations

import numpy as np

STREAM = 0x6E75646765  # keeps these draws apart from those of the scene
SHARE, OF = 7, 10  # episodes that are shifted among ten seeds in a row


def is_nudged(seed: int) -> bool:
    """Exactly seven of the seeds 0 to 9, seven of 10 to 19 and so on: as many in every block that is evaluated."""
    ten, place = divmod(seed, OF)
    return bool(np.random.default_rng([STREAM, ten]).permutation(OF)[place] < SHARE)


def nudge_random(seed: int) -> np.random.Generator:
    return np.random.default_rng([STREAM, seed, 1])
