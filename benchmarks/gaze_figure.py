"""What the gaze does, in one picture: `python -m benchmarks.gaze_figure RUN [SEED]` (a minute) writes docs/gaze.png.

RUN is an MGP-Long of buttons/shifted. Left, after the plate was shifted and before the third press, the look that led
the plan furthest: where the buttons were (dotted) and are, the plan of the next steps as it is remembered, and where it
is led. Right, the same episode to its end by the same weights, with and without the gaze.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from mgp.envs import make_env
from mgp.envs.so101 import buttons_scene as scene
from mgp.envs.so101.button import COLOURS
from mgp.envs.so101.buttons import ORDER, ButtonsEnv
from mgp.errors import ConfigError, MGPError
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.policies.driver import Driver
from mgp.policies.mgp import MGP
from mgp.policies.mgp.gaze import AHEAD, EVERY
from mgp.policies.mgp.policy import LongMemory
from mgp.runs import Run, load_policy

OUTPUT, TASK = Path("docs/gaze.png"), "buttons/shifted"
RING = 0.04  # metres, as drawn
REMEMBERED, LED, WITHOUT = "#3182bd", "#e6550d", "#999999"


class Episode(NamedTuple):
    way: np.ndarray  # (S, 3) of the fingertip
    plan: np.ndarray  # (T, 2) the next places as remembered, at the look that led them furthest
    aside: np.ndarray  # (T, 2) and how far from there they are led
    shift: np.ndarray  # (2,) of the plate
    order: list[int]  # of the buttons
    pressed: int


def played(run: Run, seed: int, gaze: bool) -> Episode:
    env = make_env(TASK, run.config.task.observation, **run.config.task.options)
    assert isinstance(env, ButtonsEnv)
    assert env.plate is not None
    policy = load_policy(run.policy_checkpoint)
    assert isinstance(policy, MGP)
    policy.gaze = policy.gaze if gaze else None
    driver = Driver(policy, [seed])
    frame, _ = env.reset(seed=seed)
    order, way, plan, aside, done = env.order, [], np.zeros((0, 2)), np.zeros((0, 2)), False
    info = {"pressed": 0}
    while not done:
        way.append(np.asarray(frame["state"][:3]))
        looks = driver.due and env.shifted_at is not None and info["pressed"] == 2
        action = driver.act(frame)
        memory = driver.memory
        assert isinstance(memory, LongMemory)
        if looks and driver.chunk is not None and memory.aside is not None:
            led = driver.chunk.actions[0, :AHEAD, :2]
            by = memory.aside.by[0, memory.steps : memory.steps + len(led)].cpu().numpy()
            if np.abs(by).sum() > np.abs(aside).sum():
                plan, aside = led - by, by
        _, ended, cut, info = env.advance(action)
        done = ended or cut or bool(info["success"])
        frame = env.observe()
    return Episode(np.array(way), plan - aside, aside, env.plate.offset, order, info["pressed"])


def table(axes: Axes, one: Episode) -> None:
    for number, button in enumerate(one.order, 1):
        place, colour = np.array(scene.PLACES[button]), COLOURS[ORDER[number - 1]][:3]
        axes.add_patch(Circle(tuple(place), RING, fill=False, ls=":", lw=1.2, color=colour))
        axes.add_patch(Circle(tuple(place + one.shift), RING, fill=False, lw=2, color=colour))
        axes.annotate(str(number), place + one.shift, ha="center", va="center", fontsize=8)
    axes.set(aspect="equal", xlim=(-0.34, 0.34), ylim=(-0.34, 0.34), xticks=[], yticks=[])


def draw(run: Run, seed: int, output: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
    led, without = played(run, seed, True), played(run, seed, False)
    table(left, led)
    left.plot(*led.plan.T, ls="--", lw=1.2, color=REMEMBERED, label=f"the next {len(led.plan)} steps, as remembered")
    left.plot(*(led.plan + led.aside).T, lw=1.8, color=LED, label="where they are led")
    left.quiver(
        *led.plan[EVERY - 1 :: EVERY].T, *led.aside[EVERY - 1 :: EVERY].T,
        angles="xy", scale_units="xy", scale=1, width=0.004, color=LED, alpha=0.5,
    )  # fmt: skip
    left.set_title("a look before the third press", fontsize=10)
    table(right, led)
    right.plot(*without.way[:, :2].T, lw=1, color=WITHOUT, label=f"without the gaze: {without.pressed} of 4 pressed")
    right.plot(*led.way[:, :2].T, lw=1.5, color=LED, label=f"with it: {led.pressed} of 4")
    right.set_title("the way of the finger", fontsize=10)
    for axes in (left, right):
        axes.legend(fontsize=7, loc="center")
    figure.savefig(output, dpi=110)
    plt.close(figure)


def main(arguments: list[str], output: Path = OUTPUT) -> int:
    try:
        if not 1 <= len(arguments) <= 2:
            raise ConfigError(f"name a run's folder, and a seed if you like\n\n{__doc__}")
        run = Run.open(arguments[0])
        if run.config.task.name != TASK or run.config.method != "mgp-long":
            raise ConfigError(
                f"{run.folder} is {run.config.method} of {run.config.task.name}: needs mgp-long of {TASK}"
            )
        draw(run, int(arguments[1]) if len(arguments) > 1 else DEVELOPMENT[0], output)
    except (MGPError, ValueError) as error:
        print(f"benchmarks.gaze_figure: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
