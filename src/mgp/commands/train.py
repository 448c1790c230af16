from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import torch.distributed as dist
import tyro

from mgp.config import Config
from mgp.data.collect import collect
from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.envs import make_env
from mgp.errors import ConfigError
from mgp.evaluation.evaluate import evaluate
from mgp.evaluation.provenance import commit
from mgp.presets import get_preset
from mgp.runs import (
    SUMMARY,
    append_eval,
    demonstrations_path,
    for_task,
    load_policy,
    method_name,
    pick_device,
    run_path,
    write_summary,
)
from mgp.training.loop import Trainer

EVAL_SEED = 20_000  # of the evaluations in the course of training, apart from those of `mgp eval`


@dataclass(frozen=True)
class Train:
    """Train a policy: demonstrations (collected if absent), tokenizer, masked transformer.

    The same command resumes an interrupted run, bit-equal on a CPU. Works under torchrun."""

    task: str | None = None  # short for --env.name: "assembly" or "metaworld/assembly"
    output: Path | None = None  # the run's folder; default: runs/<task>-<preset>-seed<seed>
    data: Path | None = None  # demonstrations; default: data/<environment>-<observation>.zarr
    minutes: float | None = None  # budget of training: the number of policy steps is fitted to it
    device: str = "auto"  # auto, cpu, cuda
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)


def main(arguments: list[str]) -> None:
    args = parse(arguments)
    folder = train(args.config, args.output, args.data, args.minutes, args.device)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"trained: {folder}   (next: mgp eval {folder})")


def parse(arguments: list[str]) -> Train:
    """The preset named on the command line gives the defaults of every other field."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset", default="metaworld-short")
    first.add_argument("--task")
    known, _ = first.parse_known_args(arguments)
    config = for_task(get_preset(known.preset), known.task)
    return tyro.cli(Train, args=arguments, default=Train(config=config), prog="mgp train")


def train(
    config: Config,
    run: Path | None = None,
    data: Path | None = None,
    minutes: float | None = None,
    device: str = "auto",
) -> Path:
    """Collect if need be, train or resume, evaluate on the way; returns the run's folder."""
    rank = _join()
    code = commit()  # before hours in which the files may change
    where = pick_device(device)
    run, data = run or run_path(config), data or demonstrations_path(config.env)
    env = config.env
    simulated = make_env(env.name, env.observation, **env.options)
    if rank == 0 and not data.exists():
        collect(env.name, data, env.demonstrations, env.seed, env.observation, env.options)
    if dist.is_initialized():
        dist.barrier()
    store = EpisodeStore.open(data)
    keys = [key for key in ("action", "state", "cloud") if key in store.keys]  # what the network can look at
    demonstrations = Demonstrations.from_store(store, colour=config.encoder.colour, keys=keys)
    demonstrations = demonstrations.first(env.demonstrations)
    check_fits(demonstrations, config, data)
    trainer = Trainer(config, demonstrations, run, simulated.hold_command(), where, minutes)
    trainer.evaluate = partial(_evaluate, config, run, demonstrations.seeds)
    trained = trainer.train() != trainer.resumed
    if rank == 0 and (trained or not (run / SUMMARY).exists()):  # a finished run keeps the commit it was trained at
        seconds, steps = trainer.progress.seconds, trainer.progress.totals
        about = {"minutes": round(seconds / 60, 2), "steps": steps, "seed": config.seed, "commit": code}
        write_summary(run, config, about)
    return run


def check_fits(demonstrations: Demonstrations, config: Config, data: Path) -> None:
    meta, env = demonstrations.meta, config.env
    if len(demonstrations.ends) < env.demonstrations:
        points = f" --points {env.points}" if env.observation == "cloud" else ""
        raise ConfigError(
            f"{data} has {len(demonstrations.ends)} episodes, env.demonstrations = {env.demonstrations}: extend it with"
            f" `mgp collect {env.name} --episodes {env.demonstrations} --seed {env.seed} --observation"
            f" {env.observation}{points} --output {data}`, or lower the number"
        )
    if meta.get("env", env.name) != env.name:
        raise ConfigError(f"{data} holds {meta['env']}, the run wants {env.name}: name the right --data or --task")
    if meta.get("horizon", env.horizon) < env.horizon:
        raise ConfigError(
            f"{data} was recorded for {meta['horizon']} steps, env.horizon = {env.horizon}: name another --data, or"
            " lower env.horizon"
        )
    if (env.observation == "cloud") != ("cloud" in demonstrations.arrays):
        raise ConfigError(f"{data} has {sorted(demonstrations.arrays)}, the run wants observation {env.observation!r}")


def _evaluate(config: Config, run: Path, seeds: tuple[int, ...], checkpoint: Path, step: int) -> None:
    count, env = config.training.eval_episodes, config.env
    result = evaluate(
        partial(load_policy, checkpoint),
        env.name,
        env.observation,
        env.options,
        range(EVAL_SEED, EVAL_SEED + count),
        seeds,
        method=method_name(config),
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
