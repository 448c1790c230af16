from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import tyro

from mgp.report import write_report
from mgp.workflows.demo import demo_folders, run_demo
from mgp.workflows.evaluate import describe


@dataclass(frozen=True)
class Demo:
    """Collect demonstrations, train MGP-Short and MGP-Long from point clouds, evaluate both, write a report.

    Run again, it goes on where it was interrupted."""

    task: str = "assembly"
    episodes: int = 20  # unseen ones, for each policy
    output: Path = Path("runs/demo")
    device: str = "auto"


def main(arguments: list[str]) -> None:
    args = tyro.cli(Demo, args=arguments, prog="mgp demo")
    begin = time.monotonic()
    for result in run_demo(args.task, args.episodes, args.output, args.device):
        print(describe(result), flush=True)
    page = args.output / "report.html"
    write_report(demo_folders(args.task, args.output), page)
    print(f"report: {page.resolve()}   ({(time.monotonic() - begin) / 60:.1f} minutes in all)")
