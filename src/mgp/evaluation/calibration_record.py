"""The record of a calibration study: its figures, its JSON, and a CSV with a line for each token."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mgp.errors import DataError
from mgp.evaluation import csv_table
from mgp.evaluation.confidence_parts import Flips, Kind, Masking
from mgp.evaluation.record import ORACLE, UNCHECKED
from mgp.evaluation.statistics import auroc
from mgp.evaluation.truth import wrong
from mgp.files import write_atomic

FORMAT = 1
COLUMNS = ("seed", "step", "token", "before", "now", "wrong")  # of the CSV; the scores follow


@dataclass(frozen=True)
class TokenScore:
    """A pending token of a plan as it stood at a look after the scene had changed."""

    seed: int
    step: int  # control steps taken
    token: int  # its place in the plan
    before: float  # metres from the expert's way in the scene as it was
    now: float  # and in the scene as it is
    scores: dict[str, float]  # the lowest are rewritten

    @property
    def wrong(self) -> bool | None:
        """None: it was wrong before the change already."""
        return wrong(self.before, self.now)


@dataclass(frozen=True)
class FlipCount:
    """A replanning at which so many tokens would be masked by a score, and come back as others."""

    seed: int
    replan: int
    score: str
    masking: str  # low: the tokens with the lowest scores; high: the others
    masked: int
    flipped: int
    flipped_action: int


class Figure(NamedTuple):
    mean: float | None  # of the AUROCs of the plans that have tokens of both kinds
    error: float | None  # its standard error, None of fewer than two
    plans: int
    pooled: float | None  # of the tokens of all plans together


@dataclass(frozen=True)
class Calibration:
    env: str
    twin: str
    trained_on: str
    seeds: tuple[int, ...]
    unsolved: tuple[int, ...]  # seeds in which the expert could not go on from where the robot was
    successes: int  # of the policy that drove
    score: str  # by which it masked
    mask_ratio: float
    tokens: tuple[TokenScore, ...]
    flips: tuple[FlipCount, ...]
    commit: str = "unknown"
    machine: str = ""
    cloud: str = ORACLE
    seeds_checked: bool = True

    @property
    def overlap(self) -> str:
        return "" if self.seeds_checked else UNCHECKED

    @property
    def scores(self) -> list[str]:
        return list(dict.fromkeys(one.score for one in self.flips))

    def counts(self) -> tuple[int, int, int]:
        """Tokens that are now wrong, still right, and left out."""
        kinds = [one.wrong for one in self.tokens]
        return kinds.count(True), kinds.count(False), kinds.count(None)

    def figure(self, score: str) -> Figure:
        plans: dict[tuple[int, int], list[TokenScore]] = defaultdict(list)
        for one in self.tokens:
            if one.wrong is not None:
                plans[one.seed, one.step].append(one)
        each = [value for plan in plans.values() if (value := _auroc(plan, score)) is not None]
        error = float(np.std(each, ddof=1) / len(each) ** 0.5) if len(each) > 1 else None
        pooled = _auroc([one for plan in plans.values() for one in plan], score)
        return Figure(float(np.mean(each)) if each else None, error, len(each), pooled)

    def flip_rate(self, score: str, masking: Masking, kind: Kind = "code") -> Flips:
        rows = [one for one in self.flips if (one.score, one.masking) == (score, masking)]
        flipped = sum(one.flipped if kind == "code" else one.flipped_action for one in rows)
        return Flips(flipped, sum(one.masked for one in rows))

    def save(self, path: Path) -> None:
        """PATH.json, and PATH.csv with the tokens."""
        lines = [
            {
                **{name: csv_table.text(getattr(one, name)) for name in COLUMNS},
                **{name: f"{value:.6g}" for name, value in one.scores.items()},
            }
            for one in self.tokens
        ]
        csv_table.write(path.with_name(path.name + ".csv"), [*COLUMNS, *self.scores], lines)
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(content, indent=1, allow_nan=False)
        write_atomic(path.with_name(path.name + ".json"), text.encode())

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """From the .json that `save` wrote."""
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            if content.pop("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            content["tokens"] = tuple(TokenScore(**one) for one in content["tokens"])
            content["flips"] = tuple(FlipCount(**one) for one in content["flips"])
            content |= {name: tuple(content[name]) for name in ("seeds", "unsolved")}
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{path} is no calibration study ({error!r}): run `mgp analyze calibration` again"
            ) from error


def _auroc(tokens: list[TokenScore], score: str) -> float | None:
    return auroc([one.scores[score] for one in tokens], [bool(one.wrong) for one in tokens])
