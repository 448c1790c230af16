"""The oracle's point clouds: segmented by the simulator, which no camera is. By ray casting, with no GL library.

Rays are spent where something can be hit: each wanted geom and goal marker is projected into the image, the cells it
covers are marked, and only these are cast, the cells of small things on a finer grid than those of large ones. The
table, the retaining walls, the floor and the arm are not cast at all: they never move or are known from the robot's
state, and their points would crowd out a puck of 4 cm. Points are shared out evenly among the things that are seen
(a depth camera would give a shelf 490 points of 512 and the block on it 5); inside each they are spread by
farthest-point sampling. It is what the first figures of this library were made with, and stays to compare with;
camera_cloud.py makes do with what a robot has.
"""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import CELLS, MAX_SIZE, Camera
from mgp.envs.rays import cast_geoms, cast_spheres
from mgp.envs.scene import Scene
from mgp.envs.thin import farthest

GROUPS = np.array([1, 1, 0, 0, 0, 0], dtype=np.uint8)  # all that is seen but the backdrop
RAYS_PER_POINT = 4  # about half of them hit, and farthest-point sampling needs some choice
MIN_RAYS = 1024  # so that a cloud of few points does not miss small things


class OracleCloud:
    """Clouds (points, 3) float32 as one camera sees them; a pure function of `data`."""

    def __init__(self, scene: Scene, camera: Camera, points: int):
        self.scene, self.camera, self.points = scene, camera, points
        self.rays = max(RAYS_PER_POINT * points, MIN_RAYS)

    def __call__(self, data: mujoco.MjData) -> np.ndarray:
        return self.labelled(data)[0]

    def labelled(self, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
        """The cloud (points, 3), and what each point belongs to (points,): a geom g as g, a site s as -1 - s."""
        cloud, labels, things = self.candidates(data)
        if len(cloud) == 0:  # nothing in view; a policy gets zeros rather than an exception
            return np.zeros((self.points, 3), np.float32), np.zeros(self.points, int)
        members = [np.flatnonzero(things == thing) for thing in range(self.scene.things)]
        shares = share(self.points, np.array([len(member) for member in members]))
        chosen = np.concatenate(
            [member[farthest(cloud[member], n)] for member, n in zip(members, shares, strict=True) if n]
        )
        chosen = np.resize(chosen, self.points)  # repeats points if there are too few
        return cloud[chosen], labels[chosen]

    def candidates(self, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All points hit inside the workspace (M, 3) float32, their labels (M,) and things (M,)."""
        scene, origin, directions = self.scene, self.camera.position, self.directions(data)
        depth, geom = cast_geoms(scene.model, data, origin, directions, GROUPS)
        depth, marker = cast_spheres(data.site_xpos[scene.markers], scene.radii, origin, directions, depth)
        thing = np.where(marker >= 0, 0, scene.thing[geom])
        label = geom
        if len(scene.markers):
            label = np.where(marker >= 0, -1 - scene.markers[marker], geom)
        hit = np.flatnonzero(((geom >= 0) | (marker >= 0)) & (thing >= 0))
        points = origin + directions[hit] * depth[hit, None]
        kept = scene.inside(points)
        hit = hit[kept]
        return points[kept].astype(np.float32), label[hit], thing[hit]

    def directions(self, data: mujoco.MjData) -> np.ndarray:
        """The rays worth casting, (R, 3)."""
        rectangles = self.camera.rectangles(self.scene.corners(data)).tolist()
        masks = np.zeros((self.scene.things, CELLS, CELLS), bool)
        for thing, (top, left, bottom, right) in zip(self.scene.box_thing, rectangles, strict=True):
            masks[thing, top:bottom, left:right] = True
        counts = masks.sum((1, 2))
        shares = share(self.rays, counts * (MAX_SIZE // CELLS) ** 2)
        sizes = [_size(int(rays), int(cells)) for rays, cells in zip(shares, counts, strict=True)]
        # finest first; cells that a finer grid has covered need no coarser one
        taken = np.zeros((CELLS, CELLS), bool)
        parts = []
        for thing in np.argsort(sizes, kind="stable")[::-1]:
            parts.append(self.camera.rays(masks[thing] & ~taken, sizes[thing]))
            taken |= masks[thing]
        return np.concatenate(parts)


def share(total: int, capacity: np.ndarray) -> np.ndarray:
    """Give out `total` evenly among takers of limited capacity: what one cannot take goes to the others."""
    given = np.zeros(len(capacity), int)
    left = min(total, int(capacity.sum()))
    while left > 0:
        open_ = np.flatnonzero(given < capacity)
        each = left // len(open_)
        if each == 0:  # fewer left than takers: one for each of the first
            open_, each = open_[:left], 1
        extra = np.minimum(each, capacity[open_] - given[open_])
        given[open_] += extra
        left -= int(extra.sum())
    return given


def _size(rays: int, cells: int) -> int:
    """Side of the image that has about `rays` pixels in so many cells."""
    return min(int(CELLS * np.sqrt(rays / max(cells, 1))), MAX_SIZE)
