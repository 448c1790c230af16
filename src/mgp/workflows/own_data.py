"""One's own recordings: what to train is taken from the store itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mgp.data.description import ACTIONS, state_places
from mgp.data.spec import Actions
from mgp.data.store import EpisodeStore
from mgp.envs import is_env
from mgp.errors import ConfigError
from mgp.policies.config import RunConfig
from mgp.presets import Frame, get_config

HELD_OUT = 0.1  # share of the episodes that is kept apart by default; at least one, and one of each instruction


def config_for_store(data: Path, method: str, actions: Actions | None = None, keys: Sequence[str] = ()) -> RunConfig:
    """The configuration of a method on the episodes of a store; in a simulator of ours where they stem from one.

    `keys`: of the observations those that are looked at, else all.
    """
    store = EpisodeStore.open(data)
    name = str(store.meta.get("env") or data.stem)
    kind = actions or store.meta.get("actions")
    if is_env(name):
        observation = store.meta.get("observation", "cloud")
        config = get_config(method, name, frame=simulated_frame(observation, keys))
        return config.changed(
            {
                "task.observation": observation,
                "task.demonstrations": min(len(store), config.task.demonstrations),
                "task.options": dict(store.meta.get("options", {})),
            }
        )
    if kind not in ACTIONS:
        raise ConfigError(
            f"{data} does not say what its actions are (found {kind!r}): add --task.actions displacement if the"
            " first three numbers of an action displace the hand, or absolute if they are places to go to"
        )
    if len(store) < 2:
        raise ConfigError(f"{data} has {len(store)} episode: record at least two, one to learn from and one to check")
    config = get_config(method, name, kind, recorded_frame(store, keys))
    several = sum(count > 1 for count in Counter(store.instructions).values())
    held_out = max(1, round(HELD_OUT * len(store)), several)
    own = {"task.actions": actions, "task.demonstrations": 0, "task.held_out": held_out}
    return config.changed({**own, "training.eval_every": 0})


def simulated_frame(observation: str, keys: Sequence[str]) -> Frame:
    """The finest that a simulator's observations allow: beside a sensor the state is places, alone it is anything."""
    if keys and "state" not in keys:
        return "world"
    return "motion" if observation == "state" else "hand"


def recorded_frame(store: EpisodeStore, keys: Sequence[str]) -> Frame:
    """Without a state there is no motion to tell, and without the hand's place nothing can be seen from it."""
    if "state" not in (keys or store.keys):
        return "world"
    return "hand" if state_places(store.meta, store.rows("state").shape[-1]) else "motion"
