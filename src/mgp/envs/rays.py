"""Ray casting against geoms (MuJoCo's) and against spheres (goal markers are sites, which MuJoCo's rays pass)."""

from __future__ import annotations

import mujoco
import numpy as np


def cast_geoms(
    model: mujoco.MjModel, data: mujoco.MjData, origin: np.ndarray, directions: np.ndarray, groups: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distance (R,) in lengths of the direction, inf if nothing was hit, and geom (R,), -1 then.

    A camera's directions have -1 along its axis, so that the distance is depth.
    """
    count = len(directions)
    geom = np.full(count, -1, np.int32)
    distance = np.zeros(count)
    if count:
        rays = np.ascontiguousarray(directions).ravel()
        mujoco.mj_multiRay(model, data, origin, rays, groups, 1, -1, geom, distance, count, mujoco.mjMAXVAL)
    return np.where(geom >= 0, distance, np.inf), geom


def cast_spheres(
    centres: np.ndarray, radii: np.ndarray, origin: np.ndarray, directions: np.ndarray, distance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distance (R,) with spheres nearer than the given `distance` put in, and which sphere that is, else -1."""
    distance = distance.copy()
    index = np.full(len(distance), -1, np.int32)
    square = (directions**2).sum(1)
    for i, (centre, radius) in enumerate(zip(centres - origin, radii, strict=True)):
        along = directions @ centre
        discriminant = along**2 - square * (centre @ centre - radius**2)
        near = np.flatnonzero(discriminant >= 0)
        t = (along[near] - np.sqrt(discriminant[near])) / square[near]
        closer = (t > 0) & (t < distance[near])
        distance[near[closer]] = t[closer]
        index[near[closer]] = i
    return distance, index
