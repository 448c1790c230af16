from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from mgp.data.collect import collect
from mgp.runs import store_path


@dataclass(frozen=True)
class Collect:
    """Record successful demonstrations of an environment's scripted expert.

    Interrupted or repeated runs lose and duplicate nothing; asking for more episodes extends the store."""

    env: Annotated[str, tyro.conf.Positional]  # e.g. metaworld/assembly; `mgp envs` lists them
    episodes: int = 10
    seed: int = 0  # first candidate seed; failed episodes are passed over
    observation: Literal["state", "cloud", "rgb", "depth"] = "cloud"
    points: int = 512  # of a cloud; the presets of SO-101 tasks look for 1024
    output: Path | None = None  # default: data/<environment>-<observation>.zarr
    workers: int | None = None  # default: one a core
    force: bool = False  # start anew over what is there


def main(arguments: list[str]) -> None:
    args = tyro.cli(Collect, args=arguments, prog="mgp collect")
    options = {"points": args.points} if args.observation == "cloud" else {}
    path = args.output or store_path(args.env, args.observation, args.points, args.seed)
    store = collect(args.env, path, args.episodes, args.seed, args.observation, options, args.workers, True, args.force)
    print(f"{len(store)} episodes, {int(store.episode_ends[-1])} steps in {path}")
