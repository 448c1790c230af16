"""Down-sampling by geometry alone: farthest points, and more of them near the hand."""

from __future__ import annotations

import fpsample
import numpy as np

NEAR = 0.05  # metres from the hand at which the density of points begins to fall


def farthest(cloud: np.ndarray, points: int) -> np.ndarray:
    """Indices (points,) of farthest-point sampling from the first point on; `points` <= len(cloud)."""
    if points == len(cloud):
        return np.arange(points)
    # 2**h buckets: 3 is fastest for some hundred points, and there must be no more buckets than points
    return fpsample.bucket_fps_kdline_sampling(cloud, points, h=min(3, len(cloud).bit_length() - 1), start_idx=0)


def thin(cloud: np.ndarray, points: int, hand: np.ndarray | None = None) -> np.ndarray:
    """Indices (points,) of a cloud (M, 3), spread by farthest-point sampling; repeated if there are too few.

    With the hand's place (3,), distances from it are seen on a logarithmic scale: the same spread in that space is
    finer near the hand, where millimetres decide.
    """
    if hand is not None:
        offset = cloud - hand.astype(np.float32)
        distance = np.sqrt((offset**2).sum(1, keepdims=True)) + np.float32(1e-6)
        cloud = offset * (np.log1p(distance / np.float32(NEAR)) / distance)
    return np.resize(farthest(cloud, min(points, len(cloud))), points)
