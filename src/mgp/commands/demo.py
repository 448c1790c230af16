from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import tyro

from mgp.commands.eval import describe, evaluate_run
from mgp.config import Config
from mgp.data.collect import collect
from mgp.errors import MGPError
from mgp.evaluation.parallel import cores
from mgp.presets import get_preset
from mgp.report import write_report
from mgp.runs import Run, demonstrations_path, for_task, run_path


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
    configs = [for_task(get_preset(preset), args.task) for preset in ("metaworld-short", "metaworld-long")]
    for config in configs:  # the second finds the first one's demonstrations
        env = config.env
        collect(env.name, demonstrations_path(env), env.demonstrations, env.seed, env.observation, env.options)
    folders = [args.output / run_path(config).name for config in configs]
    train_side_by_side(configs, folders, args.device)
    for folder in folders:
        run = Run.open(folder)
        samplings = [run.config.sampling]
        if run.config.policy == "long":
            samplings.append(replace(run.config.sampling, variant="full"))
        for sampling in samplings:
            print(describe(evaluate_run(run, sampling, args.episodes)))
    page = args.output / "report.html"
    write_report(folders, page)
    print(f"report: {page.resolve()}   ({(time.monotonic() - begin) / 60:.1f} minutes in all)")


def train_side_by_side(configs: list[Config], folders: list[Path], device: str) -> None:
    """Each policy in a process of its own: networks this small use two cores better that way than with two threads."""
    threads = max(1, cores() // len(configs))
    children = []
    for line, (config, folder) in enumerate(zip(configs, folders, strict=True)):
        words = ["train", "--preset", config.preset, "--task", config.env.name, "--output", str(folder)]
        command = [sys.executable, "-m", "mgp.cli", *words, "--device", device, "--training.eval-every", "0"]
        # TQDM_POSITION gives each its own line of the terminal
        settings = {**os.environ, "OMP_NUM_THREADS": str(threads), "TQDM_POSITION": str(line)}
        children.append(subprocess.Popen(command, env=settings))
    try:
        codes = [child.wait() for child in children]
    except BaseException:  # Ctrl-C reaches them too; they save before they end
        for child in children:
            child.wait()
        raise
    if any(codes):
        raise MGPError(
            f"training ended with exit codes {codes}; its message stands above, and `mgp demo` goes on there"
        )
