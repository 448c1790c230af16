"""For tests: what a cloud's points show (the camera's rays through them, cast once more), and what touches what."""

from __future__ import annotations

import numpy as np

from mgp.envs.depth import SHOWN
from mgp.envs.rays import cast_geoms, cast_spheres


def seen(env, cloud: np.ndarray) -> np.ndarray:
    """(P,) of a camera cloud: a geom g as g, a marker s as -1 - s."""
    sensor, data = env._look.sensor, env._sim.data if hasattr(env, "_sim") else env.data
    sight, origin = sensor.sight, sensor.camera.position
    rays = cloud[:, :3].astype(float) - origin
    depth, geom = cast_geoms(sight.model, data, origin, rays, SHOWN)
    _, marker = cast_spheres(data.site_xpos[sight.markers], sight.radii, origin, rays, depth)
    return np.where(marker >= 0, -1 - np.append(sight.markers, 0)[marker], geom)


def touching(model, data, one: int, others: set[int]) -> bool:
    """Whether a geom is in contact with one of some bodies."""
    pairs = data.contact.geom[: data.ncon]
    pairs = pairs[(pairs == one).any(1)]
    return bool(others & set(model.geom_bodyid[pairs].ravel().tolist()))
