"""The moving scenes at a glance: `python -m benchmarks.moving_scenes` writes docs/metaworld-dynamic.png and .webp.

The picture has a strip for each task of the paper, with the expert at work; each frame is labelled with its control
step and how far the scene has moved by then. The animation shows the five side by side.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from mgp.envs.metaworld_dynamic import DynamicMetaWorldEnv, tasks

SIZE, HEADER, COLOURS = 190, 16, 128  # pixels, pixels, colours of the palette, which keeps the file small
STEPS = {"pick-place-wall-wall": (0, 60, 120, 200), "basketball": (0, 35, 70, 100)}  # others: as the motion to step 67
DEFAULT_STEPS = (0, 22, 45, 67)
SEED = 1
FILM_SIZE, FILM_EVERY, FILM_END = 150, 4, 120  # pixels of a task, control steps a frame, and the last of them


def strip(task: str) -> Image.Image:
    env = DynamicMetaWorldEnv(task, "state")
    env.reset(seed=SEED)
    expert = env.expert()
    steps = STEPS.get(task, DEFAULT_STEPS)
    image = Image.new("RGB", (len(steps) * SIZE, HEADER + SIZE), "white")
    draw = ImageDraw.Draw(image)
    for step in range(max(steps) + 1):
        if step in steps:
            x = steps.index(step) * SIZE
            text = f"step {step}: {1000 * env.offset + 0.0:+.0f} mm"
            draw.text((x + 3, 2), f"{task}, {text}" if step == 0 else text, fill="black")
            image.paste(Image.fromarray(np.asarray(env.picture(SIZE))), (x, HEADER))
        if step < max(steps):
            env.advance(expert())
    env.close()
    return image


def film(task: str) -> list[np.ndarray]:
    env = DynamicMetaWorldEnv(task, "state")
    env.reset(seed=SEED)
    expert, frames = env.expert(), []
    for step in range(FILM_END + 1):
        if step % FILM_EVERY == 0:
            frames.append(np.asarray(env.picture(FILM_SIZE)))
        env.advance(expert())
    env.close()
    return frames


def run(path: str = "docs/metaworld-dynamic.png", names: Sequence[str] = ()) -> None:
    names = names or [task for task in tasks() if task != "basketball-midway"]  # looks like basketball, only later
    strips = [strip(task) for task in names]
    sheet = Image.new("RGB", (strips[0].width, sum(one.height for one in strips)), "white")
    for row, one in enumerate(strips):
        sheet.paste(one, (0, row * one.height))
    sheet.quantize(COLOURS).save(path, optimize=True)
    first, *rest = [Image.fromarray(np.hstack(row)) for row in zip(*map(film, names), strict=True)]
    animation = Path(path).with_suffix(".webp")
    first.save(animation, save_all=True, append_images=rest, duration=160, loop=0, quality=55, method=4)
    print(f"{path}: {len(names)} strips, {Path(path).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    run(*sys.argv[1:2])
