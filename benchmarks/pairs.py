"""Each method of a table against MGP on the same episodes: `python -m benchmarks.pairs [TABLE ...]`.

Reads results/TABLE.csv and the evaluations kept in the runs' folders, writes results/TABLE_pairs.csv: how many episodes
both solve, one alone, neither, and an exact two-sided McNemar test. One training seed each: this tells two *policies*
apart, not two methods.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from mgp.errors import DataError, MGPError
from mgp.evaluation.csv_table import Line, changed, read
from mgp.evaluation.record import Evaluation
from mgp.evaluation.seeds import block_seeds
from mgp.evaluation.statistics import sign_test
from mgp.presets import get_config
from mgp.runs import run_path

RESULTS = Path("results")
AGAINST = ("MGP-Short", "MGP-Long")
COLUMNS = (
    *("method", "against", "task", "missing", "block", "episodes"),
    *("both", "only_method", "only_against", "neither", "p"),
)


def evaluation(line: Line) -> Evaluation:
    """The evaluation that a line of one training seed was made of."""
    seed, first = int(line["seeds"]), block_seeds(int(line["block"]), 1)[0]
    folder = run_path(get_config(line["preset"], line["task"]).changed({"seed": seed})) / "eval"
    missing = float(line.get("missing", 0))
    path = folder / f"{f'missing={missing}' if missing else 'as-trained'}-seed{first}.json"
    if not path.exists():
        raise DataError(f"{path} is not there: run this where `python -m benchmarks.results` evaluated the runs")
    return Evaluation.load(path)


def pairs(lines: list[Line]) -> list[Line]:
    rows = []
    for line in lines:
        for other in lines:
            same = all(line.get(name) == other.get(name) for name in ("task", "missing", "block", "seeds"))
            if not same or other["method"] not in AGAINST or other["method"] == line["method"]:
                continue
            test = sign_test(evaluation(line).outcomes, evaluation(other).outcomes)
            counts = (test.both, test.only_first, test.only_second, test.neither)
            values = (line["method"], other["method"], line["task"], line.get("missing", "0.0"), line["block"])
            rows.append(dict(zip(COLUMNS, map(str, (*values, sum(counts), *counts, f"{test.p:.4f}")), strict=True)))
    return rows


def main(tables: list[str]) -> int:
    try:
        for table in tables or ["baselines"]:
            rows = pairs(read(RESULTS / f"{table}.csv")[1])
            with changed(RESULTS / f"{table}_pairs.csv", COLUMNS) as lines:
                lines[:] = rows
            csv.DictWriter(sys.stdout, COLUMNS).writerows(rows)
    except MGPError as error:
        print(f"benchmarks.pairs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
