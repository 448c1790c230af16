from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mgp.commands.options import KeyValues, parse_options
from mgp.config import TaskConfig
from mgp.data.collect import collect
from mgp.presets import full_name, get_config
from mgp.runs import store_path


@dataclass(frozen=True)
class Collect:
    """Record successful demonstrations of an environment's scripted expert.

    Interrupted or repeated runs lose and duplicate nothing; asking for more episodes extends the store."""

    env: Annotated[str, tyro.conf.Positional]  # e.g. metaworld/assembly, or assembly alone; see `mgp envs`
    episodes: int | None = None  # default: as many as `mgp train` would ask for
    seed: int = 0  # first candidate seed; failed episodes are passed over
    observation: Literal["state", "cloud", "rgb", "depth"] = "cloud"
    option: KeyValues = ()  # of the environment: --option points=1024 --option cloud=oracle --option horizon=300
    output: Path | None = None  # default: where `mgp train` looks for it
    workers: int | None = None  # default: one a core
    force: bool = False  # start anew over what is there
    disturbed: bool = True  # SO-101: the arm is pushed off its way while it demonstrates, and led back (docs/so101.md)


def main(arguments: list[str]) -> None:
    args = tyro.cli(Collect, args=arguments, prog="mgp collect")
    name = full_name(args.env)
    episodes = args.episodes if args.episodes is not None else get_config(task=name).task.demonstrations
    task = TaskConfig(name, args.observation, parse_options(args.option), seed=args.seed)
    path = args.output or store_path(task)
    store = collect(
        task.name,
        path,
        episodes,
        args.seed,
        args.observation,
        task.options,
        args.workers,
        force=args.force,
        disturbed=args.disturbed,
    )
    print(f"{len(store)} episodes, {int(store.episode_ends[-1])} steps in {path}")
