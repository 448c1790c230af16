"""What pays where memory counts, on development seeds: `python -m benchmarks.trials RUN [RUN ...] [--episodes N]`.

For each run (`mgp train --output`), on the same episodes, every way of sampling it that is on trial: how many are
solved, how many of the shifted ones ended in the wrong basket or at the wrong goal (it forgot) or in none (it did not
adapt), and the p of a sign test against w/o SM. Choose by it as often as you like; none of it may stand in a table.
"""

from __future__ import annotations

import sys
from typing import Any

from mgp.errors import MGPError
from mgp.evaluation.record import Evaluation
from mgp.evaluation.seeds import DEVELOPMENT
from mgp.evaluation.statistics import sign_test
from mgp.runs import Run
from mgp.workflows.evaluate import evaluate_run

EPISODES = 20
WAYS: dict[str, dict[str, Any]] = {
    "w/o SM": {"variant": "no-sm"},  # first: the others are set against it
    "Long": {},
    "Full": {"variant": "full"},
    "the plan hidden from scoring": {"see_pending": False},
    "edits within 6 tokens": {"edit_window": 6, "mask_ratio": 1.0},
    "edits within 12": {"edit_window": 12, "mask_ratio": 1.0},
    "edits within 24": {"edit_window": 24, "mask_ratio": 1.0},
    "edits within 12, the unsure 70 %": {"edit_window": 12, "see_pending": False},
    "leave-out, windows of 16": {"score": "leave-out", "window": 16},
}
HEAD = f"{'':32}solved     forgot  stayed  p"


def run(folders: list[str], episodes: int = EPISODES) -> None:
    for folder in folders:
        one = Run.open(folder)
        print(f"{one.folder}: seeds {DEVELOPMENT[0]} to {DEVELOPMENT[0] + episodes - 1}\n{HEAD}")
        against: Evaluation | None = None
        ways = WAYS if one.config.method == "mgp-long" else {"as trained": {}}
        for name, changes in ways.items():
            sampling = one.config.policy.sampling.changed(**changes)
            result = evaluate_run(one, sampling, episodes, DEVELOPMENT[0], latency=False, record=0)
            against = against or result
            print(line(name, result, against), flush=True)


def line(name: str, result: Evaluation, against: Evaluation) -> str:
    failed = [one.end for one in result.episodes if one.end.get("shifted") and not one.success]
    forgot = sum(bool(end.get("wrong")) or end.get("basket", "none") != "none" for end in failed)
    p = sign_test(result.outcomes, against.outcomes).p
    solved = f"{result.successes} of {len(result.episodes)}"
    return f"{name:32}{solved:11}{forgot:6}{len(failed) - forgot:8}  {p:.3f}"


def main(arguments: list[str]) -> int:
    words, flag, count = " ".join(arguments).partition("--episodes")
    try:
        if not words.strip():
            raise MGPError(f"name a run's folder\n\n{__doc__}")
        run(words.split(), int(count) if flag else EPISODES)
    except (MGPError, ValueError) as error:
        print(f"benchmarks.trials: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
