"""A pinhole camera fixed in the world: which cells of its image a box covers, and the rays through them."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

CELLS = 112  # the image is divided into 112 x 112 cells that are cast or not; 2 cm at a metre with 100 degrees
MAX_SIZE = 896  # finest grid of rays over the image: 2.7 mm at a metre with 100 degrees
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)  # of a box


@dataclass(frozen=True)
class Camera:
    """MuJoCo's convention: looks along -z, x right, y up; square image."""

    position: np.ndarray  # (3,) world
    matrix: np.ndarray  # (3, 3) columns are the camera's axes in the world
    fovy: float  # degrees

    @classmethod
    def of(cls, model: mujoco.MjModel, name: str, position: tuple[float, float, float], fovy: float) -> Camera:
        """The named camera moved to `position` and rolled by half a turn, in the model too.

        Meta-World's corner cameras hang upside down; rolling changes the image, not what is seen.
        """
        camera = model.camera(name)
        camera.pos[:] = position
        camera.fovy[:] = fovy
        camera.mode[:] = mujoco.mjtCamLight.mjCAMLIGHT_FIXED
        upright = np.zeros(4)
        mujoco.mju_mulQuat(upright, camera.quat, np.array([0.0, 0.0, 0.0, 1.0]))
        camera.quat[:] = upright
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, upright)
        return cls(np.array(position, float), matrix.reshape(3, 3), fovy)

    @classmethod
    def looking(cls, position: tuple[float, float, float], target: tuple[float, float, float], fovy: float) -> Camera:
        """A camera that looks from one point to another, upright."""
        back = np.subtract(position, target)
        back /= np.linalg.norm(back)
        right = np.cross([0.0, 0.0, 1.0], back)
        right /= np.linalg.norm(right)
        return cls(np.array(position, float), np.stack([right, np.cross(back, right), back], 1), fovy)

    @property
    def tangent(self) -> float:
        return float(np.tan(np.deg2rad(self.fovy) / 2))

    def rectangles(self, corners: np.ndarray) -> np.ndarray:
        """Cells around boxes given by their corners (B, 8, 3): top, left, bottom, right, (B, 4)."""
        image = self.project(corners)  # (B, 8, 2)
        low, high = np.floor(image.min(1) * CELLS), np.ceil(image.max(1) * CELLS)
        return np.clip(np.concatenate([low, high], 1), 0, CELLS).astype(int)

    def project(self, points: np.ndarray) -> np.ndarray:
        """Row and column (..., 2) of points (..., 3), 0..1 inside the image."""
        local = (points - self.position) @ self.matrix
        depth = np.maximum(-local[..., 2:], 0.05)  # whatever is beside or behind the camera lands far outside
        return local[..., 1::-1] / (depth * self.tangent) * [-0.5, 0.5] + 0.5

    def rays(self, cells: np.ndarray, size: int) -> np.ndarray:
        """Directions (R, 3) through the pixels of a size x size image that lie in the marked cells (CELLS, CELLS)."""
        rows, columns = np.flatnonzero(cells.any(1)), np.flatnonzero(cells.any(0))
        if len(rows) == 0:
            return np.zeros((0, 3))
        row, row_cell = _centres(rows[0], rows[-1] + 1, size)
        column, column_cell = _centres(columns[0], columns[-1] + 1, size)
        i, j = np.nonzero(cells[row_cell][:, column_cell])
        return self.through(row[i], column[j])

    def pixels(self, corners: np.ndarray) -> np.ndarray:
        """Pixels of the finest image round boxes given by their corners (B, 8, 3): top, left, bottom, right, (B, 4)."""
        image = self.project(corners) * MAX_SIZE  # (B, 8, 2)
        low, high = np.floor(image.min(1)), np.ceil(image.max(1))
        return np.clip(np.concatenate([low, high], 1), 0, MAX_SIZE).astype(int)

    def image(self, size: int) -> np.ndarray:
        """Directions (size * size, 3) through the pixel centres, row by row from the top, as a renderer has them."""
        centres = (np.arange(size) + 0.5) / size
        rows, columns = np.meshgrid(centres, centres, indexing="ij")
        return self.through(rows.ravel(), columns.ravel())

    def through(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Directions (R, 3) through image places (R,), 0..1, as `project` gives them."""
        local = np.stack([(2 * columns - 1) * self.tangent, (1 - 2 * rows) * self.tangent, -np.ones_like(rows)], 1)
        return local @ self.matrix.T


def _centres(first: int, last: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixel centres (0..1) of a `size` wide image inside the cells first..last, and the cell of each."""
    pixels = np.arange(first * size // CELLS, -(-last * size // CELLS))
    centres = (pixels + 0.5) / size
    return centres, np.minimum((centres * CELLS).astype(int), CELLS - 1)
