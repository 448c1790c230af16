"""How fast policies train: `python -m benchmarks.speed training [RUN ...]`, a minute of an idle machine.

Steps of MGP-Short, DP3 and ACT as `mgp train` makes them (default methods, one thread, ten demonstrations of
metaworld/assembly), interleaved; each stage of a training has a line. Given run folders, also when each of them first
came to a success of 0.8 in the evaluations on its way (evals.csv): after how many steps, in how many minutes as it
logged them (metrics.csv), whatever else its machine did, and in how many at the pace measured here.

Printed, and written to results/speed_training.csv if the machine was idle and the commit is clean.
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

from benchmarks.timing import TASK, check_idle, demonstrated, show
from mgp.data.demonstrations import Demonstrations
from mgp.errors import DataError
from mgp.evaluation.csv_table import Line, text
from mgp.evaluation.idle import Others, watched
from mgp.evaluation.provenance import commit, machine
from mgp.evaluation.speed_table import write_speed
from mgp.policies.acting import torch_threads
from mgp.policies.config import RunConfig
from mgp.policies.learned import Stage
from mgp.presets import get_config
from mgp.runs import read_evals
from mgp.training.loop import Trainer

OUTPUT = Path("results/speed_training.csv")
METHODS = ("mgp-short", "dp3", "act")
WARM_UP = 3  # first steps that are not timed
COLUMNS = (
    "method",
    "stage",
    "threads",
    "parameters",  # that the stage trains
    "batch",
    "timed",  # steps
    "step_p50",  # milliseconds
    "step_p99",
    "seconds_per_1000",  # steps, by the median
    "steps",  # of the stage, as the method has it
    "minutes",  # for these
    "task",  # of the runs below
    "runs",
    "level",  # success that they came to, for the first time
    "level_step",  # of the last stage; of each run
    "level_minutes",  # at the pace of this table, all stages; of each run
    "logged_minutes",  # as the runs measured them
    "others",  # cores that other processes used meanwhile
    "torch",
    "commit",
    "machine",
)


@dataclass(frozen=True)
class Options:
    """Time training steps side by side, and read from runs how long they took to a level of success."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()  # folders of `mgp train`
    level: float = 0.8  # of success
    rounds: int = 10
    steps: int = 3  # of each stage in a round
    busy: bool = False  # on a machine that is not idle, too: the figures are printed, not written
    output: Path = OUTPUT


@dataclass(frozen=True)
class Reached:
    """When a run first came to a level of success; without steps, never."""

    folder: Path
    method: str
    task: str
    steps: dict[str, int] = field(default_factory=dict)  # of each stage, until then
    minutes: float = 0.0


