"""The rows of the page's tables: success beside the paper's, and latency. The templates lay them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mgp.evaluation.record import ORACLE, Evaluation
from mgp.report.paper import paper_latency, paper_level, paper_success
from mgp.report.words import NONE, options, seen_by, task, with_sight


class Success(NamedTuple):
    method: str
    options: str
    task: str
    origin: str
    rate: float
    low: float
    high: float
    paper: float | None
    reference: float | None  # DP3's, in the paper
    counts: str
    seeds: str
    caution: str
    minutes: str
    training: str


class Timed(NamedTuple):
    method: str
    threads: str
    options: str
    caution: str
    policy: Mapping[str, float]
    looking: Mapping[str, float]
    paper: str


def success(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """What success.html asks for."""
    return {
        "title": with_sight("Success", evaluations),
        "rows": list(map(_success, evaluations)),
        "oracle": any(one.cloud == ORACLE for one in evaluations),
    }


def _success(one: Evaluation) -> Success:
    seeds = list(one.outcomes)
    level = paper_level(one.task) if one.task.startswith("metaworld/") else ""
    trained = [
        f"seed {one.training_seed}" if one.training_seed is not None else "",
        f"{one.demonstrations} demonstrations" if one.demonstrations is not None else "",
    ]
    return Success(
        method=one.method,
        options=options(one),
        task=task(one),
        origin=_joined([level, f"from {seen_by(one)}"]),
        rate=one.success,
        low=one.interval[0],
        high=one.interval[1],
        paper=_paper(one, one.method),
        reference=_paper(one, "DP3") if one.method != "DP3" else None,
        counts=f"{one.successes} of {len(one.episodes)}",
        seeds=f"seeds {min(seeds)} to {max(seeds)}" if seeds else "",
        caution=one.overlap,
        minutes=f"{one.training_minutes:.1f} min" if one.training_minutes is not None else "",
        training=_joined(trained),
    )


def _paper(one: Evaluation, method: str) -> float | None:
    """The paper's figure under the same conditions; it has none for bursts, a lost camera or another task's policy."""
    if {"missing_burst", "missing_from", "trained_on"} & set(one.variant):
        return None
    return paper_success(method, one.task, one.missing)


def latency(evaluations: Sequence[Evaluation]) -> list[Timed]:
    return [_timed(one, timing) for one in evaluations for timing in one.latency]


def _timed(one: Evaluation, timing: Mapping[str, Any]) -> Timed:
    count = timing["threads"]
    return Timed(
        method=one.method,
        threads=f"{count} thread{'s' * (count != 1)}",
        options=options(one),
        caution="" if timing.get("idle") else "the machine was not seen to be idle",
        policy=timing["policy"],
        looking=timing["with_observation"],
        paper=" / ".join(NONE if value is None else f"{value:g}" for value in paper_latency(one.method)),
    )


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)
