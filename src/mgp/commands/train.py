from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from mgp.commands.options import KeyValues, with_options
from mgp.errors import ConfigError
from mgp.policies.config import RunConfig
from mgp.presets import DEFAULT_METHOD, DEFAULT_TASK, get_config, refuse_old_preset
from mgp.workflows.own_data import config_for_store, simulated_frame
from mgp.workflows.train import train


@dataclass(frozen=True)
class Train:
    """Train a policy: mgp train --method mgp-long --task metaworld/assembly, or --data mine.zarr for own recordings.

    Demonstrations are collected if absent. Run again, the same command resumes an interrupted run, bit-equal on a CPU.
    Works under torchrun. Each method has options of its own: what is shown are the options and defaults of the method
    and task (or store) named beside --help."""

    task: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None  # "assembly", "buttons/on-off"; see `mgp envs`
    data: Path | None = None  # demonstrations; default: data/<environment>-<observation>.zarr. Alone: one's own
    option: KeyValues = ()  # of the environment: --option points=1024 --option cloud=oracle
    output: Path | None = None  # the run's folder; default: runs/<task>-<method>-seed<seed>
    minutes: float | None = None  # budget of training: the steps of the last stage are fitted to it
    device: str = "auto"  # auto, cpu, cuda
    config: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=RunConfig)


def main(arguments: list[str]) -> None:
    args = parse(arguments)
    folder = train(args.config, args.output, args.data, args.minutes, args.device)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"trained: {folder}   (next: mgp eval {folder})")


def parse(arguments: list[str]) -> Train:
    """Method and task, or the store, give the defaults of every other field."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--preset")
    first.add_argument("--method", default=DEFAULT_METHOD)
    first.add_argument("--task")
    first.add_argument("--data", type=Path)
    first.add_argument("--task.actions", dest="actions")
    first.add_argument("--task.keys", dest="keys", nargs="*", default=[])
    first.add_argument("--task.observation", dest="observation", default="cloud")
    first.add_argument("--option", action="append", default=[])
    known, _ = first.parse_known_args(arguments)
    if known.preset is not None:
        refuse_old_preset(known.preset, known.task)
    if known.data is None and known.task is None and not {"-h", "--help"} & set(arguments):
        raise ConfigError(
            "nothing to learn from was named: give --task (e.g. --task assembly; `mgp envs` lists them), or --data with"
            " a store of your own recordings"
        )
    if known.data is not None and known.task is None:
        config = config_for_store(known.data, known.method, known.actions, known.keys)
    else:
        config = get_config(
            known.method, known.task or DEFAULT_TASK, frame=simulated_frame(known.observation, known.keys)
        )
    default = Train(config=with_options(config, known.option))
    return tyro.cli(Train, args=arguments, default=default, prog="mgp train")
