"""The whole way at once: collect, train MGP-Short and MGP-Long side by side, evaluate both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mgp.engines.folder import exported
from mgp.errors import MGPError
from mgp.evaluation.record import Evaluation
from mgp.policies.config import RunConfig
from mgp.presets import get_config
from mgp.processes import cores
from mgp.runs import Run, run_path, store_path
from mgp.workflows.demonstrations import collect_for
from mgp.workflows.evaluate import evaluate_run
from mgp.workflows.export import export_run, installed

METHODS = ("mgp-short", "mgp-long")
MINUTES = 6  # of training, side by side: with the rest, ten minutes on whatever machine


def demo_folders(task: str, output: Path) -> list[Path]:
    return [output / run_path(get_config(method, task)).name for method in METHODS]


def run_demo(task: str, episodes: int, output: Path, device: str) -> Iterator[Evaluation]:
    """Yields each evaluation as it is done. Run again, it goes on where it was interrupted."""
    configs = [get_config(method, task) for method in METHODS]
    for config in configs:  # the second finds the first one's demonstrations
        collect_for(config.task, store_path(config.task))
    folders = demo_folders(task, output)
    train_side_by_side(configs, folders, device)
    for folder in folders:
        run = Run.open(folder)
        if installed() and exported(run.policy_checkpoint) is None:
            export_run(run)
        sampling = run.config.policy.sampling
        yield evaluate_run(run, sampling, episodes)
        if run.config.method == "mgp-long":
            yield evaluate_run(run, sampling.changed(variant="full"), episodes)


def train_side_by_side(configs: list[RunConfig], folders: list[Path], device: str) -> None:
    """Each policy in a process of its own: networks this small use two cores better that way than with two threads."""
    threads = max(1, cores() // len(configs))
    children = []
    for line, (config, folder) in enumerate(zip(configs, folders, strict=True)):
        words = ["train", "--method", config.method, "--task", config.task.name, "--output", str(folder)]
        words += ["--device", device, "--minutes", str(MINUTES), "--training.eval-every", "0"]
        command = [sys.executable, "-m", "mgp.cli", *words]
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
