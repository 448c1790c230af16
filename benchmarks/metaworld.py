"""results/metaworld.csv and results/sweeps.csv: `python -m benchmarks.metaworld [TASK ...]`.

Trains what is not trained yet (runs/), then evaluates: Short, Long, Full and w/o SM on every task, and a sweep of the
temperature and of the refinement steps on two of them. About twelve minutes a task on two cores.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from mgp.commands.eval import describe, evaluate_run, top5
from mgp.commands.train import train
from mgp.config import SamplingConfig
from mgp.evaluation import table
from mgp.presets import get_preset
from mgp.runs import Run, for_task

TASKS = ("assembly", "disassemble", "stick-push", "push", "drawer-open")
SWEPT = ("disassemble", "push")
SWEEP = [{"temperature": value} for value in (0.25, 0.5, 1.0)] + [{"refine_steps": value} for value in (1, 3)]
EPISODES = 50


def record(run: Run, sampling: SamplingConfig, csv: Path, episodes: int, latency: bool = True) -> None:
    result = evaluate_run(run, sampling, episodes, latency=latency)
    print(describe(result), flush=True)
    in_training = top5(run) if sampling == run.config.sampling else ""
    table.append(csv, [table.row([result]) | {"top5_in_training": in_training}])


def main(tasks: list[str]) -> None:
    for task in tasks:
        for preset in ("metaworld-short", "metaworld-long"):
            run = Run.open(train(for_task(get_preset(preset), task)))
            usual = run.config.sampling
            for variant in ("long", "no-sm", "full") if run.config.policy == "long" else ("long",):
                record(run, replace(usual, variant=variant), Path("results/metaworld.csv"), EPISODES)
            for changes in SWEEP if task in SWEPT else ():
                record(run, replace(usual, **changes), Path("results/sweeps.csv"), EPISODES, latency=False)


if __name__ == "__main__":
    main(sys.argv[1:] or list(TASKS))
