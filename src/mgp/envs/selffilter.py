"""The robot's own links taken out of a depth image by its joint state, as realtime_urdf_filter does.

Each link's mesh has a box around it; kinematics place the boxes, and a pixel whose ray enters one before it ends is the
robot's, or behind the robot, and dropped. A box holds all of its mesh, so the boxes hide all that the robot hides (and
a little more): what is left does not depend on the meshes, and they need not be cast at all.
"""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import Camera

MARGIN = 0.003  # metres round a link, for encoders and meshes that are not exact


class SelfFilter:
    """Boxes in the frames of the geoms of some links; hand and fingers are not among them."""

    def __init__(self, model: mujoco.MjModel, geoms: np.ndarray):
        self.geoms = geoms  # (G,)
        boxes = model.geom_aabb[geoms].reshape(-1, 2, 3)
        self.centres, self.halves = boxes[:, 0], boxes[:, 1] + MARGIN  # (G, 3) each

    def hides(self, data: mujoco.MjData, camera: Camera, rays: np.ndarray, depth: np.ndarray) -> np.ndarray:
        """Which rays (R, 3) of a camera enter a box before their end at `depth` (R,): (R,) bool."""
        axes = data.geom_xmat[self.geoms].reshape(-1, 3, 3).transpose(0, 2, 1)  # (G, 3, 3), rows are a box's axes
        towards = (axes @ (data.geom_xpos[self.geoms] - camera.position)[..., None])[..., 0] + self.centres  # (G, 3)
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse = 1 / (axes @ rays.T)  # (G, 3, R)
            middle, reach = towards[..., None] * inverse, self.halves[..., None] * np.abs(inverse)
            enter, leave = (middle - reach).max(1), (middle + reach).min(1)  # (G, R)
        return ((enter < leave) & (leave > 0) & (enter < depth)).any(0)
