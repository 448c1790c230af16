"""Shaded pictures by ray casting, for reports: no GL library, and the same on every machine."""

from __future__ import annotations

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.depth import SHOWN
from mgp.envs.rays import cast_geoms, cast_spheres
from mgp.envs.scene import Scene

SKY = np.array([0.93, 0.95, 0.97])
LIGHT = np.array([0.35, -0.35, 0.87])  # direction to the light, from behind the camera's right
AMBIENT = 0.45
DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)  # MuJoCo's for a geom without a colour of its own


class Picture:
    """Lambert shading; normals come from differences of neighbouring hits, so there is no surface model to keep."""

    def __init__(self, scene: Scene, camera: Camera):
        self.scene, self.camera = scene, camera
        model = scene.model
        self.colours = np.concatenate([geom_colours(model), model.site_rgba[scene.markers, :3]])  # (ngeom + S, 3)

    def __call__(self, data: mujoco.MjData, size: int) -> np.ndarray:
        """(size, size, 3) uint8."""
        scene, origin, directions = self.scene, self.camera.position, self.camera.image(size)
        depth, geom = cast_geoms(scene.model, data, origin, directions, SHOWN)
        depth, marker = cast_spheres(data.site_xpos[scene.markers], scene.radii, origin, directions, depth)
        colour = self.colours[np.where(marker >= 0, scene.model.ngeom + marker, geom)]
        return shade(origin, directions, depth, colour, size)


def shade(origin: np.ndarray, directions: np.ndarray, depth: np.ndarray, colour: np.ndarray, size: int) -> np.ndarray:
    """The picture (size, size, 3) uint8 of what the rays (size * size) hit, inf where nothing."""
    points = origin + directions * np.where(np.isfinite(depth), depth, 1e3)[:, None]
    normal = _normals(points.reshape(size, size, 3)).reshape(-1, 3)
    # a normal seen from behind is one of the wrong sign
    normal *= np.where((normal * directions).sum(1) > 0, -1, 1)[:, None]
    light = AMBIENT + (1 - AMBIENT) * np.clip(normal @ (LIGHT / np.linalg.norm(LIGHT)), 0, 1)
    image = np.where(np.isfinite(depth)[:, None], colour * light[:, None], SKY)
    return (255 * np.clip(image, 0, 1)).astype(np.uint8).reshape(size, size, 3)


def _normals(points: np.ndarray) -> np.ndarray:
    """Unit normals (H, W, 3); of the differences to both neighbours the shorter, which stays on the surface."""
    tangents = []
    for axis in (0, 1):
        ahead = np.diff(points, axis=axis, append=np.take(points, [-1], axis=axis))
        behind = np.roll(ahead, 1, axis=axis)
        shorter = (ahead**2).sum(-1) < (behind**2).sum(-1)
        # at the border one of the two is zero or wrapped round
        np.moveaxis(shorter, axis, 0)[0] = True
        np.moveaxis(shorter, axis, 0)[-1] = False
        tangents.append(np.where(shorter[..., None], ahead, behind))
    normal = np.cross(tangents[0], tangents[1])
    return normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)


def geom_colours(model: mujoco.MjModel) -> np.ndarray:
    """RGB (ngeom, 3) in 0..1: the geom's own colour, or its material's times the mean of the texture."""
    colours = model.geom_rgba[:, :3].astype(float)
    for geom, material in enumerate(model.geom_matid):
        if material < 0 or not np.allclose(model.geom_rgba[geom], DEFAULT_RGBA):
            continue  # a geom's own colour, if it has one, goes before its material's, as in MuJoCo's renderer
        colours[geom] = model.mat_rgba[material, :3]
        texture = model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB]
        if texture >= 0:
            start, channels = model.tex_adr[texture], model.tex_nchannel[texture]
            count = model.tex_height[texture] * model.tex_width[texture] * channels
            pixels = model.tex_data[start : start + count].reshape(-1, channels)
            colours[geom] *= pixels[:, :3].mean(0) / 255
    return colours
