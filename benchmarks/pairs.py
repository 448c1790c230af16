"""Each method of a table against MGP on the same episodes: `python -m benchmarks.pairs [TABLE ...]`.

Reads results/TABLE.csv, writes results/TABLE_pairs.csv: how many episodes both solve, one alone, neither, and an exact
two-sided McNemar test. One training seed each: this tells two *policies* apart, not two methods.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from mgp.errors import MGPError
from mgp.evaluation.csv_table import Line, changed, read
from mgp.evaluation.statistics import sign_test

RESULTS = Path("results")
AGAINST = ("MGP-Short", "MGP-Long")
SAME = ("task", "missing", "block", "evaluation_seeds", "seeds")  # of two lines that met the same episodes
COLUMNS = (
    *("method", "against", "task", "missing", "block", "episodes"),
    *("both", "only_method", "only_against", "neither", "p"),
)


def outcomes(line: Line) -> dict[int, bool] | None:
    """Whether each episode was solved; None of a line from before this was kept, if its rate does not tell."""
    digits = line.get("outcomes", "").replace(" ", "")
    if not digits and float(line["success"]) in (0.0, 1.0):
        digits = str(int(float(line["success"]))) * int(line["episodes"])
    return {place: digit == "1" for place, digit in enumerate(digits)} or None


def pairs(lines: list[Line]) -> list[Line]:
    rows = []
    for line in lines:
        for other in lines:
            same = all(line.get(name) == other.get(name) for name in SAME)
            if not same or other["method"] not in AGAINST or line["method"] in (other["method"], AGAINST[0]):
                continue
            first, second = outcomes(line), outcomes(other)
            if first is None or second is None:
                who = (line if first is None else other)["method"]
                left_out = f"left out: {line['method']} against {other['method']} on {line['task']}"
                print(f"{left_out}: which episodes {who} solved was not kept; make its line again", file=sys.stderr)
                continue
            test = sign_test(first, second)
            counts = (test.both, test.only_first, test.only_second, test.neither)
            values = (line["method"], other["method"], line["task"], line.get("missing", "0.0"), line["block"])
            rows.append(dict(zip(COLUMNS, map(str, (*values, sum(counts), *counts, f"{test.p:.4f}")), strict=True)))
    return rows


def main(tables: list[str]) -> int:
    try:
        for table in tables or ["baselines"]:
            # those of mgp 0.1 have no block, and other episodes
            rows = pairs([line for line in read(RESULTS / f"{table}.csv")[1] if line.get("block")])
            with changed(RESULTS / f"{table}_pairs.csv", COLUMNS) as lines:
                lines[:] = rows
            csv.DictWriter(sys.stdout, COLUMNS).writerows(rows)
    except MGPError as error:
        print(f"benchmarks.pairs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
