"""Gymnasium's names of the environments: `import mgp.envs`, then `gymnasium.make("mgp/sorting-towel-nudged-v0")`.

Gymnasium 1 loads no plug-ins by itself, so that one import is needed; `gymnasium.make("mgp.envs:mgp/...")` does it too.
Tasks are written out here (a test compares), since asking the families for them would load every simulator.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from mgp.envs.base import RobotEnv
from mgp.envs.metaworld_tasks import TASKS as METAWORLD
from mgp.errors import ConfigError

VERSION = 0  # a new one whenever the same seed gives another episode
MOVING = ("basketball", "basketball-midway", "pick-place-wall-target", "pick-place-wall-wall", "push", "push-wall")
TASKS: dict[str, tuple[str, ...]] = {
    "metaworld": METAWORLD,
    "metaworld-dynamic": MOVING,
    "metaworld-memory": ("pick-place-cue", "pick-place-cue-still"),
    "buttons": ("color-change", "on-off", "shifted"),
    "sorting": ("towel", "towel-nudged"),
}


def gym_id(name: str) -> str:
    """Of "sorting/towel-nudged" it is "mgp/sorting-towel-nudged-v0"."""
    return f"mgp/{name.replace('/', '-')}-v{VERSION}"


def register() -> None:
    """Enter all environments; once is enough, and twice does no harm."""
    for name in (f"{family}/{task}" for family, tasks in TASKS.items() for task in tasks):
        if gym_id(name) not in gym.registry:
            gym.register(gym_id(name), entry_point=f"{__name__}:make", kwargs={"name": name})


def make(name: str, observation: str = "cloud", render_mode: str | None = None, **options: Any) -> RobotEnv:
    """`make_env` for Gymnasium, which has a word for how `render` shows things: here it is always a picture."""
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"{name} has render_mode 'rgb_array' (or None) only, got {render_mode!r}")
    from mgp.envs import make_env  # which has imported this file

    return make_env(name, observation, **options)
