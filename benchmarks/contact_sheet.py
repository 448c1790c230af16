"""The 50 Meta-World clouds at a glance: `python -m benchmarks.contact_sheet` writes docs/metaworld-clouds.png.

Each tile shows a task after reset: the picture, and below it the cloud from the same viewpoint, one colour a thing
(goal markers green, the gripper grey).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from mgp.envs.metaworld import PICTURE_CAMERA, MetaWorldEnv, tasks
from mgp.envs.scene import ROBOT

SIZE, COLUMNS, HEADER = 150, 10, 14  # pixels, tiles, pixels
GREEN, GREY = (0, 150, 60), (110, 110, 110)
COLOURS = [(200, 40, 40), (40, 80, 210), (210, 130, 0), (140, 50, 170), (0, 140, 160), (120, 80, 40)]


def tile(task: str, seed: int = 0, points: int = 512) -> Image.Image:
    env = MetaWorldEnv(task, "cloud", points=points)
    env.reset(seed=seed)
    scene, model = env._scene, env._sim.model
    cloud, labels = env._cast.labelled(env._sim.data)
    image = Image.new("RGB", (SIZE, HEADER + 2 * SIZE), "white")
    draw = ImageDraw.Draw(image)
    draw.text((2, 1), task, fill="black")
    image.paste(Image.fromarray(env.picture(SIZE)), (0, HEADER))
    for (row, column), label in zip(PICTURE_CAMERA.project(cloud) * SIZE, labels, strict=True):
        colour = GREEN
        if label >= 0:
            root = model.body(model.body_rootid[model.geom_bodyid[label]]).name
            colour = GREY if root == ROBOT else COLOURS[scene.thing[label] % len(COLOURS)]
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
