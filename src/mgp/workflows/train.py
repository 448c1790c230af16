"""From a configuration to a trained run: demonstrations (collected if absent), training, evaluations on the way."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from mgp.envs import check_env, is_env
from mgp.errors import ConfigError
from mgp.evaluation.evaluate import evaluate
from mgp.evaluation.provenance import commit
from mgp.evaluation.seeds import IN_TRAINING
from mgp.policies.config import RunConfig
from mgp.runs import SUMMARY, append_eval, load_policy, pick_device, run_path, store_path, write_summary
from mgp.training.loop import Trainer
from mgp.workflows.demonstrations import collect_for, load_demonstrations


def train(
    config: RunConfig,
    run: Path | None = None,
    data: Path | None = None,
    minutes: float | None = None,
    device: str = "auto",
) -> Path:
    """Collect if need be, train or resume, evaluate on the way; returns the run's folder."""
    rank = _join()
    code = commit()  # before hours in which the files may change
    where = pick_device(device)
    task, simulated = config.task, is_env(config.task.name)
    if data is None and not simulated:
        check_env(task.name)  # own recordings come with a store
    if simulated and task.observation == "state" and config.encoder.frame == "hand":
        raise ConfigError(
            "encoder.frame = 'hand' takes the state for points (hand, fingers), which a simulator's of task.observation"
            " = 'state' is not: choose encoder.frame = 'world', and augmentation.rotation and stretch = 0"
        )
    run, data = run or run_path(config), data or store_path(task)
    if simulated and rank == 0 and not data.exists():
        collect_for(task, data)
    if dist.is_initialized():
        dist.barrier()
    demonstrations = load_demonstrations(task, data)
    trainer = Trainer(config, demonstrations, run, where, minutes, data=data)
    if simulated:
        trainer.evaluate = partial(_evaluate, config, run, trainer.policy.spec.options, demonstrations.seeds)
    trained = trainer.train() != trainer.resumed
    if rank == 0 and (trained or not (run / SUMMARY).exists()):  # a finished run keeps the commit it was trained at
        seconds, steps = trainer.progress.seconds, trainer.progress.totals
        about = {"minutes": round(seconds / 60, 2), "steps": steps, "seed": config.seed, "commit": code}
        write_summary(run, config, {**about, "options": trainer.policy.spec.options})
    return run


def _evaluate(config: RunConfig, run: Path, options: dict, seeds: tuple[int, ...], checkpoint: Path, step: int) -> None:
    count, task = config.training.eval_episodes, config.task
    result = evaluate(
        partial(load_policy, checkpoint),
        task.name,
        task.observation,
        options,
        IN_TRAINING[:count],
        seeds,
        record=0,
        latency=False,
    )
    append_eval(run, {"step": step, "success": round(result.success, 4), "episodes": count})


def _join() -> int:
    """Join the processes of torchrun, if it started this one; returns the rank."""
    if "RANK" not in os.environ:
        return 0
    if not dist.is_initialized():
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return dist.get_rank()
