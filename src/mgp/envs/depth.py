"""A simulated depth camera, by rays and with no GL library: depth and, if asked, colour of the pixels that are read.

The image has 896 x 896 pixels. A reader takes one pixel in n x n, inside or outside of a rectangle; nothing that leaves
this file tells which object a pixel shows. Goal markers are seen: they are seen in the paper's setting, and are all
that tells the goal of some tasks.

Pixels that can only show the table, the backdrop or the robot's links are not cast, since whoever makes a cloud drops
them (`exhaustive=True` casts them; the clouds are equal). The table, which tells noise, and the links, which tell where
a displaced camera stands, can be asked for; a plane needs no casting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import mujoco
import numpy as np

from mgp.envs.camera import CORNERS, MAX_SIZE, Camera
from mgp.envs.rays import cast_geoms, cast_spheres

BACKDROP_GROUP = 2  # geoms that no cloud keeps
LINK_GROUP = 5  # the robot's links without hand and fingers, which are cast
SEEN = np.array([1, 1, 0, 0, 0, 0], np.uint8)  # groups that are always cast; 3 and 4 are collision shapes
SHOWN = np.array([1, 1, 1, 0, 0, 1], np.uint8)  # all that a renderer shows
LINKS = np.array([0, 0, 0, 0, 0, 1], np.uint8)
NOISE_STREAM, SHIFT_STREAM = 0x6E6F697365, 0x7368696674  # keep these draws apart from the scene's
WHOLE = (0, 0, MAX_SIZE, MAX_SIZE)

Rectangle = tuple[int, int, int, int]  # pixels: top, left, bottom, right
Stride = tuple[int, int]  # one row, and one column, in so many
Show = Literal["things", "table", "links", "things and links"]  # "table": and what stands on it
Moment = tuple[int, int]  # an episode's seed and the control steps taken: what makes noise repeat


@dataclass(frozen=True)
class Sight:
    """What of a model can end up in a cloud: only pixels that may show it are worth casting."""

    model: mujoco.MjModel
    geoms: np.ndarray  # (G,)
    table: float  # height of its top
    low: tuple[float, float, float]  # of the workspace
    high: tuple[float, float, float]
    markers: np.ndarray = field(default_factory=lambda: np.zeros(0, int))  # (S,) sites, spheres

    @property
    def radii(self) -> np.ndarray:
        return self.model.site_size[self.markers, 0]

    def links(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Pixels that the robot's links may cover: top, left, bottom, right (B, 4)."""
        return camera.pixels(self._corners(data, np.flatnonzero(self.model.geom_group == LINK_GROUP)))

    def rectangles(self, data: mujoco.MjData, camera: Camera) -> np.ndarray:
        """Pixels that things in the workspace may cover, (B, 4) likewise."""
        markers = data.site_xpos[self.markers, None] + CORNERS * self.radii[:, None, None]
        corners = np.concatenate([self._corners(data, self.geoms), markers])  # (B, 8, 3)
        # what is kept of a box lies in it, and in the upright box around it cut to the workspace
        low, high = corners.min(1), corners.max(1)
        cut = np.clip((low + high)[:, None] / 2 + CORNERS * (high - low)[:, None] / 2, self.low, self.high)
        covered, kept = camera.pixels(corners), camera.pixels(cut)
        return np.concatenate([np.maximum(covered[:, :2], kept[:, :2]), np.minimum(covered[:, 2:], kept[:, 2:])], 1)

    def _corners(self, data: mujoco.MjData, geoms: np.ndarray) -> np.ndarray:
        """(G, 8, 3) in the world, of the boxes around geoms (G,)."""
        boxes = self.model.geom_aabb[geoms].reshape(-1, 2, 3)
        local = boxes[:, None, 0] + CORNERS * boxes[:, None, 1]
        turned = local @ data.geom_xmat[geoms].reshape(-1, 3, 3).transpose(0, 2, 1)
        return turned + data.geom_xpos[geoms, None]


@dataclass(frozen=True)
class Reading:
    """Some pixels: rays as the camera is believed to stand, (R, 3), depth (R,), inf where nothing is, and colour."""

    rays: np.ndarray
    depth: np.ndarray
    rgb: np.ndarray | None  # (R, 3) in 0..1


class DepthCamera:
    """`noise`: standard deviation of depth in metres. `shift`: metres from where the camera is believed to stand."""

    def __init__(
        self, sight: Sight, camera: Camera, colours: Callable[[], np.ndarray] | None = None, *,
        noise: float = 0.0, shift: float = 0.0, exhaustive: bool = False,
    ):  # fmt: skip
        """`colours`: gives RGB (ngeom, 3) at present."""
        self.sight, self.camera, self.colours = sight, camera, colours
        self.noise, self.shift, self.exhaustive = noise, shift, exhaustive
        self.disturbed = noise > 0 or shift > 0
        self.groups = SHOWN if exhaustive else SEEN
        self.reach = _reach(camera, np.array(sight.low) - 0.03, np.array(sight.high) + 0.03)

    def frame(self, data: mujoco.MjData, moment: Moment = (0, 0)) -> Frame:
        """The image of this moment, read by pieces."""
        return Frame(self, data, moment)


