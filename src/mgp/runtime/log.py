"""What happened under a controller, step by step, plan by plan: for `mgp report`, and for whoever asks why.

Schema (`format` 1): every field of `ControlLog`; steps and plans are lists of equal length by name.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgp.errors import DataError
from mgp.evaluation.record import trace_in, trace_out
from mgp.files import write_atomic
from mgp.policies.base import PlanTrace

FORMAT = 1
FOLDER = "control"  # of a run's folder; `mgp report` looks there
STEPS = 100_000  # kept at most, 80 minutes at 20 Hz: an endless run must not fill the memory
TRACED = 10_000  # plans whose tokens are traced at most, for the same reason; MGP-Long's plan is over long before


class Event(NamedTuple):
    step: int
    kind: str
    text: str


class StepNote(NamedTuple):
    time: float  # seconds since the controller began
    age: float | None  # seconds, of the newest good observation; None before the first
    plan: int  # number of the plan in hand, -1 before the first
    place: int  # of the action in that plan
    held: bool  # no action of a plan was run
    confidence: float | None  # of the plan in hand
    wanted: list[float]  # (A,) the plan's action, or what holds
    given: list[float]  # (A,) what the robot was told, inside the limits


class PlanNote(NamedTuple):
    asked: int  # control step
    came: int  # control step at which it joined
    seconds: float  # it took
    ahead: int  # actions that were to run until then, frozen if the policy can
    passed: int  # actions that did
    late: bool  # more than that
    confidence: float | None
    jump: list[float]  # (A,) its first action minus what the plan before had for that step; empty of the first plan


@dataclass
class ControlLog:
    method: str
    rate: float  # control steps a second
    mode: str  # frozen, naive or wait
    hold: list[float | None] = field(default_factory=list)  # (A,) the command that holds; None: the last one goes on
    seed: int = 0
    steps: deque[StepNote] = field(default_factory=lambda: deque(maxlen=STEPS))
    plans: deque[PlanNote] = field(default_factory=lambda: deque(maxlen=STEPS))
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=STEPS))  # the first of a row of the same kind
    counts: Counter[str] = field(default_factory=Counter)  # of events, each step of such a row
    total: int = 0  # control steps; more than `steps` if those did not fit
    success: bool | None = None  # where somebody knows
    trace: PlanTrace | None = None

    def array(self, name: str) -> np.ndarray:
        """(T,) or (T, A) of a field of the steps; NaN for None."""
        values = [getattr(one, name) for one in self.steps]
        return np.array([np.nan if value is None else value for value in values], bool if name == "held" else float)

    def summary(self) -> dict[str, float]:
        """Figures for a table."""
        ages, late = self.array("age"), [one.late for one in self.plans]
        return {
            "steps": self.total,
            "plans": len(self.plans),
            "late": sum(late),
            "held": int(self.array("held").sum()),
            "age_p50": _quantile(ages, 0.5),
            "age_p99": _quantile(ages, 0.99),
        }

    def save(self, path: Path | str) -> Path:
        path = Path(path)
        path = path if path.suffix == ".json" else path.with_name(path.name + ".json")
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        content = {
            "format": FORMAT,
            **plain,
            "steps": _columns(StepNote, self.steps),
            "plans": _columns(PlanNote, self.plans),
            "events": [list(one) for one in self.events],
            "counts": dict(self.counts),
            "trace": None if self.trace is None else trace_out(self.trace),
        }
        write_atomic(path, json.dumps(content, allow_nan=False).encode())
        return path

    @classmethod
    def load(cls, path: Path | str) -> ControlLog:
        try:
            content = json.loads(Path(path).read_text())
            if content.pop("format") != FORMAT:
                raise ValueError(f"this version reads format {FORMAT}")
            trace = content["trace"]
            content |= {
                "steps": _rows(StepNote, content["steps"]),
                "plans": _rows(PlanNote, content["plans"]),
                "events": deque((Event(*one) for one in content["events"]), maxlen=STEPS),
                "counts": Counter({str(key): int(value) for key, value in content["counts"].items()}),
                "trace": None if trace is None else trace_in(trace),
            }
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is no log of a controller ({error!r}): run the controller again") from error


def _quantile(values: np.ndarray, share: float) -> float:
    values = values[np.isfinite(values)]
    return float(np.quantile(values, share)) if len(values) else math.nan


def _columns(kind: type, rows: Iterable[tuple]) -> dict[str, list]:
    """By name, which a reader understands and which takes half the space; numbers that are none are null."""
    table = list(rows)
    return {name: [_plain(row[place]) for row in table] for place, name in enumerate(kind._fields)}  # type: ignore[attr-defined]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _rows(kind: type, columns: dict[str, list]) -> deque:
    return deque((kind(*row) for row in zip(*(columns[name] for name in kind._fields), strict=True)), maxlen=STEPS)  # type: ignore[attr-defined]
