"""What the benchmarks of the controller share: runs, their episodes, and rows of results/*.csv."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from benchmarks.results import RESULTS, check_clean, named, preset_digest
from mgp.engines import REFERENCE
from mgp.envs import make_env
from mgp.errors import ConfigError, MGPError
from mgp.evaluation import seeds
from mgp.evaluation.csv_table import changed, text
from mgp.evaluation.evaluate import check_seeds
from mgp.evaluation.provenance import commit, machine
from mgp.runs import Run, load_policy
from mgp.runtime.log import ControlLog
from mgp.runtime.simulate import Trial, drive_all

# family of environments: the table whose episodes are these, so that rows can be compared
TABLES = {
    "metaworld": "metaworld",
    "metaworld-dynamic": "dynamic",
    **dict.fromkeys(("metaworld-memory", "buttons", "sorting"), "memory"),
}


@dataclass(frozen=True)
class Options:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]  # folders that `mgp train` wrote
    episodes: int = 50
    rate: float = 20.0  # control steps a second
    engine: str = REFERENCE  # who computes; the same for all rows that are compared, and torch can be had everywhere
    development: bool = False  # on development seeds and into no table, from whatever commit
    workers: int | None = None  # processes; none: a core each
    output: Path | None = None  # instead of the file in results/


# what tells whose episodes a row is of
WHO = ("method", "task", "variant", "training_seed", "engine", "block", "evaluation_seeds")


class Subject:
    """A run and the episodes it is driven through."""

    def __init__(self, folder: Path, options: Options):
        self.run, self.options = Run.open(folder), options
        self.policy = load_policy(self.run.policy_checkpoint, engine=options.engine)
        self.task, self.table = self.run.config.task.name, TABLES.get(self.run.config.task.family)
        # `benchmarks.results memory` trains each method twice, and tells the trainings apart by this
        self.learned = {"encoder.first": self.run.config.encoder.first} if self.table == "memory" else {}
        self.block = None if options.development else self._claim()
        first = seeds.DEVELOPMENT[0] if self.block is None else seeds.block_seeds(self.block, options.episodes)[0]
        self.seeds = range(first, first + options.episodes)
        check_seeds(list(self.seeds), self.run.demonstration_seeds)

    def _claim(self) -> int:
        if self.table is None:
            raise ConfigError(f"{self.task} is of no table ({', '.join(TABLES)}): add --development")
        check_clean(commit(), "this is commit")
        check_clean(self.run.trained_at, f"{self.run.folder} was trained at commit")
        ledger, digest = RESULTS / seeds.LEDGER, preset_digest(self.run.config)
        task = named(self.task, self.learned)
        return seeds.claim(ledger, self.table, self.policy.label, task, digest, commit())

    def drive(self, label: str, sampling: Mapping[str, Any] | None = None, **trial: Any) -> list[ControlLog]:
        task = self.run.config.task
        make = partial(make_env, task.name, task.observation, **self.run.spec.options)
        load = self.run.loader(**{"engine": self.policy.engine, **(sampling or {})})
        chosen = Trial(load, make, rate=self.options.rate, **trial)
        return drive_all(chosen, self.seeds, workers=self.options.workers, label=f"{self.task} {label}")

    def row(self, **values: Any) -> dict[str, str]:
        own = {
            "method": self.policy.label,
            "task": self.task,
            "variant": " ".join(f"{name}={value}" for name, value in self.learned.items()),
            "training_seed": self.run.config.seed,
            "engine": self.policy.engine,
            **values,
            "block": self.block,
            "evaluation_seeds": f"{self.seeds[0]}-{self.seeds[-1]}",
            "trained_at": self.run.trained_at,
            "commit": commit(),
            "machine": machine(),
        }
        return {name: text(value) for name, value in own.items() if text(value) != ""}


def add_rows(path: Path, rows: Sequence[dict[str, str]], key: Sequence[str]) -> None:
    """Each in the place of its old self, which has the same `key`."""
    with changed(path, list(rows[0])) as lines:
        for row in rows:
            same = [place for place, old in enumerate(lines) if all(old.get(name) == row.get(name) for name in key)]
            for place in reversed(same):
                del lines[place]
            lines.insert(same[0] if same else len(lines), row)


def fill_table(
    table: str, measure: Callable[[Subject], list[dict[str, str]]], key: Sequence[str], options: Options
) -> None:
    """The rows of each run into results/TABLE.csv, or where the options say."""
    for folder in options.runs:
        rows = measure(Subject(folder, options))
        path = options.output or (None if options.development else RESULTS / f"{table}.csv")
        if path is not None:
            add_rows(path, rows, key)


def command(name: str, text: str | None, run: Callable[[Options], None], arguments: list[str]) -> int:
    """`python -m benchmarks.NAME ARGUMENTS`: its exit code."""
    try:
        run(tyro.cli(Options, args=arguments, prog=f"python -m benchmarks.{name}", description=text))
    except MGPError as error:
        print(f"benchmarks.{name}: {error}", file=sys.stderr)
        return 2
    return 0


def outcomes(logs: Sequence[ControlLog]) -> dict[int, bool]:
    """By episode seed, as `statistics.sign_test` wants them."""
    return {log.seed: bool(log.success) for log in logs}
