"""The lines of results/speed.csv: what a race took, as figures beside those of MGP-Short."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mgp.errors import ConfigError, DataError
from mgp.evaluation.csv_table import Line, read, text, write
from mgp.evaluation.idle import LIMIT, Others
from mgp.evaluation.provenance import commit, machine, reproducible
from mgp.evaluation.speed import Race, Times
from mgp.policies.base import Policy

COLUMNS = (
    "policy",  # as the paper writes it
    "sizes",  # released: as published, with one encoder and number of frames for all; default: as `mgp train` has it
    "preset",
    "threads",
    "parameters",  # but for what only teaches: a teacher, an auxiliary head
    "frames",  # a plan sees
    "run",  # actions of a plan that are run
    "replans",  # timed; the percentiles of milliseconds below are over these
    "sequences",  # timed whole; 0: the median is that of a replan times their number, without a p99
    "encode_p50",  # part of a replan: observations to the condition
    "replan_p50",
    "replan_p99",
    "step_p50",  # replan / run
    "step_p99",
    "sequence_p50",  # all replans of an episode
    "sequence_p99",
    "replan_ratio",  # to that of REFERENCE with as many threads, of the medians
    "step_ratio",
    "sequence_ratio",
    "paper_step",  # milliseconds on an RTX 4090
    "paper_sequence",
    "paper_ratio",  # of steps, to the paper's MGP-Short on the same benchmark
    "note",
    "others",  # cores that other processes used meanwhile
    "torch",
    "commit",
    "machine",
)
RELEASED, DEFAULT = "released", "default"  # sizes
REFERENCE = "MGP-Short", RELEASED  # policy and sizes of what the others are compared with
FIGURES = ("replan", "step", "sequence")


@dataclass(frozen=True)
class Entry:
    """A policy in the table."""

    policy: str
    sizes: str
    preset: str
    paper_step: float | None = None
    paper_sequence: float | None = None
    paper_ratio: float | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """Tells it from all others."""
        return f"{self.policy}, {self.sizes}"


def speed_lines(entries: Sequence[Entry], policies: dict[str, Policy], raced: Race, horizon: int) -> list[Line]:
    """A line for each policy, by its entry's name, and number of threads. `horizon`: steps of a sequence."""
    about = {"others": raced.machine.cores, "torch": torch.__version__, "commit": commit(), "machine": machine()}
    lines = []
    for threads in dict.fromkeys(threads for _, threads in raced.times):
        found = {
            entry: _figures(raced.times[entry.name, threads], policies[entry.name].execution_horizon, horizon)
            for entry in entries
        }
        reference = next((figures for e, figures in found.items() if (e.policy, e.sizes) == REFERENCE), {})
        for entry, figures in found.items():
            policy, times = policies[entry.name], raced.times[entry.name, threads]
            ratios = {
                f"{name}_ratio": figures[f"{name}_p50"] / reference[f"{name}_p50"] for name in FIGURES if reference
            }
            values = {
                **dataclasses.asdict(entry),
                "threads": threads,
                "parameters": _parameters(policy),
                "frames": policy.frames,
                "run": policy.execution_horizon,
                "replans": len(times.replans),
                "sequences": len(times.sequences),
                **{name: f"{value:.4g}" for name, value in (figures | ratios).items()},
                **about,
            }
            lines.append({name: text(values[name]) for name in COLUMNS if text(values.get(name)) != ""})
    return lines


def _figures(times: Times, run: int, horizon: int) -> dict[str, float]:
    out = {}
    if times.encoding:
        out["encode_p50"] = float(np.median(times.encoding))
    for percent in (50, 99):
        out[f"replan_p{percent}"] = replan = float(np.percentile(times.replans, percent))
        out[f"step_p{percent}"] = replan / run
        if times.sequences:
            out[f"sequence_p{percent}"] = float(np.percentile(times.sequences, percent))
        elif percent == 50:
            out["sequence_p50"] = -(-horizon // run) * replan
    return out


def _parameters(policy: Policy) -> int | None:
    return sum(p.numel() for p in policy.parameters()) if isinstance(policy, torch.nn.Module) else None


def write_speed(path: Path, columns: Sequence[str], lines: Sequence[Line], machine: Others) -> None:
    """A table made in one run replaces the one before; refused unless it can be believed and repeated."""
    if not machine.idle:
        raise ConfigError(f"{path} is not written: {busy(machine)}")
    if not reproducible(code := commit()):
        raise ConfigError(f"{path} is not written: this is commit {code}; commit, or use a clean clone")
    write(path, columns, lines)


def busy(machine: Others) -> str:
    """Why the machine is not idle."""
    used = "nobody knows how many" if machine.cores is None else f"{machine.cores:.2f}"
    return f"other processes used {used} cores, at most {LIMIT} may be in use: wait until the machine is idle"


def read_speed(path: Path) -> list[Line]:
    try:
        columns, lines = read(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): make it with `python -m benchmarks.speed`") from error
    wanted = ("policy", "sizes", "threads", *(f"{name}_p50" for name in FIGURES))
    if absent := [name for name in wanted if name not in columns]:
        raise DataError(f"{path} has no column {', '.join(absent)}: make it again with `python -m benchmarks.speed`")
    for number, line in enumerate(lines, 2):
        for name in wanted[2:]:
            if not _positive(line.get(name)):
                raise DataError(f"{path} line {number} has {name} = {line.get(name)!r}: a number above 0 is needed")
    return lines


def _positive(value: str | None) -> bool:
    try:
        return 0 < float(value or "") < float("inf")
    except ValueError:
        return False