class Frame:
    def __init__(self, owner: DepthCamera, data: mujoco.MjData, moment: Moment):
        self._owner, self._data = owner, data
        camera = owner.camera  # as it stands
        if owner.shift > 0:
            way = np.random.default_rng([SHIFT_STREAM, moment[0]]).normal(size=3)
            camera = replace(camera, position=camera.position + owner.shift * way / np.linalg.norm(way))
        self._things = np.array([WHOLE]) if owner.exhaustive else owner.sight.rectangles(data, camera)
        self._camera = camera
        self._random = np.random.default_rng([NOISE_STREAM, *moment]) if owner.noise > 0 else None

    def off(self, camera: Camera) -> float:
        """Metres between this camera and the one that took the image: for shortcuts that are right up to there."""
        return float(np.linalg.norm(camera.position - self._camera.position))

    def pixels(
        self, stride: Stride, inside: Rectangle = WHOLE, outside: Rectangle | None = None, *, of: Show = "things"
    ) -> np.ndarray:
        """One row and one column in so many, inside of a rectangle and outside of another: (R, 2) row and column.

        Of these the pixels that may show what is asked for.
        """
        strides, first = np.array(stride * 2), np.array(stride * 2) // 2
        worth = self._rectangles(of)
        worth = np.concatenate([np.maximum(worth[:, :2], inside[:2]), np.minimum(worth[:, 2:], inside[2:])], 1)
        steps = -(-(worth - first) // strides)  # of the pixels first, first + stride, ...
        steps = steps[(steps[:, :2] < steps[:, 2:]).all(1)]
        if len(steps) == 0:
            return np.zeros((0, 2), int)
        top, left = steps[:, :2].min(0)
        bottom, right = steps[:, 2:].max(0)
        mask = np.zeros((bottom - top, right - left), bool)
        for a, b, c, d in (steps - [top, left, top, left]).tolist():
            mask[a:c, b:d] = True
        if outside is not None:
            a, b, c, d = np.maximum(-(-(np.array(outside) - first) // strides) - [top, left, top, left], 0)
            mask[a:c, b:d] = False
        return first[:2] + strides[:2] * (np.argwhere(mask) + steps[:, :2].min(0))

    def read(self, pixels: np.ndarray, links: bool = False) -> Reading:
        """Depth and colour of pixels (R, 2); the robot's links are in them if asked."""
        owner, sight, data = self._owner, self._owner.sight, self._data
        rays = owner.camera.through(*((pixels.T + 0.5) / MAX_SIZE))
        depth, geom = np.full(len(rays), np.inf), np.full(len(rays), -1, np.int32)
        solid = slice(None) if links or not owner.disturbed else self._inside(pixels)
        groups = owner.groups | LINKS if links else owner.groups
        depth[solid], geom[solid] = cast_geoms(sight.model, data, self._camera.position, rays[solid], groups)
        if owner.disturbed and not owner.exhaustive:
            with np.errstate(divide="ignore"):
                table = (sight.table - self._camera.position[2]) / rays[:, 2]
            depth = np.minimum(depth, np.where(table > 0, table, np.inf))
        depth, marker = cast_spheres(data.site_xpos[sight.markers], sight.radii, self._camera.position, rays, depth)
        if self._random is not None:
            depth = depth + self._random.normal(0.0, owner.noise, len(depth))
        rgb = None
        if owner.colours is not None:
            rgb = owner.colours()[geom]
            rgb[marker >= 0] = sight.model.site_rgba[sight.markers[marker[marker >= 0]], :3]
        return Reading(rays, depth, rgb)

    def _rectangles(self, of: Show) -> np.ndarray:
        """(B, 4)"""
        owner = self._owner
        if of == "things" or owner.exhaustive:
            return self._things
        if of == "table":
            return owner.reach[None]
        links = owner.sight.links(self._data, self._camera)
        return links if of == "links" else np.concatenate([self._things, links])

    def _inside(self, pixels: np.ndarray) -> np.ndarray:
        """Which pixels (R, 2) may show a thing, as indices."""
        mask = np.zeros((MAX_SIZE, MAX_SIZE), bool)
        for top, left, bottom, right in self._things.tolist():
            mask[top:bottom, left:right] = True
        return np.flatnonzero(mask[pixels[:, 0], pixels[:, 1]])


def _reach(camera: Camera, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rectangle (4,) of pixels whose rays pass through a box."""
    step = 8
    edges = np.arange(0, MAX_SIZE + 1, step)
    rows, columns = np.meshgrid(edges / MAX_SIZE, edges / MAX_SIZE, indexing="ij")
    rays = camera.through(rows.ravel(), columns.ravel())
    with np.errstate(divide="ignore"):
        one, other = (low - camera.position) / rays, (high - camera.position) / rays
    enter, leave = np.minimum(one, other).max(1), np.maximum(one, other).min(1)
    passes = np.argwhere(((enter < leave) & (leave > 0)).reshape(len(edges), -1))
    return np.clip(np.concatenate([passes.min(0) - 1, passes.max(0) + 1]) * step, 0, MAX_SIZE)
