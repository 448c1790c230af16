from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mgp.report import write_report

SPEED = Path("results/speed.csv")


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page: success beside the paper's, latency, curves, pictures, confidence maps, speed."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]  # folders that `mgp train` wrote
    output: Path = Path("report.html")
    speed: Path | None = None  # table of `python -m benchmarks.speed`; none given: results/speed.csv, if it is there


def main(arguments: list[str]) -> None:
    args = tyro.cli(Report, args=arguments, prog="mgp report")
    speed = args.speed or (SPEED if SPEED.exists() else None)
    write_report(list(args.runs), args.output, speed)
    print(f"report: {args.output.resolve()}")
