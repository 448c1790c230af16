"""The demonstrations of a task: collected by its expert, or read from a store and refused if they do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mgp.config import TaskConfig
from mgp.data.collect import collect
from mgp.data.demonstrations import Demonstrations
from mgp.data.store import EpisodeStore
from mgp.envs import action_kind, is_env, make_env
from mgp.errors import ConfigError, DataError
from mgp.model.encoders import is_observation


def collect_for(task: TaskConfig, data: Path) -> EpisodeStore:
    """What a run on this task learns from."""
    return collect(task.name, data, task.demonstrations, task.seed, task.observation, task.options)


def load_demonstrations(task: TaskConfig, data: Path) -> Demonstrations:
    """The episodes to learn from, without the held-out ones; refused if they do not fit the task."""
    store = EpisodeStore.open(data)
    meta, wanted = store.meta, task.demonstrations or len(store) - task.held_out
    if meta.get("env", task.name) != task.name and is_env(task.name):
        raise ConfigError(f"{data} holds {meta['env']}, the run wants {task.name}: name the right --data or --task")
    if wanted < 1 or len(store) < wanted + task.held_out:
        remedy = f"extend it with `{_collecting(task, meta, wanted + task.held_out, data)}`, or " * is_env(task.name)
        raise ConfigError(
            f"{data} has {len(store)} episodes, task.demonstrations = {task.demonstrations} and task.held_out ="
            f" {task.held_out} were asked for: {remedy}lower the numbers"
        )
    for name, value in task.options.items():
        if name in meta.get("options", {}) and meta["options"][name] != value:
            raise ConfigError(
                f"{data} was recorded with {name} = {meta['options'][name]!r}, the run wants {value!r}: name another"
                " --data, or leave the option out"
            )
    if is_env(task.name) and task.observation != "state" and task.observation not in store.keys:
        raise DataError(f"{data} has {', '.join(store.keys)}, the run wants observation {task.observation!r}")
    apart = set(kept_apart(task.held_out, store))
    learned = [episode for episode in range(len(store)) if episode not in apart][:wanted]
    demonstrations = Demonstrations.from_store(store, keys=keys_of(task, store), episodes=learned)
    if is_env(task.name) and "actions" not in meta:  # collected by mgp 0.1
        env = make_env(task.name, "state")
        hold = [None if np.isnan(value) else float(value) for value in env.hold_command()]
        demonstrations = demonstrations.saying(actions=action_kind(task.family), hold_action=hold)
    return demonstrations if task.actions is None else demonstrations.saying(actions=task.actions)


def _collecting(task: TaskConfig, meta: Mapping[str, Any], episodes: int, data: Path) -> str:
    """The command that extends a store: recorded with anything else, `mgp collect` would refuse it."""
    seed = meta.get("seed", task.seed)
    words = [f"mgp collect {task.name} --episodes {episodes}", *([f"--seed {seed}"] if seed else [])]
    words.append(f"--observation {meta.get('observation', task.observation)}")
    words += [f"--option {name}={value}" for name, value in meta.get("options", {}).items()]
    return " ".join([*words, f"--output {data}"])


def held_out(task: TaskConfig, data: Path) -> tuple[Demonstrations, list[int]]:
    """All episodes of the store, and which of them were kept apart."""
    store = EpisodeStore.open(data)
    return Demonstrations.from_store(store, keys=keys_of(task, store)), kept_apart(task.held_out, store)


def kept_apart(count: int, store: EpisodeStore) -> list[int]:
    """The last episodes; with instructions the last ones of each in turn, so that none is left unlearned."""
    texts = store.instructions or [""] * len(store)
    groups = {text: [episode for episode, other in enumerate(texts) if other == text] for text in dict.fromkeys(texts)}
    apart: list[int] = []
    while len(apart) < count:
        left = [group for group in groups.values() if len(group) > 1]
        if not left:
            raise ConfigError(
                f"{store.path} has {len(store)} episodes of {len(groups)} instructions, and task.held_out = {count}"
                f" leaves one of them without any to learn from: lower it to {len(store) - len(groups)}"
            )
        apart += [group.pop() for group in left[: count - len(apart)]]
    return sorted(apart)


def keys_of(task: TaskConfig, store: EpisodeStore) -> list[str]:
    """What of a store is learned from: the actions, and the observations asked for, or all that have an encoder."""
    for key in task.keys:
        if key not in store.keys:
            raise DataError(f"{store.path} has no {key!r}, it has {', '.join(store.keys)}: correct task.keys")
    chosen = task.keys or [key for key in store.keys if is_observation(key)]
    if not chosen:
        raise DataError(
            f"{store.path} has {', '.join(store.keys)} and nothing to look at: record state, cloud, rgb or depth"
        )
    return ["action", *chosen]
