"""Names of the 50 Meta-World V3 tasks."""

from __future__ import annotations

from metaworld.env_dict import ALL_V3_ENVIRONMENTS

from mgp.errors import UnknownNameError


def tasks() -> list[str]:
    return sorted(name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS)


def check_task(task: str) -> None:
    if task not in tasks():
        raise UnknownNameError("metaworld task", task, tasks())
