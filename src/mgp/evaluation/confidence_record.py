"""The record of a confidence study: its figures, its JSON, and a CSV with a line for each replanning step."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mgp.errors import DataError
from mgp.evaluation.confidence_parts import Curve, Flips, Kind, Masking, Measure, Outcome, Replan
from mgp.evaluation.record import ORACLE, UNCHECKED, trace_in, trace_out
from mgp.files import write_atomic
from mgp.policies.base import PlanTrace

FORMAT = 2


@dataclass(frozen=True)
class ConfidenceStudy:
    env: str
    trained_on: str
    twin: str | None  # the static environment compared with
    moves_from: int | None  # control steps taken when the scene begins to move; None: it does not
    execution_horizon: int  # control steps from one replanning to the next
    mask_ratio: float
    temperature: float
    action_change: float  # a flip by action is a change by more than this, of actions normalised to [-1, 1]
    outcomes: tuple[Outcome, ...]
    replans: tuple[Replan, ...]
    traces: dict[int, PlanTrace]  # of the first seeds, driven by ATR
    commit: str = "unknown"
    machine: str = ""
    cloud: str = ORACLE  # what its point clouds were made of, "" without any; see `record.cloud_kind`
    seeds_checked: bool = True  # as of `Evaluation`

    @property
    def overlap(self) -> str:
        return "" if self.seeds_checked else UNCHECKED

    @property
    def seeds(self) -> list[int]:
        return sorted({one.seed for one in self.outcomes})

    @property
    def start(self) -> float | None:
        """Where on the axis of replanning steps (1 is the first plan) the scene begins to move."""
        return None if self.moves_from is None else 1 + self.moves_from / self.execution_horizon

    def success(self, env: str, driver: str = "atr") -> tuple[int, int]:
        """Successes, episodes."""
        outcomes = [one.success for one in self.outcomes if (one.env, one.driver) == (env, driver)]
        return sum(outcomes), len(outcomes)

    def flips(self, masking: Masking, driver: str = "atr", kind: Kind = "code") -> Flips:
        """Flips of a masking, counted on the plans and observations that `driver` came by."""
        rows = self._rows(self.env, driver)
        names = f"{masking}_flipped{'_action' if kind == 'action' else ''}", f"{masking}_masked"
        return Flips(*(sum(getattr(row, name) for row in rows) for name in names))

    def curve(self, env: str, measure: Measure) -> Curve:
        values: dict[int, list[float]] = {}
        for row in self._rows(env):
            if (value := getattr(row, measure)) is not None:
                values.setdefault(row.replan, []).append(value)
        steps = sorted(values)
        return Curve(
            steps,
            [float(np.mean(values[step])) for step in steps],
            *([float(np.percentile(values[step], share)) for step in steps] for share in (25, 75)),
        )

    def before_after(self, env: str, measure: Measure, driver: str = "atr") -> tuple[float | None, float | None]:
        """Mean over replanning steps whose observation does not show the scene in motion yet, and over those that do.

        Only steps that the episodes of a seed reach in both scenes count, so that the two are of the same moments.
        """
        start = float("inf") if self.moves_from is None else self.moves_from
        shared = self._shared(driver)
        rows = [row for row in self._rows(env, driver) if (row.seed, row.step) in shared]
        # after `moves_from` steps it stands where it stood; the next step moves it
        parts: tuple[Callable[[Replan], bool], ...] = (lambda row: row.step <= start, lambda row: row.step > start)
        before, after = (_mean(getattr(row, measure) for row in rows if part(row)) for part in parts)
        return before, after

    def drop(self, measure: Measure, driver: str = "atr", solved: bool = False) -> tuple[float, float, int] | None:
        """Moving minus static once the scene moves: mean over the episodes, its standard error, their number.

        `solved`: only of the seeds that the driver solves in the scene that stands still; where it has lost the object,
        what it sees of the scene no longer matters.
        """
        by_seed: dict[int, list[float]] = {}
        for seed, step, difference in self._differences(measure, driver, solved):
            if step > (self.moves_from or 0):
                by_seed.setdefault(seed, []).append(difference)
        means = [float(np.mean(values)) for values in by_seed.values()]
        return (*_mean_and_error(means), len(means)) if means else None

    def difference(self, measure: Measure, driver: str = "atr", solved: bool = False) -> Curve:
        """Moving minus static at each replanning step that two seeds or more reach in both scenes; see `drop`."""
        by_step: dict[int, list[float]] = {}
        for _, step, difference in self._differences(measure, driver, solved):
            by_step.setdefault(1 + step // self.execution_horizon, []).append(difference)
        points = [(step, *_mean_and_error(values)) for step, values in sorted(by_step.items()) if len(values) > 1]
        steps, means, errors = (list(column) for column in zip(*points, strict=True)) if points else ([], [], [])
        low, high = ([mean + sign * error for mean, error in zip(means, errors, strict=True)] for sign in (-1, 1))
        return Curve(steps, means, low, high)

    def _differences(self, measure: Measure, driver: str, solved: bool) -> Iterator[tuple[int, int, float]]:
        """(seed, control step, moving minus static) wherever a seed has the value in both scenes."""
        if self.twin is None or self.moves_from is None:
            return
        chosen = [one for one in self.outcomes if (one.env, one.driver) == (self.twin, driver)]
        seeds = {one.seed for one in chosen if one.success or not solved}
        static = {(row.seed, row.step): getattr(row, measure) for row in self._rows(self.twin, driver)}
        for row in self._rows(self.env, driver):
            other, value = static.get((row.seed, row.step)), getattr(row, measure)
            if row.seed in seeds and value is not None and other is not None:
                yield row.seed, row.step, value - other

    def _rows(self, env: str, driver: str = "atr") -> list[Replan]:
        return [row for row in self.replans if (row.env, row.driver) == (env, driver)]

    def _shared(self, driver: str) -> set[tuple[int, int]]:
        scenes = [{(row.seed, row.step) for row in self._rows(env, driver)} for env in (self.env, self.twin) if env]
        return set.intersection(*scenes)

    def save(self, path: Path) -> None:
        """PATH.json, and PATH.csv with the replanning steps alone."""
        content = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        content |= {
            "outcomes": [dataclasses.asdict(one) for one in self.outcomes],
            "replans": [dataclasses.asdict(one) for one in self.replans],
            "traces": {str(seed): trace_out(trace) for seed, trace in self.traces.items()},
        }
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, [f.name for f in dataclasses.fields(Replan)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(one) for one in self.replans)
        write_atomic(path.with_name(path.name + ".csv"), text.getvalue().encode())
        encoded = json.dumps({"format": FORMAT, **content}, indent=1, allow_nan=False)
        write_atomic(path.with_name(path.name + ".json"), encoded.encode())

    @classmethod
    def load(cls, path: Path) -> ConfidenceStudy:
        """From the .json that `save` wrote."""
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            if content.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            content["outcomes"] = tuple(Outcome(**one) for one in content["outcomes"])
            content["replans"] = tuple(Replan(**one) for one in content["replans"])
            content["traces"] = {int(seed): trace_in(trace) for seed, trace in content["traces"].items()}
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is no confidence study ({error!r}): run `mgp analyze confidence` again") from error


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error, NaN of a single value."""
    error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
    return float(np.mean(values)), error
