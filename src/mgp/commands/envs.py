from __future__ import annotations

from dataclasses import dataclass

import tyro

from mgp.envs import env_names
from mgp.presets import PRESETS


@dataclass(frozen=True)
class Envs:
    """List the environments and the presets."""


def main(arguments: list[str]) -> None:
    tyro.cli(Envs, args=arguments, prog="mgp envs")
    print("environments (mgp collect NAME, mgp train --task NAME):")
    for name in env_names():
        print(f"  {name}")
    print("presets (mgp train --preset NAME):")
    for name in PRESETS:
        print(f"  {name}")
