"""The robot's own links taken out of a depth image by its joint state, as realtime_urdf_filter does.

Each link's mesh has a hull of thirteen slabs around it; kinematics place the hulls, and a pixel whose ray enters one
before it ends is the robot's, or behind the robot, and dropped. A hull holds all of its mesh, so the hulls hide all
that the robot hides (and a little more): what is left does not depend on the meshes, and they need not be cast at all.
"""

from __future__ import annotations

import itertools

import mujoco
import numpy as np

from mgp.envs.camera import CORNERS, Camera

MARGIN = 0.003  # metres round a link, for encoders and meshes that are not exact
# Normals (13, 3) of a hull's sides: faces, edges and corners of a cube. Boxes, which have the faces' alone, cover twice
# what the last links cover, and hid the peg of assembly in the very steps that decide where the nut is carried.
NORMALS = np.array([n for n in itertools.product((-1, 0, 1), repeat=3) if n > (0, 0, 0)], float)
NORMALS /= np.linalg.norm(NORMALS, axis=1, keepdims=True)


class SelfFilter:
    """Hulls in the frames of the geoms of some links, which may be the whole robot."""

    def __init__(self, model: mujoco.MjModel, geoms: np.ndarray):
        self.geoms = geoms  # (G,)
        vertices = [_vertices(model, int(geom)) for geom in geoms]  # (V, 3) each
        along = [points @ NORMALS.T for points in vertices]  # (V, 13) each
        low, high = (np.stack([bound(part, axis=0) for part in along]) for bound in (np.min, np.max))
        self.middles, self.halves = (low + high) / 2, (high - low) / 2 + MARGIN  # (G, 13) of the slabs
        self.radii = np.array([np.linalg.norm(points, axis=1).max() + MARGIN for points in vertices])  # (G,) of all

    def hides(
        self, data: mujoco.MjData, camera: Camera, rays: np.ndarray, depth: np.ndarray, noise: float = 0.0
    ) -> np.ndarray:
        """Which rays (R, 3) of a camera enter a hull before their end at `depth` (R,): (R,) bool.

        `noise`: metres by which a depth may be too small, so that a link's own point seems to lie before its hull.
        """
        centres = data.geom_xpos[self.geoms] - camera.position  # (G, 3)
        along = centres @ rays.T / (rays**2).sum(1)  # (G, R) depth at which a ray comes nearest to a link's centre
        apart = (centres**2).sum(1)[:, None] - along**2 * (rays**2).sum(1)  # (G, R) squared distance there
        near = (apart < self.radii[:, None] ** 2) & (along > 0)
        hidden = np.zeros(len(rays), bool)
        for link in np.flatnonzero(near.any(1)):
            which = np.flatnonzero(near[link])
            axes = NORMALS @ data.geom_xmat[self.geoms[link]].reshape(3, 3).T  # (13, 3) in the world
            towards = axes @ centres[link] + self.middles[link]  # (13,)
            with np.errstate(divide="ignore", invalid="ignore"):
                inverse = 1 / (axes @ rays[which].T)  # (13, R)
                middle, reach = towards[:, None] * inverse, self.halves[link][:, None] * np.abs(inverse)
            enter, leave = (middle - reach).max(0), (middle + reach).min(0)  # (R,)
            hidden[which] |= (enter < leave) & (leave > 0) & (enter - noise < depth[which])
        return hidden


def _vertices(model: mujoco.MjModel, geom: int) -> np.ndarray:
    """Points (V, 3) in a geom's frame whose hull holds it: those of its mesh, else the corners of the box around it."""
    if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_MESH:
        middle, half = model.geom_aabb[geom].reshape(2, 3)
        return middle + half * CORNERS
    mesh = int(model.geom_dataid[geom])
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    return model.mesh_vert[first : first + count].astype(float)
