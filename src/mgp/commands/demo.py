from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import tyro

from mgp.commands.eval import describe, evaluate_run
from mgp.commands.train import train
from mgp.config import get_preset
from mgp.report import write_report
from mgp.runs import Run, for_task, run_path


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
    begin, folders = time.monotonic(), []
    for preset in ("metaworld-short", "metaworld-long"):
        config = for_task(get_preset(preset), args.task)
        config = replace(config, training=replace(config.training, eval_every=0))
        folders.append(train(config, args.output / run_path(config).name, device=args.device))
    for folder in folders:
        run = Run.open(folder)
        variants: tuple[Literal["long", "full"], ...] = ("long", "full") if run.config.policy == "long" else ("long",)
        for variant in variants:
            print(describe(evaluate_run(run, replace(run.config.sampling, variant=variant), args.episodes)))
    page = args.output / "report.html"
    write_report(folders, page)
    print(f"report: {page.resolve()}   ({(time.monotonic() - begin) / 60:.1f} minutes in all)")
