"""Environments by name. A new family is one file and one line in `FAMILIES`; importing this tells Gymnasium of them."""

from __future__ import annotations

import importlib
from typing import Literal

from mgp.envs.base import Observation, RobotEnv
from mgp.envs.registration import register
from mgp.errors import UnknownNameError

# family: module with `make(task, observation, **options) -> RobotEnv` and `tasks() -> list[str]`; `ACTIONS` =
# "absolute" in it if actions are places to go to, else they displace the hand
FAMILIES = {
    "metaworld": "mgp.envs.metaworld",
    "metaworld-dynamic": "mgp.envs.metaworld_dynamic",
    "metaworld-memory": "mgp.envs.metaworld_memory",
    "buttons": "mgp.envs.so101.buttons",
    "sorting": "mgp.envs.so101.sorting",
}


register()


def env_names() -> list[str]:
    modules = {family: importlib.import_module(module) for family, module in FAMILIES.items()}
    return [f"{family}/{task}" for family, module in modules.items() for task in module.tasks()]


def is_env(name: str) -> bool:
    """Whether there is a simulator of that name; one's own recordings have names of their own."""
    family, _, task = name.partition("/")
    return family in FAMILIES and task in importlib.import_module(FAMILIES[family]).tasks()


def check_env(name: str) -> None:
    """Refuse a name that no simulator has, with the nearest one."""
    family, _, task = name.partition("/")
    if family not in FAMILIES:
        raise UnknownNameError("environment family", family, FAMILIES)
    tasks = importlib.import_module(FAMILIES[family]).tasks()
    if task not in tasks:
        raise UnknownNameError(f"{family} task", task, tasks)


def make_env(name: str, observation: str = "cloud", **options) -> RobotEnv:
    """`make_env("metaworld/assembly", "cloud", points=512)`; `observation`: state, cloud, rgb or depth."""
    check_env(name)
    family, _, task = name.partition("/")
    return importlib.import_module(FAMILIES[family]).make(task, observation, **options)


def action_kind(family: str) -> Literal["displacement", "absolute"]:
    return getattr(importlib.import_module(FAMILIES[family]), "ACTIONS", "displacement")


__all__ = ["FAMILIES", "Observation", "RobotEnv", "action_kind", "check_env", "env_names", "is_env", "make_env"]
