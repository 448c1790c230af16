"""Where a camera really stands, told by the robot in its image: the joints say where each link is.

From a guess of the place, the depth of the links is cast; what is measured differs from it by as much as the guess is
off, and a few rounds of least absolute errors bring both together. Only a displacement is looked for, no rotation.
"""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.rays import cast_geoms

FEWEST = 30  # pixels on links; with fewer the camera is left where it is believed to stand
FARTHEST = 0.03  # metres of depth between what is expected and what is seen: beyond, something else is in view
STEEPEST = 3.0  # change of depth for one of the place: beyond, a pixel has slipped off an edge
ROUNDS, REWEIGHTED = 8, 5  # of linearising, and of weights in each
STEP, EXACT = (
    1e-3,
    1e-4,
)  # metres: of the differences that slopes are taken from, and errors below which all count alike


def find_camera(
    camera: Camera, model: mujoco.MjModel, data: mujoco.MjData, links: np.ndarray, rays: np.ndarray, depth: np.ndarray
) -> Camera:
    """The camera at the place from which rays (R, 3) meet the geoms of groups `links` at these depths (R,)."""

    def expected(place: np.ndarray) -> np.ndarray:
        return cast_geoms(model, data, camera.position + place, rays, links)[0]

    place = np.zeros(3)
    with np.errstate(invalid="ignore"):  # inf - inf: no link there, and nothing seen
        of_robot = np.abs(depth - expected(place)) < FARTHEST
        rays, depth = rays[of_robot], depth[of_robot]
        for _ in range(ROUNDS):
            now = expected(place)
            slopes = np.stack([expected(place + STEP * axis) - now for axis in np.eye(3)], 1) / STEP  # (R, 3)
            errors = depth - now
            usable = np.isfinite(errors) & (np.abs(slopes) < STEEPEST).all(1)
            if usable.sum() < FEWEST:
                return camera
            place = place + least_absolute(slopes[usable], errors[usable])
    return replace(camera, position=camera.position + place)


def least_absolute(slopes: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """x (K,) that makes the sum of |errors - slopes x| small, (R,) and (R, K), by least squares reweighted."""
    weights = np.ones(len(errors))
    for _ in range(REWEIGHTED):
        x = np.linalg.lstsq(slopes * weights[:, None], errors * weights, rcond=None)[0]
        weights = np.maximum(np.abs(errors - slopes @ x), EXACT) ** -0.5
    return x
