from __future__ import annotations

from mgp.config import PRESETS
from mgp.envs import env_names


def main(arguments: list[str]) -> None:
    print("environments (mgp collect NAME, mgp train --task NAME):")
    for name in env_names():
        print(f"  {name}")
    print("presets (mgp train --preset NAME):")
    for name in PRESETS:
        print(f"  {name}")
