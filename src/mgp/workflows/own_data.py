"""One's own recordings: what to train is taken from the store itself."""

from __future__ import annotations

from pathlib import Path

from mgp.data.description import ACTIONS
from mgp.data.spec import Actions
from mgp.data.store import EpisodeStore
from mgp.envs import is_env
from mgp.errors import ConfigError
from mgp.policies.config import RunConfig
from mgp.presets import get_config

HELD_OUT = 0.1  # share of the episodes that is kept apart by default, at least one


def config_for_store(data: Path, method: str, actions: Actions | None = None) -> RunConfig:
    """The configuration of a method on the episodes of a store; in a simulator of ours where they stem from one."""
    store = EpisodeStore.open(data)
    name = str(store.meta.get("env") or data.stem)
    kind = actions or store.meta.get("actions")
    if is_env(name):
        config = get_config(method, name)
        return config.changed(
            {
                "task.observation": store.meta.get("observation", "cloud"),
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
    config = get_config(method, name, kind)
    held_out = max(1, round(HELD_OUT * len(store)))
    own = {"task.actions": actions, "task.demonstrations": 0, "task.held_out": held_out}
    return config.changed({**own, "training.eval_every": 0})
