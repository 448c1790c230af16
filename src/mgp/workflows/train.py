"""From a configuration to a trained run: demonstrations (collected if absent), training, evaluations on the way."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from mgp.config import TaskConfig
from mgp.data.collect import collect
from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.envs import action_kind, check_env, is_env, make_env
from mgp.errors import ConfigError, DataError
from mgp.evaluation.evaluate import evaluate
from mgp.evaluation.provenance import commit
from mgp.evaluation.seeds import IN_TRAINING
from mgp.policies.config import RunConfig
from mgp.runs import SUMMARY, append_eval, load_policy, pick_device, run_path, store_path, write_summary
from mgp.training.loop import Trainer


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


def collect_for(task: TaskConfig, data: Path) -> EpisodeStore:
    """What a run on this task learns from."""
    return collect(task.name, data, task.demonstrations, task.seed, task.observation, task.options)


def load_demonstrations(task: TaskConfig, data: Path) -> Demonstrations:
    """The episodes to learn from, without the held-out ones at the end; refused if they do not fit the task."""
    store = EpisodeStore.open(data)
    meta, wanted = store.meta, task.demonstrations or len(store) - task.held_out
    if wanted < 1 or len(store) < wanted + task.held_out:
        remedy = f"extend it with `{_collecting(task, meta, wanted + task.held_out, data)}`, or " * is_env(task.name)
        raise ConfigError(
            f"{data} has {len(store)} episodes, task.demonstrations = {task.demonstrations} and task.held_out ="
            f" {task.held_out} were asked for: {remedy}lower the numbers"
        )
    if meta.get("env", task.name) != task.name and is_env(task.name):
        raise ConfigError(f"{data} holds {meta['env']}, the run wants {task.name}: name the right --data or --task")
    for name, value in task.options.items():
        if name in meta.get("options", {}) and meta["options"][name] != value:
            raise ConfigError(
                f"{data} was recorded with {name} = {meta['options'][name]!r}, the run wants {value!r}: name another"
                " --data, or leave the option out"
            )
    if is_env(task.name) and task.observation != "state" and task.observation not in store.keys:
        raise DataError(f"{data} has {', '.join(store.keys)}, the run wants observation {task.observation!r}")
    demonstrations = Demonstrations.from_store(store).first(wanted)
    if is_env(task.name) and "actions" not in meta:  # collected by mgp 0.1
        env = make_env(task.name, "state")
        hold = [None if np.isnan(value) else float(value) for value in env.hold_command()]
        demonstrations = demonstrations.saying(actions=action_kind(task.family), hold_action=hold)
    return demonstrations if task.actions is None else demonstrations.saying(actions=task.actions)


def _collecting(task: TaskConfig, meta: Mapping[str, Any], episodes: int, data: Path) -> str:
    """The command that extends a store: recorded with anything else, `mgp collect` would refuse it."""
    seed = meta.get("seed", task.seed)
    words = [f"mgp collect {task.name} --episodes {episodes}", *([f"--seed {seed}"] if seed else [])]
    words.append(f"--observation {meta.get('observation', task.observation)}")
    words += [f"--option {name}={value}" for name, value in meta.get("options", {}).items()]
    return " ".join([*words, f"--output {data}"])


def held_out(task: TaskConfig, data: Path) -> tuple[Demonstrations, range]:
    """All episodes of the store, and which of them were kept apart."""
    demonstrations = Demonstrations.from_store(EpisodeStore.open(data))
    total = len(demonstrations.ends)
    return demonstrations, range(total - task.held_out, total)


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
