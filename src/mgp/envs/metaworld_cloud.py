"""The clouds of Meta-World: `camera`, `oracle` and `paper`, all from DP3's camera pose."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np

from mgp.envs.camera import Camera
from mgp.envs.camera_cloud import CameraCloud
from mgp.envs.checks import Look
from mgp.envs.depth import DepthCamera, Sight
from mgp.envs.oracle import OracleCloud
from mgp.envs.scene import Scene
from mgp.envs.selffilter import SelfFilter
from mgp.envs.workspace import CLEAR, Workspace

CAMERA, CAMERA_POSITION, CAMERA_FOVY = "corner2", (0.6, 0.295, 0.8), 60.0  # as DP3
# Clouds are cast from DP3's pose but wider: at 60 degrees the goals of stick-push, stick-pull and sweep, and at times
# the hand and the object in soccer and plate-slide-back-side, are outside of the image.
WIDE_FOVY = 100.0
LOW, HIGH = (-0.6, 0.3), (0.675, 1.1, 0.8)  # metres; the hand and all objects and goals of the 50 tasks are inside
BACK_WALL = ((-1.0, 0.975, -1.0), (1.0, 1.2, 0.125))  # V3 has a low wall round the table; only this one is in the box
PAPER_STRIDE = 7  # 128 x 128 pixels


def metaworld_look(kind: str, scene: Scene, camera: Camera, points: int, noise: float, shift: float) -> Look:
    wide = replace(camera, fovy=WIDE_FOVY)
    if kind == "oracle":
        oracle = OracleCloud(scene, wide, points)
        return lambda data, hand, moment: oracle(data)
    workspace = _workspace(scene)
    sight = Sight(scene.model, scene.geoms, workspace.table, *workspace.box, scene.markers)
    if kind == "camera":
        # hand and fingers too: the state tells where they are, and of 512 points they took 390 in push
        others = replace(sight, geoms=np.setdiff1d(scene.geoms, scene.robot))
        sensor = DepthCamera(others, wide, noise=noise, shift=shift)
        return CameraCloud(sensor, workspace, points, SelfFilter(scene.model, scene.robot))
    sensor = DepthCamera(sight, camera, noise=noise, shift=shift, exhaustive=True)
    return CameraCloud(sensor, PaperCrop(camera), points, None, PAPER_STRIDE)


class PaperCrop:
    """DP3's crop, in its own frame: the camera's, turned by 61.4 and -7 degrees so that z points up, nearly."""

    low, high = np.array([-0.5, -1.5, -0.795]), np.array([1.0, -0.4, 100.0])

    def __init__(self, camera: Camera):
        x, y = np.deg2rad([61.4, -7.0])
        about_x = np.array([[1, 0, 0], [0, np.cos(x), np.sin(x)], [0, -np.sin(x), np.cos(x)]])
        about_y = np.array([[np.cos(y), 0, np.sin(y)], [0, 1, 0], [-np.sin(y), 0, np.cos(y)]])
        # DP3's image hangs upside down; `Camera.of` has rolled it
        self.turn = about_x @ about_y @ np.diag([-1.0, -1.0, 1.0]) @ camera.matrix.T
        self.origin = camera.position

    def keep(self, points: np.ndarray, clear: float | np.ndarray = CLEAR) -> np.ndarray:
        """Which of the points (M, 3), in the world, DP3 keeps."""
        turned = (points - self.origin) @ self.turn.T
        return np.all((turned > self.low) & (turned < self.high), axis=1)

    def find_table(self, points: np.ndarray, slopes: np.ndarray) -> tuple[float, float]:
        return 0.0, 0.0  # it takes the table's height for known


def _workspace(scene: Scene) -> Workspace:
    """The height of the table, and where its hole is, if it has one, are read off the model: one measures them once."""
    data = mujoco.MjData(scene.model)
    mujoco.mj_kinematics(scene.model, data)
    centre, half = data.geom_xpos[scene.slabs], scene.model.geom_size[scene.slabs]
    low, high = centre - half, centre + half  # (K, 3) of the boxes that the table is made of; none is turned
    table, bottom = float(high[:, 2].max()), float(high[:, 2].min())
    if table == bottom:
        return Workspace(LOW, HIGH, table, None, (BACK_WALL,))
    top = high[:, 2] == table
    grid = np.stack(np.meshgrid(*(np.arange(a, b, 0.005) for a, b in zip(LOW, (0.675, 0.995), strict=True))), -1)
    grid = grid.reshape(-1, 1, 2) + 1e-4
    free = grid[~((grid > low[top, :2]) & (grid < high[top, :2])).all(2).any(1), 0]  # (F, 2)
    return Workspace(LOW, HIGH, table, ((*free.min(0), bottom), (*free.max(0), table)), (BACK_WALL,))
