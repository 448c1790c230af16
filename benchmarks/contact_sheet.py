"""The 50 Meta-World clouds at a glance: `python -m benchmarks.contact_sheet` writes docs/metaworld-clouds.png.

Each tile shows a task after reset: the picture, and below it the camera's cloud from the same viewpoint, blue at the
table to red at 30 cm and above: a cloud does not tell what its points belong to. Points within 8 cm of the hand, which
the robot's state tells, are grey.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from mgp.envs.metaworld import PICTURE_CAMERA, MetaWorldEnv, tasks

SIZE, COLUMNS, HEADER = 150, 10, 14  # pixels, tiles, pixels
GREY, LOW, HIGH = (110, 110, 110), np.array([30, 60, 220]), np.array([220, 40, 30])
HAND, TOP = 0.08, 0.3  # metres


def tile(task: str, seed: int = 0, points: int = 512) -> Image.Image:
    env = MetaWorldEnv(task, "cloud", points=points)
    first, _ = env.reset(seed=seed)
    cloud, hand = first["cloud"], first["state"][:3]
    image = Image.new("RGB", (SIZE, HEADER + 2 * SIZE), "white")
    draw = ImageDraw.Draw(image)
    draw.text((2, 1), task, fill="black")
    image.paste(Image.fromarray(env.picture(SIZE)), (0, HEADER))
    for (row, column), point in zip(PICTURE_CAMERA.project(cloud) * SIZE, cloud, strict=True):
        colour = GREY
        if np.linalg.norm(point - hand) > HAND:
            red, green, blue = (LOW + (HIGH - LOW) * min(max(point[2] / TOP, 0), 1)).astype(int).tolist()
            colour = (red, green, blue)
        if 1 < row < SIZE - 1:
            y = HEADER + SIZE + row
            draw.ellipse([column - 1, y - 1, column + 1, y + 1], fill=colour)
    return image


def run(path: str = "docs/metaworld-clouds.png", names: Sequence[str] = ()) -> None:
    names = names or tasks()
    rows = -(-len(names) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * SIZE, rows * (HEADER + 2 * SIZE)), "white")
    for i, task in enumerate(names):
        sheet.paste(tile(task), (i % COLUMNS * SIZE, i // COLUMNS * (HEADER + 2 * SIZE)))
    sheet.save(path, optimize=True)
    print(f"{path}: {len(names)} clouds, {Path(path).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    run(*sys.argv[1:2])