def first_reaching(folder: Path, level: float) -> Reached:
    try:
        config = json.loads((folder / "config.json").read_text())
        with (folder / "metrics.csv").open(newline="") as file:
            lines = [(line["stage"], int(line["step"]), float(line["seconds"])) for line in csv.DictReader(file)]
        evals = [(int(line["step"]), float(line["success"])) for line in read_evals(folder)]
        about = folder, str(config["method"]), str(config["task"]["name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder} is no run with metrics.csv ({error!r}): give folders that `mgp train` wrote"
        ) from error
    reached = next((step for step, success in evals if success >= level), None)
    if reached is None or not lines:
        return Reached(*about)
    steps = {stage: max(step for name, step, _ in lines if name == stage) for stage, _, _ in lines}
    last = lines[-1][0]  # evaluations are of the last stage
    seconds = [seconds for stage, step, seconds in lines if stage == last and step >= reached]
    if not seconds:
        raise DataError(
            f"{folder / 'metrics.csv'} ends before step {reached}, where evals.csv has the success: mend it"
        )
    return Reached(*about, steps | {last: reached}, min(seconds) / 60)


@dataclass
class Pace:
    """One stage of one method, and the milliseconds of its steps so far."""

    config: RunConfig
    trainer: Trainer
    number: int
    stage: Stage
    times: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters, self.source, self.optimizer = self.trainer._begin(self.stage)

    def step(self) -> None:
        begin = time.perf_counter()
        self.trainer._update(
            self.number, self.stage, self.source, self.parameters, self.optimizer, max(self.stage.steps, 1)
        )
        self.trainer.progress.step += 1
        self.times.append(1e3 * (time.perf_counter() - begin))

    @property
    def name(self) -> tuple[str, str]:
        return self.config.method, self.stage.name


def paces(configs: Sequence[RunConfig], demonstrations: Demonstrations, folder: Path) -> list[Pace]:
    out = []
    for config in configs:
        count = len(Trainer(config, demonstrations, folder, quiet=True).policy.stages())
        for number in range(count):  # each on a policy of its own
            trainer = Trainer(config, demonstrations, folder, quiet=True)
            out.append(Pace(config, trainer, number, trainer.policy.stages()[number]))
    return out


def measure(
    options: Options, configs: Sequence[RunConfig], demonstrations: Demonstrations
) -> tuple[list[Pace], Others]:
    with tempfile.TemporaryDirectory() as folder, torch_threads(1):
        found = paces(configs, demonstrations, Path(folder))
        for pace in found:
            for _ in range(WARM_UP):
                pace.step()
            pace.times.clear()
        with watched() as others:
            for _ in range(options.rounds):
                for pace in found:
                    for _ in range(options.steps):
                        pace.step()
    return found, others


def line_of(pace: Pace, every: Sequence[Pace], reached: Sequence[Reached], level: float, others: Others) -> Line:
    """`reached` stand in the line of the last stage of their method."""
    middle, slow = np.percentile(pace.times, (50, 99))
    values = {
        "method": pace.config.method,
        "stage": pace.stage.name,
        "threads": 1,
        "parameters": sum(parameter.numel() for parameter in pace.parameters.values()),
        "batch": pace.stage.batch,
        "timed": len(pace.times),
        "step_p50": f"{middle:.4g}",
        "step_p99": f"{slow:.4g}",
        "seconds_per_1000": f"{middle:.4g}",
        "steps": pace.stage.steps,
        "minutes": f"{pace.stage.steps * middle / 6e4:.2f}",
        **{"others": others.cores, "torch": torch.__version__, "commit": commit(), "machine": machine()},
    }
    mine = [one for one in reached if one.method == pace.config.method]
    if mine and pace.stage == pace.trainer.policy.stages()[-1]:
        speed = {one.stage.name: np.median(one.times) for one in every if one.config.method == pace.config.method}
        values |= {
            "task": " ".join(sorted({one.task for one in mine})),
            "runs": " ".join(one.folder.name for one in mine),
            "level": level,
            "level_step": _each(one.steps.get(pace.stage.name) for one in mine),
            "level_minutes": _each(_minutes(one, speed) for one in mine),
            "logged_minutes": _each(round(one.minutes, 2) for one in mine),
        }
    return {name: text(values[name]) for name in COLUMNS if text(values.get(name)) != ""}


def _minutes(reached: Reached, speed: Mapping[str, float]) -> float:
    """At so many milliseconds a step of each stage."""
    if unknown := set(reached.steps) - set(speed):
        raise DataError(
            f"{reached.folder} has a stage {sorted(unknown)[0]!r}, the method {reached.method} has {', '.join(speed)}:"
            " it was trained by another version, leave it out"
        )
    return round(sum(speed[stage] * steps for stage, steps in reached.steps.items()) / 6e4, 2)


def _each(values: Iterable[float | None]) -> str:
    """Of each run; 0 or None: never."""
    return " ".join(str(value) if value else "never" for value in values)


def run(options: Options) -> None:
    reached = [first_reaching(folder, options.level) for folder in options.runs]
    check_idle(options.busy)
    methods = dict.fromkeys((*METHODS, *(one.method for one in reached)))
    configs = [get_config(method, TASK) for method in methods]
    found, others = measure(options, configs, demonstrated(configs[0].task.demonstrations))
    lines = [line_of(pace, found, reached, options.level, others) for pace in found]
    show(lines, [name for name in COLUMNS if name not in ("others", "torch", "commit", "machine")])
    if not options.busy:
        write_speed(options.output, COLUMNS, lines, others)


def main(arguments: list[str]) -> None:
    run(tyro.cli(Options, args=arguments, prog="python -m benchmarks.speed training"))
