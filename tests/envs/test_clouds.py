import numpy as np
import pytest

from mgp.envs import make_env
from mgp.envs.camera import CELLS, Camera
from mgp.envs.clouds import farthest, share
from mgp.envs.rays import cast_spheres


def near(cloud: np.ndarray, position: np.ndarray, radius: float) -> int:
    return int((np.linalg.norm(cloud - position, axis=1) < radius).sum())


@pytest.mark.parametrize(
    ("task", "radius"),
    [("push", 0.021), ("reach", 0.021), ("hand-insert", 0.021), ("sweep", 0.021), ("stick-pull", 0.021)],
)
def test_goal_marker_is_seen(task, radius):
    """Markers are sites, which MuJoCo's rays pass through; sweep's and stick-pull's are outside of DP3's image."""
    env = make_env(f"metaworld/{task}", "cloud")
    for seed in (0, 1):
        cloud = env.reset(seed=seed)[0]["cloud"]
        assert near(cloud, env._sim._target_pos, radius) > 15


def test_marker_follows_a_moved_goal():
    """For the moving tasks: the model's site and `_target_pos` are moved, the cloud shows it."""
    env = make_env("metaworld/push", "cloud")
    env.reset(seed=0)
    target = env._sim._target_pos + np.array([0.05, -0.05, 0])
    env._sim._target_pos = target
    env._sim.model.site("goal").pos = target
    env.advance(env.hold_action)
    assert near(env.observe()["cloud"], target, 0.021) > 15


@pytest.mark.parametrize(("task", "radius"), [("push", 0.04), ("shelf-place", 0.04), ("pick-out-of-hole", 0.04)])
def test_small_object_is_seen(task, radius):
    env = make_env(f"metaworld/{task}", "cloud")
    cloud = env.reset(seed=0)[0]["cloud"]
    assert near(cloud, env._sim._get_pos_objects()[:3], radius) > 50


def test_table_and_walls_are_left_out():
    env = make_env("metaworld/push", "cloud", balance=False)
    cloud, labels = env.reset(seed=0)[0]["cloud"], env._cast.labelled(env._sim.data)[1]
    assert cloud[:, 2].min() > 0
    names = {env._sim.model.body(env._sim.model.geom_bodyid[label]).name for label in labels[labels >= 0]}
    assert names == {"hand", "leftpad", "rightpad", "obj"}


def test_arm_on_request():
    cloud = make_env("metaworld/push", "cloud", arm=True).reset(seed=0)[0]["cloud"]
    assert cloud[:, 2].max() > 0.4


@pytest.mark.parametrize("points", [1, 37, 1024])
def test_any_number_of_points(points):
    cloud = make_env("metaworld/push", "cloud", points=points).reset(seed=0)[0]["cloud"]
    assert cloud.shape == (points, 3)
    assert cloud.any(axis=1).all()


def test_nothing_in_view_gives_zeros():
    env = make_env("metaworld/push", "cloud", points=8)
    env.reset(seed=0)
    env._scene.high[:] = env._scene.low + 1e-6
    assert not env.observe()["cloud"].any()


def test_rectangles_and_rays_agree():
    """A ray is cast through every marked cell, and a point falls into its own box's cells."""
    camera = Camera.looking((1.0, 0.0, 1.0), (0.0, 0.0, 0.0), 60.0)
    point = np.array([0.1, 0.2, 0.05])
    (top, left, bottom, right) = camera.rectangles(np.tile(point, (1, 8, 1)))[0]
    row, column = camera.project(point) * CELLS
    assert top <= row <= bottom
    assert left <= column <= right
    cells = np.zeros((CELLS, CELLS), bool)
    cells[top:bottom, left:right] = True
    rays = camera.rays(cells, 4 * CELLS)
    assert len(rays) == 16
    directions = rays / np.linalg.norm(rays, axis=1, keepdims=True)
    towards = (point - camera.position) / np.linalg.norm(point - camera.position)
    assert (directions @ towards).max() > np.cos(np.deg2rad(0.2))
    assert len(camera.rays(np.zeros((CELLS, CELLS), bool), 64)) == 0
    assert np.allclose(camera.rays(np.ones((CELLS, CELLS), bool), 32), camera.image(32))


def test_spheres():
    origin, directions = np.zeros(3), np.array([[2.0, 0, 0], [0, 1.0, 0], [1.0, 0, 0]])
    centres, radii = np.array([[4.0, 0, 0], [8.0, 0, 0]]), np.array([1.0, 1.0])
    distance, index = cast_spheres(centres, radii, origin, directions, np.array([np.inf, np.inf, 2.0]))
    assert distance.tolist() == [1.5, np.inf, 2.0]  # in lengths of the direction; the last is hidden
    assert index.tolist() == [0, -1, -1]


def test_share():
    assert share(10, np.array([100, 2, 100])).tolist() == [4, 2, 4]
    assert share(10, np.array([1, 2, 3])).tolist() == [1, 2, 3]
    assert share(5, np.array([0, 0, 9])).tolist() == [0, 0, 5]
    assert share(3, np.array([0, 0])).tolist() == [0, 0]


def test_farthest_spreads():
    line = np.stack([np.linspace(0, 1, 101), np.zeros(101), np.zeros(101)], 1).astype(np.float32)
    assert sorted(line[farthest(line, 3), 0].tolist()) == pytest.approx([0, 0.5, 1])
    assert farthest(line[:5], 5).tolist() == [0, 1, 2, 3, 4]
    assert len(set(farthest(line[:7], 6).tolist())) == 6
