import numpy as np
import pytest

from mgp.envs.thin import farthest, thin


def line(count: int) -> np.ndarray:
    return np.stack([np.linspace(0, 1, count), np.zeros(count), np.zeros(count)], 1).astype(np.float32)


def test_farthest_spreads():
    points = line(101)
    assert sorted(points[farthest(points, 3), 0].tolist()) == pytest.approx([0, 0.5, 1])
    assert farthest(points[:5], 5).tolist() == [0, 1, 2, 3, 4]
    assert len(set(farthest(points[:7], 6).tolist())) == 6


def test_more_points_near_the_hand():
    points = line(1001)
    near = points[thin(points, 100, np.zeros(3)), 0]
    assert (near < 0.1).sum() > 25
    assert (near > 0.9).sum() >= 2
    assert 8 <= (points[thin(points, 100), 0] < 0.1).sum() <= 14


def test_too_few_are_repeated():
    assert np.bincount(thin(line(5), 12, np.zeros(3))).tolist() == [3, 3, 2, 2, 2]
