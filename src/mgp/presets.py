"""A method and a task make a configuration: N + M names, not N x M.

The methods are beside their policies (`METHODS`). Here is what a task adds: how many demonstrations, and what of a
method must differ there, with the reason. Absolute or relative actions, colours, length and hold follow from the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mgp.config import TaskConfig
from mgp.data.spec import Actions
from mgp.envs import action_kind, check_env
from mgp.errors import ConfigError, UnknownNameError
from mgp.policies import methods
from mgp.policies.config import RunConfig

DEFAULT_METHOD, DEFAULT_TASK = "mgp-short", "metaworld/assembly"


@dataclass(frozen=True)
class TaskPreset:
    demonstrations: int = 10
    # method: what differs there, by dotted names
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


# by family or by task; what is not here has the defaults of `TaskPreset`
TASKS: dict[str, TaskPreset] = {
    # four presses take 500 steps, and what is between them does not change: half as many looks do
    "buttons": TaskPreset(150, {"mgp-long": {"policy.sampling.execution_horizon": 24}}),
    "sorting": TaskPreset(60),
}
# the presets of mgp 0.1: method and family
OLD_PRESETS = {
    f"{old}-{horizon}": (f"{'paper-' if old.startswith('paper') else ''}mgp-{horizon}", task)
    for old, task in (
        ("metaworld", "metaworld/assembly"),
        ("dynamic", "metaworld-dynamic/push"),
        ("buttons", "buttons/on-off"),
        ("sorting", "sorting/towel"),
        ("paper-metaworld", "metaworld/assembly"),
    )
    for horizon in ("short", "long")
}


def get_config(method: str = DEFAULT_METHOD, task: str = DEFAULT_TASK, actions: Actions | None = None) -> RunConfig:
    """The configuration of a method on a task. `actions`: of one's own recordings; an environment says it itself."""
    known = methods()
    if method not in known:
        raise UnknownNameError("method", method, known)
    name = task if "/" in task or actions is not None else f"metaworld/{task}"
    family = name.partition("/")[0]
    if actions is None:
        check_env(name)
        actions = action_kind(family)
    preset = TASKS.get(name) or TASKS.get(family) or TaskPreset()
    options = {"cloud": "paper"} if method.startswith("paper-") and family.startswith("metaworld") else {}
    config = known[method].config(method, TaskConfig(name, options=options), actions)
    config = config.changed({"task.demonstrations": preset.demonstrations})
    return config.changed(preset.changes.get(method, {}))


def refuse_old_preset(name: str) -> None:
    """`--preset` was the way of mgp 0.1."""
    method, task = OLD_PRESETS.get(name, (DEFAULT_METHOD, DEFAULT_TASK))
    raise ConfigError(
        f"--preset {name}: presets are now a method and a task, e.g. `mgp train --method {method} --task {task}`;"
        " `mgp envs` lists both"
    )
