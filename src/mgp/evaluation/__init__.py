"""Success, intervals and latency of policies on unseen episodes."""

from mgp.evaluation.episode import EpisodeResult, Recording
from mgp.evaluation.evaluate import check_seeds, evaluate
from mgp.evaluation.latency import Latency, Timing, measure, measure_both
from mgp.evaluation.missing import Missing
from mgp.evaluation.parallel import Job, run_episodes
from mgp.evaluation.record import Evaluation
from mgp.evaluation.rollout import rollout
from mgp.evaluation.rows import add_rows, make_row
from mgp.evaluation.statistics import mean_of_top, over_trainings, sign_test, wilson

__all__ = [
    "EpisodeResult",
    "Evaluation",
    "Job",
    "Latency",
    "Missing",
    "Recording",
    "Timing",
    "add_rows",
    "check_seeds",
    "evaluate",
    "make_row",
    "mean_of_top",
    "measure",
    "measure_both",
    "over_trainings",
    "rollout",
    "run_episodes",
    "sign_test",
    "wilson",
]
