"""A simulated depth camera, by rays and with no GL library: depth and, if asked, colour of the pixels that are read.

The image has 896 x 896 pixels. A reader takes one pixel in n x n, inside or outside of a rectangle; nothing that leaves
this file tells which object a pixel shows. Goal markers are seen: they are seen in the paper's setting, and are all
that tells the goal of some tasks.

Pixels that can only show the table, the backdrop or the robot's links are not cast, since whoever makes a cloud drops
them (`exhaustive=True` casts them; the clouds are equal). With noise or a displaced camera, the table can be read too,
since it is what shows either (a plane needs no casting), and with a displaced one the links are cast, since the
self-filter may then miss their edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np

from mgp.envs.camera import CORNERS, MAX_SIZE, Camera
from mgp.envs.rays import cast_geoms, cast_spheres

BACKDROP_GROUP = 2  # geoms that no cloud keeps
LINK_GROUP = 5  # the robot's links without hand and fingers, which are cast
SEEN = np.array([1, 1, 0, 0, 0, 0], np.uint8)  # groups that are always cast; 3 and 4 are collision shapes
SHOWN = np.array([1, 1, 1, 0, 0, 1], np.uint8)  # all that a renderer shows
NOISE_STREAM, SHIFT_STREAM = 0x6E6F697365, 0x7368696674  # keep these draws apart from the scene's
WHOLE = (0, 0, MAX_SIZE, MAX_SIZE)

Rectangle = tuple[int, int, int, int]  # pixels: top, left, bottom, right
Stride = tuple[int, int]  # one row, and one column, in so many
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

    def rectangles(self, data: mujoco.MjData, camera: Camera, links: bool = False) -> np.ndarray:
        """Pixels that these things, and the robot's links if asked, may cover: top, left, bottom, right (B, 4)."""
        geoms = self.geoms
        if links:
            geoms = np.append(geoms, np.flatnonzero(self.model.geom_group == LINK_GROUP))
        boxes = self.model.geom_aabb[geoms].reshape(-1, 2, 3)
        local = boxes[:, None, 0] + CORNERS * boxes[:, None, 1]
        turned = local @ data.geom_xmat[geoms].reshape(-1, 3, 3).transpose(0, 2, 1)
        markers = data.site_xpos[self.markers, None] + CORNERS * self.radii[:, None, None]
        corners = np.concatenate([turned + data.geom_xpos[geoms, None], markers])  # (B, 8, 3)
        # what is kept of a box lies in it, and in the upright box around it cut to the workspace
        low, high = corners.min(1), corners.max(1)
        cut = np.clip((low + high)[:, None] / 2 + CORNERS * (high - low)[:, None] / 2, self.low, self.high)
        covered, kept = camera.pixels(corners), camera.pixels(cut)
        return np.concatenate([np.maximum(covered[:, :2], kept[:, :2]), np.minimum(covered[:, 2:], kept[:, 2:])], 1)


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
        self.groups = SEEN.copy()
        if exhaustive:
            self.groups[BACKDROP_GROUP] = 1
        if shift > 0 or exhaustive:
            self.groups[LINK_GROUP] = 1
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
        self._origin = camera.position
        # rectangles (B, 4) of pixels that may show a thing, and of those that may show the table
        self._solid = self._table = np.array([WHOLE])
        if not owner.exhaustive:
            self._solid = owner.sight.rectangles(data, camera, owner.shift > 0)
            self._table = owner.reach[None]
        self._random = np.random.default_rng([NOISE_STREAM, *moment]) if owner.noise > 0 else None

    def pixels(
        self, stride: Stride, inside: Rectangle = WHOLE, outside: Rectangle | None = None, *, table: bool = False
    ) -> np.ndarray:
        """One row and one column in so many, inside of a rectangle and outside of another: (R, 2) row and column.

        Of these the pixels that may show a thing; with `table`, those that may show the table or a thing above it.
        """
        strides, first = np.array(stride * 2), np.array(stride * 2) // 2
        worth = self._table if table else self._solid
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

    def read(self, pixels: np.ndarray) -> Reading:
        """Depth and colour of pixels (R, 2)."""
        owner, sight, data = self._owner, self._owner.sight, self._data
        rays = owner.camera.through(*((pixels.T + 0.5) / MAX_SIZE))
        depth, geom = np.full(len(rays), np.inf), np.full(len(rays), -1, np.int32)
        solid = self._inside(pixels) if owner.disturbed else slice(None)
        depth[solid], geom[solid] = cast_geoms(sight.model, data, self._origin, rays[solid], owner.groups)
        if owner.disturbed and not owner.exhaustive:
            with np.errstate(divide="ignore"):
                table = (sight.table - self._origin[2]) / rays[:, 2]
            depth = np.minimum(depth, np.where(table > 0, table, np.inf))
        depth, marker = cast_spheres(data.site_xpos[sight.markers], sight.radii, self._origin, rays, depth)
        if self._random is not None:
            depth = depth + self._random.normal(0.0, owner.noise, len(depth))
        rgb = None
        if owner.colours is not None:
            rgb = owner.colours()[geom]
            rgb[marker >= 0] = sight.model.site_rgba[sight.markers[marker[marker >= 0]], :3]
        return Reading(rays, depth, rgb)

    def _inside(self, pixels: np.ndarray) -> np.ndarray:
        """Which pixels (R, 2) are worth casting, as indices."""
        mask = np.zeros((MAX_SIZE, MAX_SIZE), bool)
        for top, left, bottom, right in self._solid.tolist():
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
