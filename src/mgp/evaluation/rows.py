"""Rows of results/*.csv: one line for a method on a task, pooled over its training seeds.

A row made again replaces its old self (`KEY`). A folder with a ledger of test blocks (`seeds.LEDGER`) is a published
one: what a careful reader would contest is refused there, see `check_published`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mgp.errors import ConfigError
from mgp.evaluation.csv_table import Line, changed, text
from mgp.evaluation.provenance import reproducible
from mgp.evaluation.record import Evaluation
from mgp.evaluation.seeds import LEDGER, block_of, entries
from mgp.evaluation.statistics import over_trainings, wilson

COLUMNS = (
    "method",
    "task",
    "observation",
    "cloud",  # camera, oracle or paper: what the point clouds were made of
    "seeds",  # training seeds
    "episodes",  # of all training seeds together
    "success",  # last checkpoint, mean over the training seeds
    "by_seed",  # of each, in their order
    "seed_low",  # t interval, 95 %, the training seed as the unit; empty of one seed or where all agree
    "seed_high",
    "low",  # Wilson interval, 95 %, the episodes of all training seeds as the unit
    "high",
    "top5_in_training",  # the paper's figure, mean over the training seeds
    "missing",
    "preset",
    "temperature",
    "refine_steps",
    "variant",  # the other options that differ from the preset
    "demonstrations",
    "block",  # of test seeds, see blocks.csv; empty of other seeds
    "evaluation_seeds",
    "outcomes",  # of each training seed a word of 0 and 1, an episode a digit: what a paired test needs
    "training_minutes",  # mean over the training seeds
    "ms_per_step",  # policy only, one thread; only if the machine was seen to be idle
    "ms_per_sequence",
    "trained_at",
    "commit",  # evaluated at
    "machine",
    "note",
)
OWN_COLUMN = ("temperature", "refine_steps")  # options swept often enough to be compared by column
# what tells one row from another; of seeds that are in no block, their span stands for it
KEY = (
    *("method", "task", "observation", "cloud", "seeds", "missing", "preset", *OWN_COLUMN, "variant"),
    *("demonstrations", "block"),
)
SAME = ("method", "task", "observation", "preset", "variant", "missing", "options", "demonstrations")
# what rows written before a column was there are known to have been
BEFORE = {"missing": "0.0", "cloud": "oracle"}


def make_row(
    evaluations: Sequence[Evaluation], trained_at: Sequence[str] = (), top5: Sequence[float | None] = ()
) -> Line:
    """Pool evaluations of one method on one task that differ in the training seed only.

    `trained_at` and `top5` are the commits and `mean_of_top` of the trainings, as far as known.
    """
    if not evaluations:
        raise ConfigError("no evaluations were given to make a row of")
    evaluations = sorted(evaluations, key=lambda one: -1 if one.training_seed is None else one.training_seed)
    _check_poolable(evaluations)
    first, rates = evaluations[0], [one.success for one in evaluations]
    n, successes = sum(len(one.episodes) for one in evaluations), sum(one.successes for one in evaluations)
    low, high = wilson(successes, n)
    seed_low, seed_high = over_trainings(rates) or (None, None)
    seeds = list(first.outcomes)
    values = {
        **{name: getattr(first, name) for name in ("method", "task", "observation", "cloud", "preset")},
        **{name: first.variant.get(name) for name in OWN_COLUMN},
        "seeds": " ".join(str(one.training_seed) for one in evaluations if one.training_seed is not None),
        "episodes": n,
        "success": _mean(rates, 4) if n else None,
        "by_seed": " ".join(f"{rate:.2f}" for rate in rates) if n else None,
        "seed_low": None if seed_low is None else round(seed_low, 4),
        "seed_high": None if seed_high is None else round(seed_high, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "top5_in_training": _mean(top5, 4) if None not in top5 else None,
        "missing": float(first.missing),
        "variant": " ".join(f"{k}={v}" for k, v in sorted(first.variant.items()) if k not in OWN_COLUMN),
        "demonstrations": first.demonstrations,
        "block": block_of(seeds),
        "evaluation_seeds": f"{min(seeds)}-{max(seeds)}" if seeds else "",
        "outcomes": " ".join("".join(str(int(one.outcomes[seed])) for seed in seeds) for one in evaluations),
        "training_minutes": _mean([one.training_minutes for one in evaluations], 1),
        "ms_per_step": _mean([_idle_milliseconds(one, "step") for one in evaluations], 3),
        "ms_per_sequence": _mean([_idle_milliseconds(one, "sequence") for one in evaluations], 1),
        "trained_at": " ".join(sorted(set(trained_at) - {""})),
        "commit": " ".join(sorted({one.commit for one in evaluations})),
        "machine": first.machine,
        "note": next((one.overlap for one in evaluations if one.overlap), ""),
    }
    return {column: text(values[column]) for column in COLUMNS}


def add_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows into a CSV, each in the place of its old self if it has one. The file is rewritten whole."""
    new = [{name: text(value) for name, value in row.items() if text(value) != ""} for row in rows]
    if (path.parent / LEDGER).exists():
        for line in new:
            check_published(line, path)
    with changed(path, COLUMNS) as lines:
        for line in new:
            places = [place for place, old in enumerate(lines) if key(old) == key(line)]
            for place in reversed(places[1:]):
                del lines[place]
            if places:
                lines[places[0]] = line
            else:
                lines.append(line)


