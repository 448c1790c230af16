"""Success, intervals and latency of policies on unseen episodes."""

from mgp.evaluation.episode import EpisodeResult, Recording
from mgp.evaluation.evaluate import check_seeds, evaluate
from mgp.evaluation.latency import Latency, Timing, measure, measure_both
from mgp.evaluation.missing import Missing
from mgp.evaluation.parallel import Job, run_episodes
from mgp.evaluation.results import Evaluation
from mgp.evaluation.rollout import rollout
from mgp.evaluation.statistics import mean_of_top, median, percentile, wilson
from mgp.evaluation.table import append, row

__all__ = [
    "EpisodeResult",
    "Evaluation",
    "Job",
    "Latency",
    "Missing",
    "Recording",
    "Timing",
    "append",
    "check_seeds",
    "evaluate",
    "mean_of_top",
    "measure",
    "measure_both",
    "median",
    "percentile",
    "rollout",
    "row",
    "run_episodes",
    "wilson",
]
