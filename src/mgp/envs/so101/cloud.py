"""Coloured point clouds and pictures by ray casting, with no GL library.

Rays are aimed: at fixed spots on the things whose colour or place matters (a lit ring is 13 mm wide; a uniform grid
over the table would put 2 to 5 points on it), and over the rectangle that the arm fills in the image. A spot behind
the arm gives a point of the arm, as in any camera. The table and the rail hide what they hide, but get no points:
they never move. Points are shared out evenly among things, and spread by farthest-point sampling inside each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.depth import SHOWN
from mgp.envs.oracle import share
from mgp.envs.picture import geom_colours, shade
from mgp.envs.rays import cast_geoms
from mgp.envs.thin import farthest

ARM_GRID = 35  # rays on a side of the arm's rectangle
ARM_MARGIN = 0.05  # metres round the arm's bodies
INTO = 0.001  # metres that spots lie inside their thing, or rays would pass by its edge


@dataclass(frozen=True)
class Thing:
    """Geoms that share points, and spots (K, 3) to aim at, in the frame of `body`."""

    geoms: tuple[str, ...]
    spots: np.ndarray
    body: str = "world"


class ColourCaster:
    """Clouds (points, 6) float32, xyz and rgb 0..1, as one camera sees the things and the arm."""

    def __init__(self, model: mujoco.MjModel, camera: Camera, points: int, things: Sequence[Thing], changing: Sequence):
        """`changing`: geoms whose colour changes during an episode."""
        self.model, self.camera, self.points = model, camera, points
        self.things = len(things) + 1
        self.thing = np.full(model.ngeom, -1)  # (ngeom,) -1: not wanted
        self._spots = [(model.body(thing.body).id, thing.spots) for thing in things]
        for i, thing in enumerate(things):
            self.thing[[model.geom(name).id for name in thing.geoms]] = i
        self._arm = np.array([b for b in range(model.nbody) if model.body(b).rootid == model.body("base").rootid])
        shown = np.isin(model.geom_bodyid, self._arm) & np.isin(model.geom_group, (0, 1, 2))
        self.thing[shown] = self.things - 1
        self._changing = np.array(changing, int)
        self._colours = geom_colours(model)

    def colours(self) -> np.ndarray:
        """RGB (ngeom, 3) at present."""
        self._colours[self._changing] = self.model.geom_rgba[self._changing, :3]
        return self._colours

    def __call__(self, data: mujoco.MjData) -> np.ndarray:
        return self.labelled(data)[0]

    def labelled(self, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
        """The cloud (points, 6), and the geom of each point (points,)."""
        origin, directions = self.camera.position, self.directions(data)
        depth, geom = cast_geoms(self.model, data, origin, directions, SHOWN)
        hit = np.flatnonzero((geom >= 0) & (self.thing[geom] >= 0))
        geom = geom[hit]
        places = (origin + directions[hit] * depth[hit, None]).astype(np.float32)
        members = [np.flatnonzero(self.thing[geom] == thing) for thing in range(self.things)]
        shares = share(self.points, np.array([len(member) for member in members]))
        chosen = np.concatenate([m[farthest(places[m], n)] for m, n in zip(members, shares, strict=True) if n])
        chosen = np.resize(chosen[::-1], self.points)  # repeats points of the arm if there are too few
        colour = self.colours()[geom[chosen]].astype(np.float32)
        return np.concatenate([places[chosen], colour], 1), geom[chosen]

    def directions(self, data: mujoco.MjData) -> np.ndarray:
        """The rays to cast, (R, 3)."""
        parts = []
        for body, spots in self._spots:
            place = data.xpos[body] + spots @ data.xmat[body].reshape(3, 3).T
            parts.append(place - self.camera.position)
        around = data.xpos[self._arm][:, None] + ARM_MARGIN * np.array([[1, 1, 0], [1, -1, 0], [-1, 1, 0], [-1, -1, 0]])
        image = self.camera.project(around.reshape(-1, 3))
        low, high = np.clip(image.min(0), 0, 1), np.clip(image.max(0), 0, 1)
        rows, columns = (np.linspace(a, b, ARM_GRID) for a, b in zip(low, high, strict=True))
        rows, columns = (grid.ravel() for grid in np.meshgrid(rows, columns, indexing="ij"))
        return np.concatenate([*parts, self.camera.through(rows, columns)])

    def picture(self, data: mujoco.MjData, camera: Camera, size: int) -> np.ndarray:
        """(size, size, 3) uint8, for people."""
        directions = camera.image(size)
        depth, geom = cast_geoms(self.model, data, camera.position, directions, SHOWN)
        return shade(camera.position, directions, depth, self.colours()[geom], size)


def circle(radius: float, height: float, count: int) -> np.ndarray:
    """Spots (count, 3) round the vertical axis."""
    angle = 2 * np.pi * (np.arange(count) + radius * 1e3 % 1) / count  # circles of other radii start elsewhere
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), np.full(count, height)], 1)


def plate(width: float, length: float, height: float, across: int, along: int) -> np.ndarray:
    """Spots on a horizontal rectangle of half sides `width` and `length`."""
    x, y = np.meshgrid(np.linspace(-width, width, across), np.linspace(-length, length, along))
    return np.stack([x.ravel(), y.ravel(), np.full(x.size, height)], 1)
