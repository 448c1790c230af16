"""Reading run folders. A part that is missing or broken is noted, for the page to say so, and the rest is shown."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgp.errors import DataError, MGPError
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.record import Evaluation

TOKENIZER = "tokenizer.json"  # of `mgp eval-tokenizer`, which stands among the evaluations but is none
PARTS = ("config.json", "summary.json", "metrics.csv", "evals.csv", "eval", "analysis")


@dataclass
class Run:
    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    losses: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # stage: (step, loss)
    checks: list[tuple[float, float, int]] = field(default_factory=list)  # (step, success, episodes) while training
    evaluations: list[Evaluation] = field(default_factory=list)
    studies: list[ConfidenceStudy] = field(default_factory=list)  # of `mgp analyze confidence`
    missing: list[str] = field(default_factory=list)  # sentences for the reader

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    def setting(self, path: str) -> Any:
        """`setting("env.name")`, nested or flat; None if it is not there."""
        value: Any = self.config
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                return self.config.get(path)
            value = value[key]
        return value


def read_run(folder: Path) -> Run:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give the run folders that `mgp train` wrote")
    if not any((folder / part).exists() for part in PARTS):
        raise DataError(f"{folder} is no run: it has none of {', '.join(PARTS)}. Give a folder that `mgp train` wrote")
    run = Run(folder)
    run.config = _json(run, "config.json", "the settings of the run")
    run.summary = _json(run, "summary.json", "training time")
    for line in _table(run, "metrics.csv", "training curves", ("stage", "step", "loss")):
        run.losses.setdefault(line["stage"], []).append((float(line["step"]), float(line["loss"])))
    unasked = run.setting("training.eval_every") == 0 and not (folder / "evals.csv").exists()
    for line in () if unasked else _table(run, "evals.csv", "success during training", ("step", "success", "episodes")):
        run.checks.append((float(line["step"]), float(line["success"]), int(float(line["episodes"]))))
    for path in sorted(set((folder / "eval").glob("*.json")) - {folder / "eval" / TOKENIZER}):
        try:
            run.evaluations.append(Evaluation.load(path))
        except MGPError as error:
            run.missing.append(str(error))
    for path in sorted((folder / "analysis").glob("confidence-*.json")):
        try:
            run.studies.append(ConfidenceStudy.load(path))
        except MGPError as error:
            run.missing.append(str(error))
    if not run.evaluations:
        run.missing.append(f"{folder / 'eval'} holds no evaluation: run `mgp eval {folder}`")
    return run


def _json(run: Run, name: str, what: str) -> dict[str, Any]:
    path = run.folder / name
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        run.missing.append(f"{path} is missing: {what} cannot be shown")
        return {}
    except (OSError, ValueError) as error:
        run.missing.append(f"{path} cannot be read ({error}): {what} cannot be shown")
        return {}
    if not isinstance(content, dict):
        run.missing.append(f"{path} holds no settings by name: {what} cannot be shown")
        return {}
    return content


def _table(run: Run, name: str, what: str, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """The lines whose cells are there and finite; the rest are counted."""
    path = run.folder / name
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            absent = [column for column in columns if column not in (reader.fieldnames or ())]
            if absent:
                run.missing.append(f"{path} has no column {', '.join(absent)}: {what} cannot be shown")
                return
            lines = list(reader)
    except FileNotFoundError:
        run.missing.append(f"{path} is missing: {what} cannot be shown")
        return
    except (OSError, ValueError, csv.Error) as error:
        run.missing.append(f"{path} cannot be read ({error}): {what} cannot be shown")
        return
    numbers = [column for column in columns if column != "stage"]
    skipped = 0
    for line in lines:
        if all(_finite(line[column]) for column in numbers) and all(line[column] for column in columns):
            yield line
        else:
            skipped += 1
    if skipped or not lines:
        run.missing.append(f"{path}: {skipped} of {len(lines)} lines hold no usable figures")


def _finite(text: str | None) -> bool:
    try:
        return math.isfinite(float(text or "nan"))
    except ValueError:
        return False
