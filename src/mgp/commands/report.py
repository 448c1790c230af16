from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mgp.report import write_report


@dataclass(frozen=True)
class Report:
    """One self-contained HTML page: success beside the paper's, latency, curves, pictures, confidence maps."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]  # folders that `mgp train` wrote
    output: Path = Path("report.html")


def main(arguments: list[str]) -> None:
    args = tyro.cli(Report, args=arguments, prog="mgp report")
    write_report(list(args.runs), args.output)
    print(f"report: {args.output.resolve()}")
