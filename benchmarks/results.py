"""The tables in results/: `python -m benchmarks.results SETTING [TASK ...]`, SETTING one of

    metaworld      Short, Long, w/o SM and Full on the five tasks of the README; 13 minutes of one core a task
    sweeps         temperature and refinement steps on two of them
    missing        the same policies, observations withheld
    dynamic        scenes that move: trained there, and zero-shot from the static task
    non-markovian  buttons pressed in an order that no frame tells
    sorting        a towel sorted by a light that went off, with and without missing observations

Trains what is not trained yet (runs/), then evaluates, sampled as the preset says. "assembly@1" is assembly with
training seed 1, 0 is the default; each seed has rows of its own. The evaluation seeds begin at 60000: those of 10000
and of 30000 on were looked at while training was tuned. The column evaluation_seeds tells those of each row; metaworld,
sweeps and missing have 50000 on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from mgp.commands.eval import describe, evaluate_run, result_row
from mgp.commands.train import train
from mgp.envs import env_names
from mgp.errors import ConfigError, MGPError, UnknownNameError
from mgp.evaluation import table
from mgp.evaluation.missing import Missing
from mgp.presets import get_preset
from mgp.runs import SUMMARY, Run, for_task, run_path

SEED = 60_000
METAWORLD = ("assembly", "disassemble", "stick-push", "push", "drawer-open")
STATIC = {  # each moving scene and the static task it is a twin of
    "basketball": "basketball",
    "pick-place-wall-target": "pick-place-wall",
    "pick-place-wall-wall": "pick-place-wall",
    "push": "push",
    "push-wall": "push-wall",
}
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"variant": "no-sm"}, {"variant": "full"})
SWEEP = [{"temperature": value} for value in (0.25, 0.5, 1.0)] + [{"refine_steps": value} for value in (1, 3)]


class Table:
    """Rows of one results/*.csv."""

    def __init__(self, name: str, episodes: int = 50):
        self.path, self.episodes = Path("results") / f"{name}.csv", episodes

    def add(self, run: Run, changes: dict[str, Any], missing: float = 0.0, env: str | None = None) -> None:
        sampling = replace(get_preset(run.config.preset).sampling, **changes)
        own = not missing and env is None
        timed = own and set(changes) <= {"variant"}  # each variant thinks for a time of its own
        result = evaluate_run(run, sampling, self.episodes, SEED, Missing(missing), latency=timed, env_name=env)
        print(describe(result), flush=True)
        table.append(self.path, [result_row(run, result, own and not changes)])

    def add_variants(self, run: Run, missing: float = 0.0, env: str | None = None) -> None:
        for changes in VARIANTS if run.config.policy == "long" else VARIANTS[:1]:
            self.add(run, changes, missing, env)


def split(task: str) -> tuple[str, int]:
    """Name and training seed of "assembly@1"."""
    name, _, seed = task.partition("@")
    if seed and not seed.isdecimal():
        raise ConfigError(f"{task!r}: {seed!r} is no training seed; write e.g. {name}@1")
    return name, int(seed or 0)


def runs(tasks: Iterable[str], preset: str = "metaworld") -> Iterable[Run]:
    configs = []
    for name, seed in map(split, tasks):
        for policy in ("short", "long"):
            configs.append(for_task(replace(get_preset(f"{preset}-{policy}"), seed=seed), name))
    known = env_names()
    for config in configs:  # all of them, before the first one trains for minutes
        if config.env.name not in known:
            raise UnknownNameError("task", config.env.name, known)
    for config in configs:
        if (run_path(config) / SUMMARY).exists():  # how it is sampled is no part of what was learned
            config = replace(config, sampling=Run.open(run_path(config)).config.sampling)
        yield Run.open(train(config))


def metaworld(tasks: list[str]) -> None:
    for run in runs(tasks or METAWORLD):
        Table("metaworld").add_variants(run)


def sweeps(tasks: list[str]) -> None:
    for run in runs(tasks or ("disassemble", "push")):
        for changes in SWEEP:  # metaworld.csv has the same episodes at temperature 0 and two refinement steps
            Table("sweeps").add(run, changes)


def missing(tasks: list[str]) -> None:
    for run in runs(tasks or METAWORLD[:4]):
        for probability in (0.35, 0.5, 0.7):  # metaworld.csv has the same episodes at 0
            Table("missing").add(run, {}, probability)
        if run.config.policy == "long":
            Table("missing").add(run, {"variant": "no-sm"}, 0.35)
            Table("missing").add(run, {"variant": "full"}, 0.35)


def dynamic(tasks: list[str]) -> None:
    chosen = [split(task) for task in tasks or STATIC]
    for name, _ in chosen:
        if name not in STATIC:
            raise UnknownNameError("moving scene", name, STATIC)
    for name, seed in chosen:
        moving = f"metaworld-dynamic/{name}"
        for run in runs([f"{moving}@{seed}"], "dynamic"):
            Table("dynamic").add_variants(run)
        for run in runs([f"metaworld/{STATIC[name]}@{seed}"], "dynamic"):
            Table("dynamic").add_variants(run, env=moving)


def non_markovian(tasks: list[str]) -> None:
    for run in runs(tasks or ("buttons/on-off", "buttons/color-change"), "buttons"):
        Table("non_markovian", 20).add_variants(run)


def sorting(tasks: list[str]) -> None:
    for run in runs(tasks or ("sorting/towel",), "sorting"):
        for probability in (0.0, 0.35, 0.5):
            Table("sorting", 25).add_variants(run, probability)


SETTINGS = {
    "metaworld": metaworld,
    "sweeps": sweeps,
    "missing": missing,
    "dynamic": dynamic,
    "non-markovian": non_markovian,
    "sorting": sorting,
}


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    setting, *tasks = arguments
    try:
        if setting not in SETTINGS:
            raise UnknownNameError("setting", setting, SETTINGS)
        SETTINGS[setting](tasks)
    except MGPError as error:
        print(f"benchmarks.results: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
