"""Evaluations set side by side: trainings of one method, and methods on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from mgp.evaluation.record import Evaluation
from mgp.evaluation.rows import SAME, make_row
from mgp.evaluation.statistics import sign_test
from mgp.report.words import NONE, options, seen_by, task


def trainings(evaluations: Sequence[Evaluation]) -> list[tuple[str, ...]]:
    """A row for each method that was trained with two seeds or more, on the same episodes."""
    groups: dict[str, dict[int, Evaluation]] = {}
    for one in evaluations:
        if one.training_seed is not None:  # a run that was named twice counts once
            alike = repr([getattr(one, name) for name in SAME] + [list(one.outcomes)])
            groups.setdefault(alike, {})[one.training_seed] = one
    found: list[tuple[str, ...]] = []
    for group in groups.values():
        if len(group) > 1:
            row, first = make_row(list(group.values())), next(iter(group.values()))
            by_training = _between(row["seed_low"], row["seed_high"])
            found.append(
                (
                    _name(first),
                    f"{task(first)}, {seen_by(first)}",
                    row["seeds"],
                    f"{float(row['success']):.2f}" if row["success"] else NONE,
                    row["by_seed"] or NONE,
                    by_training,
                    _between(row["low"], row["high"]),
                )
            )
    return found


def pairs(evaluations: Sequence[Evaluation]) -> list[tuple[str, ...]]:
    """A row for each two policies that acted in the same episodes under the same conditions."""
    conditions = ("task", "observation", "options", "missing", "training_seed")
    found = []
    for one, other in combinations(evaluations, 2):
        alike = all(getattr(one, name) == getattr(other, name) for name in conditions)
        if not alike or one.outcomes.keys() != other.outcomes.keys() or _name(one) == _name(other):
            continue
        result = sign_test(one.outcomes, other.outcomes)
        counts = map(str, (result.both, result.only_first, result.only_second, result.neither))
        found.append((_name(one), _name(other), f"{task(one)}, {seen_by(one)}", *counts, _share(result.p)))
    return found


def _name(one: Evaluation) -> str:
    said = options(one)
    return f"{one.method} ({said})" if said else one.method


def _between(low: str, high: str) -> str:
    return f"{float(low):.2f} to {float(high):.2f}" if low and high else NONE


def _share(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"
