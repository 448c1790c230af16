from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from mgp.engines.folder import choose
from mgp.runs import Run
from mgp.workflows.export import export_run, table


@dataclass(frozen=True)
class Export:
    """Write a trained policy down for faster engines, beside its checkpoint, and compare each with torch.

    On frames of the run's own demonstrations: the largest error of a network's output, the share of tokens that are the
    same, the mean difference of the actions that would be run (their limits are -1 and 1), and the time of a replan.
    Engines that differ too much are refused. From then on `mgp eval`, `mgp serve` and load_policy use the fastest.

    Needs `pip install 'masked-generative-policy[engines]'`."""

    run: Annotated[Path, tyro.conf.Positional]  # a folder that `mgp train` wrote
    engine: tuple[str, ...] = ()  # e.g. openvino-bf16 onnxruntime; none named: all that are installed
    data: Path | None = None  # the demonstrations, if they are not where they were trained from


def main(arguments: list[str]) -> None:
    args = tyro.cli(Export, args=arguments, prog="mgp export")
    run = Run.open(args.run)
    lines, idle = export_run(run, args.engine, args.data)
    print(table(lines))
    if not idle:
        print("the machine was not seen to be idle: times are to be compared with each other only")
    print(f"{run.policy_checkpoint / 'engines'} written; {choose(run.policy_checkpoint)} will be used")
