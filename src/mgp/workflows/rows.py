"""A row of results/*.csv: what evaluations say, and what their runs know of their training."""

from __future__ import annotations

from collections.abc import Sequence

from mgp.evaluation.csv_table import Line
from mgp.evaluation.record import Evaluation
from mgp.evaluation.rows import make_row
from mgp.evaluation.statistics import mean_of_top
from mgp.runs import Run, read_evals


def result_row(runs: Sequence[Run], results: Sequence[Evaluation], as_trained: bool) -> Line:
    """Runs that differ in the training seed only, and the evaluation of each.

    `as_trained`: this is what was evaluated in training, so that the figure of its best evaluations belongs here.
    """
    return make_row(results, [run.trained_at for run in runs], [top5(run) for run in runs] if as_trained else [])


def top5(run: Run) -> float | None:
    """The paper's figure: mean of the five best evaluations in training; None with fewer than five."""
    rates = [float(row["success"]) for row in read_evals(run.folder)]
    return mean_of_top(rates) if len(rates) >= 5 else None
