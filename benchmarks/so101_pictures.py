"""Draws docs/so101.png and an animation of each task: `python -m benchmarks.so101_pictures` (a minute, no GL)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from mgp.envs import make_env

FOLDER = Path(__file__).parents[1] / "docs"
TASKS = ("buttons/on-off", "buttons/color-change", "sorting/towel")
SEED, FRAMES, SIZE = 3, 7, 220  # of the strip
EVERY, FILM_SIZE = {"sorting/towel": 2}, 240  # control steps a picture of the animations, else 4: twice the speed


def film(name: str, seed: int, every: int, size: int) -> list[np.ndarray]:
    """Pictures of the expert's episode, every so many steps."""
    env = make_env(name, "state")
    env.reset(seed=seed)
    act, pictures, done = env.expert(), [env.picture(size)], False
    while not done:
        _, terminated, truncated, _ = env.advance(act())
        done = terminated or truncated
        if done or env._steps % every == 0:
            pictures.append(env.picture(size))
    return pictures


def run(folder: Path = FOLDER, tasks: Sequence[str] = TASKS) -> None:
    rows = []
    for name in tasks:
        pictures = film(name, SEED, 4, SIZE)
        chosen = np.linspace(0, len(pictures) - 1, FRAMES).round().astype(int)
        rows.append(np.concatenate([pictures[i] for i in chosen], axis=1))
    strip = Image.fromarray(np.concatenate(rows)).quantize(128)
    strip.save(folder / "so101.png", optimize=True)
    for name in tasks:
        first, *rest = [Image.fromarray(picture) for picture in film(name, SEED, EVERY.get(name, 4), FILM_SIZE)]
        animation = folder / f"{name.replace('/', '-')}.webp"
        first.save(animation, save_all=True, append_images=rest, duration=100, loop=0, quality=60, method=4)


if __name__ == "__main__":
    run()
