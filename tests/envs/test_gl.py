"""Rays against a GL depth render; skipped where no OpenGL can be started. Nothing else needs it."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from mgp.envs import make_env
from mgp.envs.depth import SEEN
from mgp.envs.metaworld import CAMERA
from mgp.envs.rays import cast_geoms, cast_spheres
from mgp.errors import SimulationError

SIZE = 96


def renderer(env, size=SIZE, groups=(0, 1)):
    from mgp.envs.gl import GLRenderer

    try:
        return GLRenderer(env._sim.model, CAMERA, size, groups)
    except SimulationError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("task", ["assembly", "hand-insert", "push", "shelf-place", "stick-pull"])
def test_rays_equal_gl_depth(task):
    env = make_env(f"metaworld/{task}", "state")
    env.reset(seed=0)
    model, data, camera = env._sim.model, env._sim.data, env._camera
    gl = renderer(env)
    rendered = gl.depth(data)
    gl.close()
    directions = camera.image(SIZE)
    depth, _ = cast_geoms(model, data, camera.position, directions, SEEN)
    shown = np.flatnonzero(model.site_rgba[:, 3] > 0)  # a renderer shows the robot's sites too
    depth, _ = cast_spheres(data.site_xpos[shown], model.site_size[shown, 0], camera.position, directions, depth)
    depth = depth.reshape(SIZE, SIZE)
    hit, seen = np.isfinite(depth), rendered < 5
    assert hit.sum() > 50
    assert (hit != seen).sum() <= 2  # silhouettes
    both = hit & seen
    error = np.abs(depth - rendered)[both]
    assert np.median(error) < 2e-6
    # a renderer draws spheres and cylinders as polyhedra: half a millimetre
    assert np.mean(error > 6e-4) < 0.02


def test_images():
    env = make_env("metaworld/push", "state")
    renderer(env).close()
    for observation, shape, dtype in (("rgb", (48, 48, 3), np.uint8), ("depth", (48, 48), np.float32)):
        env = make_env("metaworld/push", observation, size=48)
        first, _ = env.reset(seed=0)
        assert env.observation_space.contains(first)
        assert first[observation].shape == shape
        assert first[observation].dtype == dtype
        assert first[observation].std() > 0
        assert np.array_equal(first[observation], env.observe()[observation])
        env.close()


def test_missing_gl_is_named(monkeypatch):
    def missing(name):
        raise ImportError("no such library")

    monkeypatch.setattr(importlib, "import_module", missing)
    from mgp.envs.metaworld import make

    with pytest.raises(SimulationError, match="libegl1") as error:
        make("push", "rgb")
    assert "observation='cloud'" in str(error.value)


def test_clouds_and_pictures_need_no_gl():
    """In a process where every GL module is barred (gymnasium itself imports glfw, which opens no GL by that)."""
    program = """
import sys
for name in ("OpenGL", "mujoco.egl", "mujoco.osmesa", "mujoco.glfw"):
    sys.modules[name] = None
import os; os.environ["MUJOCO_GL"] = "disable"
from mgp.envs import make_env
env = make_env("metaworld/push", "cloud", points=32)
env.reset(seed=0); env.picture(32); env.step(env.expert()()); env.close()
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "fine", done.stderr
