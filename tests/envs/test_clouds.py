"""Clouds of what a robot has: what is in them, and what they do not depend on."""

from dataclasses import replace

import numpy as np
import pytest
from seen import seen

from mgp.envs import env_names, make_env
from mgp.envs.camera import CELLS, Camera
from mgp.envs.camera_cloud import CameraCloud, strides
from mgp.envs.depth import DepthCamera
from mgp.envs.metaworld import tasks
from mgp.errors import ConfigError, UnknownNameError

CLOUDS = ("metaworld/push", "metaworld/hand-insert", "metaworld-dynamic/basketball", "buttons/on-off", "sorting/towel")


def near(cloud: np.ndarray, position: np.ndarray, radius: float) -> int:
    return int((np.linalg.norm(np.unique(cloud, axis=0) - position, axis=1) < radius).sum())


def exhaustively(env) -> np.ndarray:
    """The present cloud with every pixel cast, the table, the walls and the arm too."""
    look = env._look
    sensor = DepthCamera(look.sensor.sight, look.sensor.camera, look.sensor.colours, exhaustive=True)
    whole = CameraCloud(sensor, look.crop, look.points, look.robot)
    data = env._sim.data if hasattr(env, "_sim") else env.data
    return whole(data, env.robot_state()[:3].astype(np.float32), (env._seed, env._steps))


# of Meta-World one for each kind of scene: flat, boxes, walls, a cupboard, a lever, a shelf, long things, a net
SCENES = {"push", "hand-insert", "pick-place-wall", "door-open", "lever-pull", "shelf-place", "stick-pull", "soccer"}


@pytest.mark.parametrize(
    "name",
    [
        *CLOUDS[2:],
        *(pytest.param(f"metaworld/{task}", marks=() if task in SCENES else pytest.mark.slow) for task in tasks()),
    ],
)
def test_what_is_not_cast_would_not_be_seen(name):
    """Casting the whole image gives the same cloud, at the start and while the expert is at work."""
    env = make_env(name, points=256)
    env.reset(seed=1)
    expert = env.expert()
    for step in range(41):
        if step in (0, 40):
            assert np.array_equal(env.observe()["cloud"], exhaustively(env))
        env.advance(expert())


@pytest.mark.parametrize("name", CLOUDS)
def test_clouds_do_not_know_objects(name):
    """Other names, bodies and order of things: the same cloud. Only what is the robot's is told apart, by joints."""
    env = make_env(name, points=256)
    env.reset(seed=2)
    before = env.observe()["cloud"]
    look = env._look
    model = look.sensor.sight.model
    assert set(vars(look)) == {"sensor", "crop", "points", "robot", "stride", "_stands"}
    robots = {int(model.geom_bodyid[geom]) for geom in look.robot.geoms}
    # a reading has rays, depth and colour, and nothing that tells what a pixel shows
    frame = look.sensor.frame(env._sim.data if hasattr(env, "_sim") else env.data, (0, 0))
    assert set(vars(frame.read(frame.pixels((16, 16))))) == {"rays", "depth", "rgb"}
    others = np.array([g for g in look.sensor.sight.geoms if int(model.geom_bodyid[g]) not in robots])
    look.sensor.sight.geoms[:] = look.sensor.sight.geoms[::-1].copy()  # the order of things
    model.geom_bodyid[others] = 0  # and all of them parts of one body
    model.body_rootid[:] = 0
    assert np.array_equal(env.observe()["cloud"], before)


@pytest.mark.parametrize("task", ["push", "reach", "hand-insert", "sweep", "stick-pull", "pick-place-wall"])
def test_goal_marker_is_seen(task):
    """Markers are sites, which MuJoCo's rays pass through; sweep's and stick-pull's are outside of DP3's image."""
    env = make_env(f"metaworld/{task}")
    for seed in (0, 1):
        cloud = env.reset(seed=seed)[0]["cloud"]
        assert near(cloud, env._sim._target_pos, 0.021) >= 5


def test_marker_follows_a_moved_goal():
    """For the moving tasks: the model's site and `_target_pos` are moved, the cloud shows it."""
    env = make_env("metaworld/push")
    env.reset(seed=0)
    target = env._sim._target_pos + np.array([0.05, -0.05, 0])
    env._sim._target_pos = target
    env._sim.model.site("goal").pos = target
    env.advance(env.hold_action)
    assert near(env.observe()["cloud"], target, 0.021) > 15


@pytest.mark.parametrize(("task", "points"), [("push", 50), ("shelf-place", 10), ("pick-out-of-hole", 50)])
def test_small_object_is_seen(task, points):
    env = make_env(f"metaworld/{task}")
    cloud = env.reset(seed=0)[0]["cloud"]
    assert near(cloud, env._sim._get_pos_objects()[:3], 0.04) > points


def test_table_walls_and_robot_are_left_out():
    env = make_env("metaworld/push")
    cloud = env.reset(seed=0)[0]["cloud"]
    assert cloud[:, 2].min() > 0.005
    model, labels = env._sim.model, seen(env, cloud)
    names = {model.body(model.geom_bodyid[label]).name for label in labels[labels >= 0]}
    assert names == {"obj"}  # beside the goal's marker, which is no geom


