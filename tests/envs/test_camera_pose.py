"""A camera is found where it stands, by the robot that it sees."""

from __future__ import annotations

import numpy as np
import pytest

from mgp.envs import camera_pose, make_env
from mgp.envs.camera_pose import least_absolute


@pytest.mark.parametrize(
    ("name", "noise", "limit"),
    [("metaworld/push", 0.0, 1e-4), ("metaworld/push", 0.005, 1.5e-3), ("sorting/towel", 0.0, 1e-3)],
)
def test_a_displaced_camera_is_found(name, noise, limit):
    env = make_env(name, camera_shift=0.01, depth_noise=noise)
    look = env._look
    believed, places = look.sensor.camera, []
    for seed in range(3):
        env.reset(seed=seed)
        frame = look.sensor.frame(data_of(env), (seed, 0))
        assert frame.off(believed) == pytest.approx(0.01)
        assert frame.off(look._stands[1]) < limit
        assert np.array_equal(look._stands[1].matrix, believed.matrix)
        places.append(look._stands[1].position)
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).min() > 0.002  # each episode has its own


def test_it_is_looked_for_once_an_episode(monkeypatch):
    env, calls = make_env("metaworld/push", camera_shift=0.005), []
    found = camera_pose.find_camera
    monkeypatch.setattr("mgp.envs.camera_cloud.find_camera", lambda *a: calls.append(a) or found(*a))
    for seed in (0, 1):
        env.reset(seed=seed)
        for _ in range(3):
            env.step(env.hold_action)
    assert len(calls) == 2


def test_a_robot_out_of_view_tells_nothing():
    env = make_env("metaworld/push", camera_shift=0.01)
    env.reset(seed=0)
    sensor = env._look.sensor
    rays, depth = np.tile([0.0, 0.0, 1.0], (100, 1)), np.ones(100)  # straight up
    links = np.array([0, 0, 0, 0, 0, 1], np.uint8)
    assert camera_pose.find_camera(sensor.camera, env._sim.model, env._sim.data, links, rays, depth) is sensor.camera


def test_least_absolute_errors_pass_over_a_third_of_outliers():
    random = np.random.default_rng(0)
    slopes, x = random.normal(size=(90, 3)), np.array([0.004, -0.008, 0.003])
    errors = slopes @ x
    errors[:30] += 0.03
    np.testing.assert_allclose(least_absolute(slopes, errors), x, atol=1e-3)
    assert np.abs(np.linalg.lstsq(slopes, errors, rcond=None)[0] - x).max() > 2e-3


def data_of(env):
    return env._sim.data if hasattr(env, "_sim") else env.data
