from __future__ import annotations

from dataclasses import dataclass

import tyro

from mgp.envs import env_names
from mgp.policies import methods


@dataclass(frozen=True)
class Envs:
    """List the environments and the methods."""


def main(arguments: list[str]) -> None:
    tyro.cli(Envs, args=arguments, prog="mgp envs")
    print("environments (mgp collect NAME, mgp train --task NAME):")
    for name in env_names():
        print(f"  {name}")
    print("methods (mgp train --method NAME):")
    for name in methods():
        print(f"  {name}")
