"""Reading run folders. A part that is missing or broken is noted, for the page to say so, and the rest is shown."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgp.errors import DataError, MGPError
from mgp.evaluation.confidence_record import ConfidenceStudy
from mgp.evaluation.open_loop import FIGURES, OpenLoop
from mgp.evaluation.record import Evaluation, cloud_kind
from mgp.report.words import seen
from mgp.runtime.log import FOLDER as CONTROL
from mgp.runtime.log import ControlLog

TOKENIZER = "tokenizer.json"  # of `mgp eval-tokenizer`, which stands among the evaluations but is none
NO_FIGURES = ("stage", "step", "seconds")  # columns of metrics.csv that are no figures to draw
PARTS = ("config.json", "summary.json", "metrics.csv", "evals.csv", "eval", "analysis", CONTROL)


@dataclass
class RunFolder:
    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    # (stage, figure): (step, value); a policy logs what stages and figures it likes
    curves: dict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=dict)
    checks: list[tuple[float, float, int]] = field(default_factory=list)  # (step, success, episodes) while training
    evaluations: list[Evaluation] = field(default_factory=list)
    open_loop: OpenLoop | None = None  # of `mgp eval` on recordings that no simulator knows
    studies: list[ConfidenceStudy] = field(default_factory=list)  # of `mgp analyze confidence`
    controlled: dict[str, ControlLog] = field(default_factory=dict)  # by name, of `mgp.runtime.Controller`
    missing: list[str] = field(default_factory=list)  # sentences for the reader

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def seen(self) -> str:
        """What the policy saw in training, in words; "" if the settings do not say."""
        observation = self.setting("task.observation")
        if not isinstance(observation, str):
            return ""
        options = self.summary.get("options") or self.setting("task.options")  # as recorded, or as asked for
        return seen(observation, cloud_kind(observation, options if isinstance(options, dict) else {}))

    def setting(self, path: str) -> Any:
        """`setting("task.name")`, nested or flat; None if it is not there."""
        value: Any = self.config
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                return self.config.get(path)
            value = value[key]
        return value


def read_run(folder: Path) -> RunFolder:
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder: give the run folders that `mgp train` wrote")
    if not any((folder / part).exists() for part in PARTS):
        raise DataError(f"{folder} is no run: it has none of {', '.join(PARTS)}. Give a folder that `mgp train` wrote")
    run = RunFolder(folder)
    run.config = _json(run, "config.json", "the settings of the run")
    run.summary = _json(run, "summary.json", "training time")
    run.curves = _curves(run)
    unasked = run.setting("training.eval_every") == 0 and not (folder / "evals.csv").exists()
    for line in () if unasked else _table(run, "evals.csv", "success during training", ("step", "success", "episodes")):
        run.checks.append((float(line["step"]), float(line["success"]), int(float(line["episodes"]))))
    if (folder / "eval" / FIGURES).exists():
        try:
            run.open_loop = OpenLoop.load(folder / "eval" / FIGURES)
        except MGPError as error:
            run.missing.append(str(error))
    for path in sorted(path for path in (folder / "eval").glob("*.json") if path.name not in (TOKENIZER, FIGURES)):
        try:
            run.evaluations.append(Evaluation.load(path))
        except MGPError as error:
            run.missing.append(str(error))
    for path in sorted((folder / "analysis").glob("confidence-*.json")):
        try:
            run.studies.append(ConfidenceStudy.load(path))
        except MGPError as error:
            run.missing.append(str(error))
    for path in sorted((folder / CONTROL).glob("*.json")):
        try:
            run.controlled[path.stem] = ControlLog.load(path)
        except MGPError as error:
            run.missing.append(str(error))
    if not run.evaluations and run.open_loop is None:
        run.missing.append(f"{folder / 'eval'} holds no evaluation: run `mgp eval {folder}`")
    return run


def _json(run: RunFolder, name: str, what: str) -> dict[str, Any]:
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


def _curves(run: RunFolder) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Every figure of metrics.csv, whatever it is called; of each stage the loss first."""
    lines = _lines(run, "metrics.csv", "training curves", ("step",))
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    skipped = 0
    for line in lines:
        figures = {name: text for name, text in line.items() if name and name not in NO_FIGURES and text}
        good = {name: float(text) for name, text in figures.items() if _finite(text)}
        if not _finite(line["step"]):
            skipped += 1
            continue
        skipped += not good or len(good) < len(figures)
        for name, value in good.items():
            curves.setdefault((line.get("stage") or "training", name), []).append((float(line["step"]), value))
    _count_skipped(run, "metrics.csv", skipped, len(lines))
    stages = list(dict.fromkeys(stage for stage, _ in curves))
    order = sorted(curves, key=lambda key: (stages.index(key[0]), key[1] != "loss"))
    return {key: curves[key] for key in order}


def _table(run: RunFolder, name: str, what: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    """The lines whose cells are all there and finite; the rest are counted."""
    lines = _lines(run, name, what, columns)
    good = [line for line in lines if all(_finite(line[column]) for column in columns)]
    _count_skipped(run, name, len(lines) - len(good), len(lines))
    return good


def _lines(run: RunFolder, name: str, what: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    path = run.folder / name
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            lines, names = list(reader), reader.fieldnames or ()
    except FileNotFoundError:
        run.missing.append(f"{path} is missing: {what} cannot be shown")
        return []
    except (OSError, ValueError, csv.Error) as error:
        run.missing.append(f"{path} cannot be read ({error}): {what} cannot be shown")
        return []
    if absent := [column for column in columns if column not in names]:
        run.missing.append(f"{path} has no column {', '.join(absent)}: {what} cannot be shown")
        return []
    if not lines:
        run.missing.append(f"{path} holds no lines: {what} cannot be shown")
    return lines


def _count_skipped(run: RunFolder, name: str, skipped: int, lines: int) -> None:
    if skipped:
        run.missing.append(f"{run.folder / name}: {skipped} of {lines} lines hold no usable figures")


def _finite(text: Any) -> bool:
    try:
        return math.isfinite(float(text or "nan"))
    except (TypeError, ValueError):
        return False
