"""What ATR buys, in one picture: `python -m benchmarks.atr_figure RUN [SEED]` (a minute, no GL) writes docs/atr.png.

RUN is an MGP-Long of sorting/towel-nudged. One episode three times with the same weights: Full never edits its plan,
w/o SM rewrites all of it at each look, Long what it doubts. Above, the table from above: where the towel lay and lies,
the first plan and the way that was gone. Below, the plan at each look: what was executed, kept and rewritten.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Rectangle

from mgp.envs import make_env
from mgp.envs.so101 import workbench
from mgp.envs.so101.sorting import SortingEnv
from mgp.errors import ConfigError, MGPError
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.policies.base import PlanTrace
from mgp.policies.driver import Driver
from mgp.runs import Run, load_policy

OUTPUT, TASK = Path("docs/atr.png"), "sorting/towel-nudged"
WAYS = {
    "Full: the first plan, come what may": {"variant": "full"},
    "w/o SM: all rewritten at each look": {"variant": "no-sm"},
    "Long: what is doubted, rewritten": {"variant": "long"},
}
EXECUTED, KEPT, REWRITTEN = range(3)
SHADES = ListedColormap(["#bbbbbb", "#9ecae1", "#e6550d"])


class Episode(NamedTuple):
    plan: np.ndarray  # (T, A) the first one
    way: np.ndarray  # (S, 3) of the fingertip
    towels: list[np.ndarray]  # (3,) where it lay, and where it was put
    shifted_at: int | None
    trace: PlanTrace
    cue: str
    basket: str  # in which it ended, or "none"


def played(run: Run, seed: int, **sampling: Any) -> Episode:
    env = make_env(TASK, run.config.task.observation, **run.config.task.options)
    assert isinstance(env, SortingEnv)
    policy = load_policy(run.policy_checkpoint, **sampling)
    driver = Driver(policy, [seed], trace=True)
    frame, _ = env.reset(seed=seed)
    towels, way, plan, done, info = [env.towel()[0]], [], None, False, {"basket": "none"}
    while not done:
        way.append(np.asarray(frame["state"][:3]))
        action = driver.act(frame)
        plan = driver.chunk.actions[0] if plan is None and driver.chunk else plan
        _, ended, cut, info = env.advance(action)
        if env.shifted_at is not None and len(towels) == 1:
            towels.append(env.towel()[0])
        done = ended or cut or bool(info["success"])
        frame = env.observe()
    trace = policy.trace(driver.memory, 0)
    assert plan is not None
    assert trace is not None
    return Episode(plan, np.array(way), towels, env.shifted_at, trace, env.cue, info["basket"])


def from_above(axes: Axes, one: Episode) -> None:
    half = workbench.BASKET_HALF
    for colour, (x, y) in workbench.BASKETS.items():
        axes.add_patch(
            Rectangle((x - half, y - half), 2 * half, 2 * half, fill=colour == one.cue, color=colour, alpha=0.35, lw=2)
        )
    for place, style in zip(one.towels, (":", "-"), strict=False):
        length, width, _ = workbench.TOWEL
        axes.add_patch(Rectangle(place[:2] - (length, width), 2 * length, 2 * width, fill=False, ls=style, lw=1.5))
    axes.plot(*one.plan[:, :2].T, ls="--", lw=1, color="#3182bd", label="first plan")
    axes.plot(*one.way[:, :2].T, lw=1.8, color="#e6550d", label="way gone")
    axes.set(aspect="equal", xlim=(-0.27, 0.27), ylim=(-0.19, 0.09), xticks=[], yticks=[])
    axes.set_xlabel("delivered" if one.basket == one.cue else f"towel in basket: {one.basket}")


def over_time(axes: Axes, one: Episode, run: int, per: int) -> None:
    """Rows are looks, from above; columns are the plan's tokens, shown up to the episode's end."""
    looks, tokens = one.trace.masked.shape
    shown = np.full((looks, tokens), KEPT)
    shown[one.trace.masked > 0] = REWRITTEN
    shown[np.arange(tokens) < one.trace.executed[:, None]] = EXECUTED
    axes.imshow(shown, SHADES, vmin=0, vmax=2, aspect="auto", interpolation="nearest")
    if one.shifted_at is not None:
        axes.axhline(one.shifted_at / run + 0.5, color="black", lw=1)
        axes.text(tokens - 0.5, one.shifted_at / run + 0.4, "the towel is shifted", ha="right", va="bottom", fontsize=7)
    axes.set(xlabel=f"plan, tokens of {per} steps", yticks=range(0, looks, 2))


def draw(run: Run, seed: int, output: Path) -> None:
    figure, grid = plt.subplots(2, len(WAYS), figsize=(11, 5), height_ratios=(3, 2), layout="constrained")
    sampling = run.config.policy.sampling
    per = run.config.policy.tokenizer.actions_per_token  # type: ignore[attr-defined]
    for column, (title, changes) in enumerate(WAYS.items()):
        one = played(run, seed, **changes)
        grid[0, column].set_title(title, fontsize=10)
        from_above(grid[0, column], one)
        over_time(grid[1, column], one, sampling.execution_horizon, per)
    grid[0, 0].legend(fontsize=7, loc="lower center")
    grid[1, 0].set_ylabel("looks")
    names = ("executed", "kept", "rewritten")
    patches = [Rectangle((0, 0), 1, 1, color=SHADES(i)) for i in range(3)]
    grid[1, 0].legend(patches, names, fontsize=7, loc="lower left")
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
        print(f"benchmarks.atr_figure: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
