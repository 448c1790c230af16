"""Rows of results/*.csv: one line for a method on a task, pooled over its training seeds."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mgp.errors import ConfigError, DataError
from mgp.evaluation.results import Evaluation
from mgp.evaluation.statistics import wilson
from mgp.files import lock, write_atomic

COLUMNS = (
    "method",
    "task",
    "observation",
    "seeds",  # training seeds
    "episodes",
    "success",
    "low",  # Wilson interval, 95 %
    "high",
    "training_minutes",  # mean over the training seeds
    "ms_per_step",  # policy only, one thread
    "ms_per_sequence",
    "commit",
    "preset",
    "temperature",
    "refine_steps",
    "missing",
    "variant",  # the other options that differ from the preset
    "demonstrations",
    "machine",
    "evaluation_seeds",
)
OWN_COLUMN = ("temperature", "refine_steps")  # options swept often enough to be compared by column


def row(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Pool evaluations of one method on one task that differ in the training seed only."""
    if not evaluations:
        raise ConfigError("no evaluations were given to make a row of")
    first = evaluations[0]
    for other in evaluations[1:]:
        for name in ("method", "task", "observation", "preset", "variant", "missing"):
            if getattr(other, name) != getattr(first, name):
                raise ConfigError(
                    f"evaluations of {name} {getattr(first, name)!r} and {getattr(other, name)!r} cannot share a row: "
                    "pool training seeds only"
                )
    n = sum(len(one.episodes) for one in evaluations)
    successes = sum(one.successes for one in evaluations)
    low, high = wilson(successes, n)
    seeds = sorted({one.training_seed for one in evaluations if one.training_seed is not None})
    values = {
        **{name: getattr(first, name) for name in ("method", "task", "observation", "preset", "missing")},
        **{name: first.variant.get(name) for name in OWN_COLUMN},
        "seeds": " ".join(map(str, seeds)),
        "episodes": n,
        "success": round(successes / n, 4) if n else None,
        "low": round(low, 4),
        "high": round(high, 4),
        "training_minutes": _mean([one.training_minutes for one in evaluations], 1),
        "ms_per_step": _mean([_single_thread(one, "step") for one in evaluations], 3),
        "ms_per_sequence": _mean([_single_thread(one, "sequence") for one in evaluations], 1),
        "commit": " ".join(sorted({one.commit for one in evaluations})),
        "variant": " ".join(f"{k}={v}" for k, v in sorted(first.variant.items()) if k not in OWN_COLUMN),
        "demonstrations": first.demonstrations,
        "machine": first.machine,
        "evaluation_seeds": _span([episode.seed for one in evaluations for episode in one.episodes]),
    }
    return {column: _text(values[column]) for column in COLUMNS}


def append(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add rows to a CSV. The file is rewritten whole; new columns go last; a line already there is not repeated."""
    with lock(path):  # two evaluations that end together must not lose each other's rows
        columns, lines = read(path) if path.exists() else (list(COLUMNS), [])
        for new in rows:
            columns += [name for name in new if name not in columns]
            line = {name: _text(value) for name, value in new.items() if _text(value) != ""}
            if line not in lines:
                lines.append(line)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        write_atomic(path, text.getvalue().encode())


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows; empty cells are left out of a row."""
    with path.open(newline="") as file:
        reader = csv.reader(file)
        columns = next(reader, None)
        if not columns:
            raise DataError(f"{path} has no header line: delete it or restore it from git")
        lines = [line for line in reader if line]
    for number, line in enumerate(lines, 2):
        if len(line) != len(columns):
            raise DataError(f"{path} line {number} has {len(line)} cells, the header {len(columns)}: mend the file")
    return columns, [{k: v for k, v in zip(columns, line, strict=True) if v != ""} for line in lines]


def _single_thread(evaluation: Evaluation, name: str) -> float | None:
    for latency in evaluation.latency:
        if latency["threads"] == 1:
            return latency["policy"][name]
    return None


def _mean(values: Sequence[float | None], digits: int) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), digits) if known else None


def _span(seeds: Sequence[int]) -> str:
    return f"{min(seeds)}-{max(seeds)}" if seeds else ""


def _text(value: Any) -> str:
    return "" if value is None else str(value)
