"""The error of a run on the episodes that it did not learn from, with a picture of predicted against recorded."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from mgp.config import Sampling
from mgp.data.demonstrations import Demonstrations
from mgp.engines import AUTO
from mgp.errors import ConfigError
from mgp.evaluation.open_loop import FIGURES, PICTURE, SHOWN, Follow, OpenLoop, follow, open_loop
from mgp.runs import Run, load_policy, pick_device
from mgp.workflows.demonstrations import held_out


def held_out_of(run: Run, data: Path | None = None) -> tuple[Demonstrations, list[int]]:
    """All episodes of the run's store, and which of them it did not learn from."""
    if not run.config.task.held_out:
        raise ConfigError(
            f"{run.folder} kept no episodes apart: train with --task.held-out 2, say, to measure an error"
        )
    return held_out(run.config.task, data or run.data)


def evaluate_held_out(run: Run, sampling: Sampling | None = None, device: str = "cpu", engine: str = AUTO) -> OpenLoop:
    """Writes RUN/eval/open-loop.json and a picture of the first held-out episode beside it."""
    demonstrations, episodes = held_out_of(run)
    changes = asdict(sampling) if sampling else {}
    policy = load_policy(run.policy_checkpoint, str(pick_device(device)), engine, **changes)
    result = open_loop(policy, demonstrations, episodes)
    result.save(run.folder / "eval" / FIGURES)
    draw(follow(policy, demonstrations, episodes[0]), run.folder / "eval" / PICTURE)
    return result


def describe_open_loop(result: OpenLoop, run: Run) -> str:
    errors = dict(enumerate(result.error_by_step, 1))
    ahead = ", ".join(f"{step}: {errors[step]:.3f}" for step in SHOWN if step in errors)
    tokens = "" if result.tokens is None else f"; tokens as recorded {result.tokens:.2f}"
    return (
        f"{result.method} on {result.episodes} held-out episode{'s' * (result.episodes != 1)} of {result.task},"
        f" {result.plans} plans: mean error of"
        f" the actions it would run {result.error:.4f} (limits are -1 and 1; repeating the last action"
        f" {result.repeating:.4f}){tokens}\n"
        f"  by steps ahead  {ahead}\n"
        f"  picture: {run.folder / 'eval' / PICTURE}"
    )


def draw(seen: Follow, path: Path) -> None:
    """Recorded actions as lines, each plan as far as it would be run in colour, the rest of it faint."""
    from matplotlib.figure import Figure

    width = seen.recorded.shape[1]
    figure = Figure(figsize=(9, 1.5 * width + 0.5), layout="constrained")
    axes = figure.subplots(width, 1, sharex=True, squeeze=False)[:, 0]
    for number, axis in enumerate(axes):
        axis.plot(seen.recorded[:, number], color="black", linewidth=1.5, label="recorded")
        for index, (start, plan) in enumerate(zip(seen.starts, seen.plans, strict=True)):
            times = start + np.arange(len(plan))
            shown = seen.run + 1  # to the next plan's start
            axis.plot(times[:shown], plan[:shown, number], color="C1", label="predicted" if not index else None)
            rest = slice(seen.run, 2 * seen.run)
            axis.plot(times[rest], plan[rest, number], color="C1", alpha=0.3, linewidth=0.8)
        axis.set_ylabel(f"action {number}")
    axes[0].legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("control step of the first held-out episode")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
