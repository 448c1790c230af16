"""A method and a task make a configuration: N + M names, not N x M.

The methods are beside their policies (`METHODS`). Here is what a task adds: how many demonstrations, and what of a
method must differ there, with the reason. Absolute or relative actions, colours, length and hold follow from the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mgp.config import TaskConfig
from mgp.data.spec import Actions
from mgp.envs import action_kind, check_env, is_env
from mgp.errors import ConfigError, UnknownNameError
from mgp.policies import methods
from mgp.policies.config import NO_HAND, RunConfig

DEFAULT_METHOD, DEFAULT_TASK = "mgp-short", "metaworld/assembly"
Frame = Literal["hand", "reach", "motion", "world"]  # of encoder.frame
FRAMES = ("world", "motion", "reach", "hand")  # each needs to know more of the state than the one before


@dataclass(frozen=True)
class TaskPreset:
    demonstrations: int = 10
    # method: what differs there, by dotted names
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


_BY_ORDER = {
    "encoder.frame": "motion",
    "encoder.zoom": (),
    "training.steps": 5000,
    "policy.transformer.time": "both",
    "policy.masking.prefix_dropout": 0.1,
    "policy.masking.stale_plan": 0.0,
    "policy.masking.run": 0.0,
    "policy.masking.foreign_frame": 1.0,
}
# by family or by task; what is not here has the defaults of `TaskPreset`
TASKS: dict[str, TaskPreset] = {
    # Four presses take 500 steps, and what is between them does not change: half as many looks do. And later frames are
    # another demonstration's here: they tell where the arm is; own ones led astray (docs/method.md). That the plate was
    # shifted is seen by the gaze alone.
    "buttons": TaskPreset(150, {"mgp-long": {**_BY_ORDER, "policy.sampling.execution_horizon": 24}}),
    "sorting": TaskPreset(60),
    # of 60, 42 are nudged, each at another step and to another place: 70 are, of these
    "sorting/towel-nudged": TaskPreset(100),
    # As many: 25 of each goal, of which 17 or 18 with an object that is moved. Only the first frame shows the goal.
    "metaworld-memory": TaskPreset(
        100,
        {
            "mgp-long": {"encoder.first": True, "training.steps": 3000, "policy.masking.run": 0.5},
            "mgp-short": {"training.steps": 3000},
        },
    ),
}
# the presets of mgp 0.1: method and family
OLD_PRESETS = {
    "paper-libero-short": ("paper-mgp-libero", DEFAULT_TASK),
} | {
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


def full_name(task: str) -> str:
    """Of a task without a family, Meta-World's is meant."""
    return task if "/" in task else f"metaworld/{task}"


def get_config(
    method: str = DEFAULT_METHOD,
    task: str = DEFAULT_TASK,
    actions: Actions | None = None,
    frame: Frame = "hand",
) -> RunConfig:
    """The configuration of a method on a task. `actions`: of one's own recordings; an environment says it itself.

    `frame`: the finest that the observations allow; "hand" if they tell where the hand is, "world" without a state.
    """
    known = methods()
    if method not in known:
        raise UnknownNameError("method", method, known)
    name = full_name(task) if actions is None else task
    family = name.partition("/")[0]
    if actions is None:
        check_env(name)
        actions = action_kind(family)
    preset = TASKS.get(name) or TASKS.get(family) or TaskPreset()
    options = {"cloud": "paper"} if method.startswith("paper-") and family.startswith("metaworld") else {}
    config = known[method].config(method, TaskConfig(name, options=options), actions)
    if FRAMES.index(config.encoder.frame) > FRAMES.index(frame):
        config = config.changed({**NO_HAND, "encoder.frame": frame if config.encoder.history > 1 else "world"})
    config = config.changed({"task.demonstrations": preset.demonstrations})
    return config.changed(preset.changes.get(method, {}))


def refuse_old_preset(name: str, task: str | None = None) -> None:
    """`--preset` was the way of mgp 0.1; `task` is the one named beside it."""
    method, default = OLD_PRESETS.get(name, (DEFAULT_METHOD, DEFAULT_TASK))
    task = task if task is not None and is_env(full_name(task)) else default
    raise ConfigError(
        f"--preset {name}: presets are now a method and a task, e.g. `mgp train --method {method} --task {task}`;"
        " `mgp envs` lists both"
    )
