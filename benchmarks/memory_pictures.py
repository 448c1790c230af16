"""Pictures of the tasks whose scene is shifted: `python -m benchmarks.memory_pictures` (a minute, no GL).

docs/memory-tasks.png has a strip for each: the cue, the scene right before and right after the shift, and how the
expert goes on. The animations show the same episodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from benchmarks.memory_tasks import SHIFTED, expert_actions
from benchmarks.moving_scenes import COLOURS, HEADER
from benchmarks.so101_pictures import FOLDER
from mgp.envs import RobotEnv, make_env

SEEDS = {"sorting/towel-nudged": 2, "buttons/shifted": 3, "metaworld-memory/pick-place-cue": 3}
EVERY = {"buttons/shifted": 4}  # control steps a picture of the animations, else 2: twice the speed
SIZE = 220  # pixels
AFTER = 8  # control steps that are shown of a scene in which the task is solved


def played(env: RobotEnv, seed: int) -> Iterator[int]:
    """The expert's episode, by the control steps taken."""
    env.reset(seed=seed)
    yield 0
    solved = 0
    for step, action in enumerate(expert_actions(env), 1):
        _, terminated, truncated, info = env.advance(action)
        solved += info["success"]
        yield step
        if terminated or truncated or solved > AFTER:
            return


def strip(name: str, pictures: dict[int, Image.Image], steps: Sequence[int], shift: int) -> Image.Image:
    image = Image.new("RGB", (len(steps) * SIZE, HEADER + SIZE), "white")
    draw = ImageDraw.Draw(image)
    for column, step in enumerate(steps):
        text = f"{name}, step 0" if step == 0 else f"step {step}{', shifted' if step == shift + 1 else ''}"
        draw.text((column * SIZE + 3, 2), text, fill="black")
        image.paste(pictures[step], (column * SIZE, HEADER))
    return image


def run(folder: Path = FOLDER, names: Sequence[str] = SHIFTED) -> None:
    strips = []
    for name in names:
        env = make_env(name, "state")
        end = max(played(env, SEEDS[name]))
        shift = env.shifted_at
        assert shift is not None, f"nothing is shifted in {name} with seed {SEEDS[name]}"
        steps = (0, shift, shift + 1, (3 * shift + end) // 4, (shift + end) // 2, end)
        filmed = range(0, end + 1, EVERY.get(name, 2))
        wanted = {*steps, *filmed}
        pictures = {s: Image.fromarray(env.picture(SIZE)) for s in played(env, SEEDS[name]) if s in wanted}
        strips.append(strip(name, pictures, steps, shift))
        first, *rest = [pictures[step] for step in filmed]
        animation = folder / f"{name.replace('/', '-')}.webp"
        first.save(animation, save_all=True, append_images=rest, duration=100, loop=0, quality=60, method=4)
    sheet = Image.new("RGB", (strips[0].width, sum(one.height for one in strips)), "white")
    for row, one in enumerate(strips):
        sheet.paste(one, (0, row * one.height))
    sheet.quantize(COLOURS).save(folder / "memory-tasks.png", optimize=True)


if __name__ == "__main__":
    run()