def key(line: Mapping[str, str]) -> tuple[str, ...]:
    known = BEFORE | dict(line)
    return (*(known.get(name, "") for name in KEY), "" if "block" in known else known.get("evaluation_seeds", ""))


def check_published(line: Mapping[str, str], path: Path) -> None:
    """Refuse code that nobody can check out again, and episodes that may have been looked at before."""
    name = f"{line.get('method')} on {line.get('task')}"
    for column, deed in (("trained_at", "trained"), ("commit", "evaluated")):
        if not reproducible(line.get(column, "unknown")):
            raise ConfigError(
                f"{name} was {deed} at commit {line.get(column, 'unknown')}, which cannot be checked out again: {path} "
                "takes rows of clean commits only. Commit, then train and evaluate from a clean clone"
            )
    claimed = {entry["block"] for entry in entries(path.parent / LEDGER) if entry.get("method") == line.get("method")}
    if line.get("block", "") not in claimed:
        raise ConfigError(
            f"{name} was evaluated on seeds {line.get('evaluation_seeds', 'unknown')}, which are no test block claimed "
            f"for {line.get('method')} in {path.parent / LEDGER}: run `python -m benchmarks.results`, which claims "
            "one, or write the row to a file elsewhere"
        )


def _check_poolable(evaluations: Sequence[Evaluation]) -> None:
    first = evaluations[0]
    for before, other in pairwise(evaluations):
        for name in SAME:
            if getattr(other, name) != getattr(first, name):
                raise ConfigError(
                    f"evaluations of {name} {getattr(first, name)!r} and {getattr(other, name)!r} cannot share a row: "
                    "pool training seeds only"
                )
        if other.training_seed == before.training_seed:
            raise ConfigError(
                f"training seed {other.training_seed} of {first.method} on {first.task} was given twice: a training "
                "counts once, leave one evaluation out"
            )
        if other.outcomes.keys() != first.outcomes.keys():
            raise ConfigError(
                f"training seeds {first.training_seed} and {other.training_seed} of {first.method} on {first.task} "
                "were evaluated on different episodes: evaluate both with the same --seed and --episodes"
            )


def _idle_milliseconds(evaluation: Evaluation, name: str) -> float | None:
    for latency in evaluation.latency:
        if latency["threads"] == 1 and latency.get("idle"):
            return latency["policy"][name]
    return None


def _mean(values: Sequence[float | None], digits: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), digits) if known else None