@pytest.mark.parametrize("name", [CLOUDS[0], CLOUDS[3]])  # the two arms
def test_papers_recipe_has_the_arm(name):
    env = make_env(name, cloud="paper")
    cloud = env.reset(seed=0)[0]["cloud"]
    labels = seen(env, cloud)
    look = make_env(name)._look
    assert np.isin(labels, look.robot.geoms).mean() > 0.1


@pytest.mark.parametrize("points", [1, 37, 1024])
@pytest.mark.parametrize("cloud", ["camera", "oracle", "paper"])
def test_any_number_of_points(points, cloud):
    points_seen = make_env("metaworld/push", cloud=cloud, points=points).reset(seed=0)[0]["cloud"]
    assert points_seen.shape == (points, 3)
    assert points_seen.any(axis=1).all()


def test_nothing_in_view_gives_zeros():
    for name, width in (("metaworld/push", 3), ("buttons/on-off", 6)):
        env = make_env(name, points=8)
        env.reset(seed=0)
        env._look.crop = replace(env._look.crop, high=(-1.0, -1.0, -1.0))
        cloud = env.observe()["cloud"]
        assert cloud.shape == (8, width)
        assert not cloud.any()


@pytest.mark.parametrize("name", [CLOUDS[0], *CLOUDS[2:]])  # one of each family
@pytest.mark.parametrize("option", ["depth_noise", "camera_shift"])
def test_disturbances_repeat_by_seed_and_step(name, option):
    env, clean = make_env(name, points=128, **{option: 0.005}), make_env(name, points=128)
    assert env.options[option] == 0.005
    first = env.reset(seed=5)[0]["cloud"]
    assert np.isfinite(first).all()
    assert np.array_equal(first, env.observe()["cloud"])
    second = env.step(env.hold_action)[0]["cloud"]
    assert not np.array_equal(first, clean.reset(seed=5)[0]["cloud"])
    assert np.array_equal(first, env.reset(seed=5)[0]["cloud"])
    assert np.array_equal(second, env.step(env.hold_action)[0]["cloud"])
    if option == "depth_noise":  # all options are alike in this, and an arm takes a second to build
        assert make_env(name, **env.options).options == env.options


def test_noise_moves_points_and_the_table_is_told_by_its_spread():
    """Points stay near what they show; were the table taken for exact, much of it would seem to stand above itself."""
    env, clean = make_env("metaworld/push", depth_noise=0.005), make_env("metaworld/push")
    noisy, true = env.reset(seed=0)[0]["cloud"], np.unique(clean.reset(seed=0)[0]["cloud"], axis=0)

    def distance(points) -> np.ndarray:
        return np.linalg.norm(points[:, None] - true, axis=2).min(1)

    assert 0.001 < np.median(distance(noisy)) < 0.01
    assert (distance(noisy) > 0.05).mean() < 0.02

    look, data = env._look, env._sim.data
    frame = look.sensor.frame(data)
    reading = frame.read(frame.pixels((4, 4), of="table"))
    level, deviation = look.table(look.sensor.camera, reading)
    assert deviation == pytest.approx(0.005, rel=0.1)
    assert (distance(look.kept(data, look.sensor.camera, reading, level)) > 0.05).sum() > 200
    assert (distance(look.kept(data, look.sensor.camera, reading, level, deviation)) > 0.05).sum() < 5


def test_a_displaced_camera_displaces_the_cloud_unless_the_robot_tells_where_it_stands(monkeypatch):
    """Without the robot's help by as much, in x and y; heights are counted from the table that is seen."""
    env, clean = make_env("metaworld/push", camera_shift=0.01), make_env("metaworld/push")

    def moved() -> np.ndarray:
        """How far the goal marker is seen from where it is, (4, 3)."""
        moves = []
        for seed in range(4):
            clouds = [e.reset(seed=seed)[0]["cloud"] for e in (env, clean)]
            goal = clean._sim._target_pos
            means = [cloud[np.linalg.norm(cloud - goal, axis=1) < 0.035].mean(0) for cloud in clouds]
            moves.append(means[0] - means[1])
        return np.array(moves)

    assert np.abs(moved()).max() < 0.001
    monkeypatch.setattr("mgp.envs.camera_pose.FEWEST", 10**6)
    env._look._stands = None
    alone = moved()
    assert 0.004 < np.linalg.norm(alone[:, :2], axis=1).mean() < 0.011
    assert np.abs(alone[:, 2]).max() < 0.004


@pytest.mark.parametrize("name", ["metaworld/push", "metaworld-dynamic/push"])
def test_bad_options_are_answered(name):
    with pytest.raises(UnknownNameError, match="Did you mean 'camera'"):
        make_env(name, cloud="kamera")
    for options in ({"depth_noise": -1}, {"camera_shift": 1.0}, {"depth_noise": "2 mm"}, {"points": 0}):
        with pytest.raises(ConfigError, match="must be"):
            make_env(name, **options)


def test_options_are_recorded():
    options = make_env("metaworld/push").options
    assert options["cloud"] == "camera"
    assert {"points", "depth_noise", "camera_shift", "horizon"} < options.keys()
    assert "cloud" not in make_env("metaworld/push", "state").options
    assert len(env_names()) > 50


def test_strides():
    assert strides(0.0) == (1, 1)
    assert strides(4.0) == (2, 2)
    assert strides(5.0) == (2, 3)
    assert strides(1000.0) == (8, 8)
    assert all(rows * columns >= area for area in np.linspace(1, 64, 50) for rows, columns in [strides(area)])


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
