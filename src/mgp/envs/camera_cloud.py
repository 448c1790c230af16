"""Clouds of what a robot has: a depth image, where its camera stands, its joint state and where its hand is.

A depth image is turned into points; those outside of the workspace, on the table and of the robot's own links are
dropped, and the rest is thinned out by geometry. Nothing here knows an object, and nothing is shared out among objects.

A camera that is not where it is believed to stand is first looked for by the robot in its image (`camera_pose.py`).

How finely the image is read follows from how much there is to see: a coarse look counts the points that would be kept,
and the stride is then such that about CANDIDATES are found; round the hand twice as fine. A shelf is not worth more
pixels than a cloud has points, and a puck alone on the table is worth all that it has.
"""

from __future__ import annotations

import math
from typing import Protocol

import mujoco
import numpy as np

from mgp.envs.camera import CORNERS, Camera
from mgp.envs.camera_pose import FARTHEST, find_camera
from mgp.envs.depth import LINKS, DepthCamera, Frame, Moment, Reading, Show
from mgp.envs.selffilter import MARGIN, SelfFilter
from mgp.envs.thin import thin
from mgp.envs.workspace import CLEAR

COARSE, COARSEST = 16, 8  # strides of the look that counts, and at most
CALIBRATING = 8  # stride of the look that finds the camera
CANDIDATES = 1.2  # points found for a point of the cloud: farthest-point sampling needs some choice
SURE = 4.5  # deviations from table or robot from which on a point is none of it
AROUND = 0.10  # metres round the hand that are read twice as fine


class Crop(Protocol):
    """See Workspace."""

    def keep(self, points: np.ndarray, clear: float | np.ndarray = CLEAR) -> np.ndarray: ...

    def find_table(self, points: np.ndarray, slopes: np.ndarray) -> tuple[float, float]: ...


class CameraCloud:
    """Clouds (points, 3) float32, or (points, 6) with colours; zeros if nothing is in view."""

    def __init__(
        self, sensor: DepthCamera, crop: Crop, points: int, robot: SelfFilter | None, stride: int | None = None
    ):
        """`robot` None: the arm is left in. `stride`: a fixed one, and no more points near the hand."""
        self.sensor, self.crop, self.points, self.robot, self.stride = sensor, crop, points, robot, stride
        self._stands: tuple[int, Camera] | None = None  # in the episode of this seed

    def __call__(self, data: mujoco.MjData, hand: np.ndarray, moment: Moment = (0, 0)) -> np.ndarray:
        found = self.candidates(data, hand, moment)  # (M, 3 or 6)
        if len(found) == 0:
            return np.zeros((self.points, 3 if self.sensor.colours is None else 6), np.float32)
        return found[thin(found[:, :3], self.points, hand if self.stride is None else None)]

    def candidates(self, data: mujoco.MjData, hand: np.ndarray, moment: Moment) -> np.ndarray:
        """All points that are kept, (M, 3) or (M, 6)."""
        frame = self.sensor.frame(data, moment)
        if self.stride is not None:
            return self.kept(data, self.sensor.camera, frame.read(frame.pixels((self.stride, self.stride))))
        camera = self.stands(data, frame, moment[0])
        # hulls hide all of the links, so that they need not be cast, unless they are seen beside where they are
        links = frame.off(camera) > MARGIN
        disturbed = self.sensor.disturbed
        coarse = frame.read(frame.pixels((COARSE, COARSE), of="table" if disturbed else "things"), links)
        table = self.table(camera, coarse) if disturbed else (0.0, 0.0)
        seen = self.kept(data, camera, coarse, *table)
        near = int((np.abs(seen[:, :3] - hand).max(1) < AROUND).sum())
        count = len(seen) + 3 * near  # those near the hand will be four times as many
        rows, columns = strides(COARSE**2 * count / (CANDIDATES * self.points))
        top, left, bottom, right = camera.pixels((hand + AROUND * CORNERS)[None])[0].tolist()
        around = (top, left, bottom, right)
        # The table has told what it had to: of its pixels one in 300 000 would be taken for a thing (`SURE`)
        show: Show = "things and links" if links else "things"
        far = frame.pixels((rows, columns), outside=around, of=show)
        close = frame.pixels((-(-rows // 2), -(-columns // 2)), inside=around, of=show)
        return self.kept(data, camera, frame.read(np.concatenate([far, close]), links), *table)

    def stands(self, data: mujoco.MjData, frame: Frame, seed: int) -> Camera:
        """The camera where it is believed to stand; displaced, where the links tell it to, found once an episode."""
        sensor = self.sensor
        if sensor.shift == 0 or self.robot is None:
            return sensor.camera
        if self._stands is None or self._stands[0] != seed:
            reading = frame.read(frame.pixels((CALIBRATING, CALIBRATING), of="links"), links=True)
            rays, depth = reading.rays, reading.depth
            clear = sensor.camera.position[2] + rays[:, 2] * depth > sensor.sight.table + FARTHEST  # of the table
            found = find_camera(sensor.camera, sensor.sight.model, data, LINKS, rays[clear], depth[clear])
            self._stands = seed, found
        return self._stands[1]

    def table(self, camera: Camera, reading: Reading) -> tuple[float, float]:
        """How much too high the table is seen, and the deviation of depth that it shows."""
        hit = np.isfinite(reading.depth)
        rays = reading.rays[hit]
        return self.crop.find_table(camera.position + rays * reading.depth[hit, None], np.abs(rays[:, 2]))

    def kept(
        self, data: mujoco.MjData, camera: Camera, reading: Reading, level: float = 0.0, deviation: float = 0.0
    ) -> np.ndarray:
        """Points in the workspace that are not the robot's, (M, 3) or (M, 6) float32; heights count from the table."""
        hit = np.flatnonzero(np.isfinite(reading.depth))
        points = camera.position + reading.rays[hit] * reading.depth[hit, None]
        points[:, 2] -= level
        clear = np.maximum(SURE * deviation * np.abs(reading.rays[hit, 2]), CLEAR) if deviation else CLEAR
        inside = self.crop.keep(points, clear)
        hit, points = hit[inside], points[inside]
        if self.robot is not None:
            free = ~self.robot.hides(data, camera, reading.rays[hit], reading.depth[hit], SURE * deviation)
            hit, points = hit[free], points[free]
        if reading.rgb is not None:
            points = np.concatenate([points, reading.rgb[hit]], 1)
        return points.astype(np.float32)


def strides(area: float) -> tuple[int, int]:
    """One row and one column in so many, whose product is `area` or a little more."""
    rows = min(max(round(math.sqrt(area)), 1), COARSEST)
    return rows, min(max(math.ceil(area / rows), 1), COARSEST)
