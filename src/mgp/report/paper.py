"""The paper's own figures, to stand beside ours.

Those of metaworld and metaworld-dynamic are of Meta-World V2, which differs from the V3 here; those of buttons are of
the paper's own scene. Times are of an RTX 4090.
"""

from __future__ import annotations

import csv
import functools
from importlib import resources


@functools.cache
def _rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(resources.files("mgp.report").joinpath(name).read_text().splitlines()))


def paper_success(method: str, task: str, missing: float = 0.0) -> float | None:
    """Success rate of a method on a task named as here ("metaworld/assembly"), None where the paper has none.

    `missing`: the probability that an observation is withheld. Full looks once, so its figure is that of every such.
    """
    for row in _rows("paper_challenges.csv"):
        if (row["task"], row["method"], float(row["missing"])) == (task, method, missing):
            return float(row["success"])
    family, _, name = task.partition("/")
    if family != "metaworld" or (missing and "Full" not in method):
        return None
    for row in _rows("paper_metaworld.csv"):
        if row["task"] == name and row["method"] == method:
            return float(row["success"])
    return None


def paper_flips(masking: str) -> float | None:
    """Share of masked tokens that change in refinement, on disassemble; masking the least sure or the surest."""
    return {"low": 0.606, "high": 0.151}.get(masking)


def paper_level(task: str) -> str:
    """easy, medium, hard or very-hard; "" if unknown."""
    name = task.partition("/")[2]
    return next((row["level"] for row in _rows("paper_metaworld.csv") if row["task"] == name), "")


def paper_latency(method: str, benchmark: str = "Meta-World") -> tuple[float | None, float | None]:
    """Milliseconds per step and per sequence, as far as the paper gives them; it has QueST on LIBERO only."""
    for row in _rows("paper_latency.csv"):
        if (row["benchmark"], row["method"]) == (benchmark, method):
            step, sequence = row["ms_per_step"], row["ms_per_sequence"]
            return float(step) if step else None, float(sequence) if sequence else None
    return None, None
