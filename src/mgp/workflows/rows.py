"""A row of results/*.csv: what an evaluation says, and what the run knows of its training."""

from __future__ import annotations

from mgp.evaluation import table
from mgp.evaluation.results import Evaluation
from mgp.evaluation.statistics import mean_of_top
from mgp.runs import Run, read_evals


def result_row(run: Run, result: Evaluation, as_trained: bool) -> dict[str, str]:
    """`as_trained`: this is what was evaluated in training, so that the figure of its best evaluations belongs here."""
    return table.row([result]) | {"top5_in_training": top5(run) if as_trained else "", "trained_at": run.trained_at}


def top5(run: Run) -> str:
    """The paper's figure: mean of the five best evaluations in training; "" with fewer than five."""
    rates = [float(row["success"]) for row in read_evals(run.folder)]
    return f"{mean_of_top(rates):.4f}" if len(rates) >= 5 else ""
