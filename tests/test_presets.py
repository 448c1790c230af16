"""Methods and tasks: N + M names, any of one with any of the other."""

from __future__ import annotations

import pytest

from mgp.envs import FAMILIES, action_kind, env_names
from mgp.errors import ConfigError, UnknownNameError
from mgp.policies import POLICIES, methods, policy_class
from mgp.policies.config import RunConfig
from mgp.presets import DEFAULT_METHOD, DEFAULT_TASK, OLD_PRESETS, TASKS, get_config, refuse_old_preset

METHODS = sorted(methods())
TASK_OF = {name.partition("/")[0]: name for name in reversed(env_names())}  # the first of each family


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_composes_with_every_family(method, family):
    config = get_config(method, TASK_OF[family])
    assert (config.method, config.task.name) == (method, TASK_OF[family])
    policy = policy_class(config.policy.name)
    assert isinstance(config.policy, policy.Config)
    assert config.task.demonstrations > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("actions", ["displacement", "absolute"])
def test_every_method_composes_with_recordings_of_ones_own(method, actions):
    config = get_config(method, "mine/task", actions)
    assert config.task.name == "mine/task"
    environment = "sorting/towel" if actions == "absolute" else "metaworld/assembly"
    like = get_config(method, environment)
    assert (config.encoder, config.augmentation) == (like.encoder, like.augmentation)


def test_a_name_is_a_method_or_a_task_and_never_both():
    """N + M: no method names a family, and what a task changes is by method, not a name of its own."""
    assert not [name for name in METHODS for family in FAMILIES if family in name]
    for name, preset in TASKS.items():
        assert name in FAMILIES or name in env_names()
        assert set(preset.changes) <= set(METHODS)
    owned = [name for module in POLICIES for name in METHODS if methods()[name].policy.name == module]
    assert sorted(owned) == METHODS, "each method belongs to one policy"


@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("paper-")])
def test_absolute_actions_get_the_frame_of_places_and_no_warps(method):
    kinds = {family: action_kind(family) for family in FAMILIES}
    assert {"absolute", "displacement"} == set(kinds.values())
    for family, kind in kinds.items():
        config = get_config(method, TASK_OF[family])
        places = "reach" if config.encoder.history > 1 else "world"  # one frame does not tell motion
        places = "motion" if (family, method) == ("buttons", "mgp-long") else places
        assert config.encoder.frame == (places if kind == "absolute" else "hand")
        assert config.augmentation.warps is (kind == "displacement")


@pytest.mark.parametrize("method", METHODS)
def test_a_configuration_survives_json(method):
    for task in TASK_OF.values():
        config = get_config(method, task)
        back = RunConfig.from_json(config.to_json())
        assert back == config
        assert type(back.policy) is type(config.policy)
        assert isinstance(back.encoder.hidden, tuple)


def test_a_bare_task_is_one_of_meta_world():
    assert get_config(task="push") == get_config(task="metaworld/push")
    assert get_config() == get_config(DEFAULT_METHOD, DEFAULT_TASK)


@pytest.mark.parametrize(
    ("method", "task", "words"),
    [
        ("mgp-shrt", "assembly", ["unknown method 'mgp-shrt'", "Did you mean 'mgp-short'?", *METHODS]),
        ("mgp-long", "metawrld/push", ["unknown environment family 'metawrld'", "Did you mean 'metaworld'?"]),
        ("mgp-long", "asembly", ["unknown metaworld task 'asembly'", "Did you mean 'assembly'?"]),
        ("mgp-long", "buttons/onoff", ["unknown buttons task 'onoff'", "Did you mean 'on-off'?"]),
        ("metaworld-long", "push", ["unknown method 'metaworld-long'"]),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(method, task, words):
    with pytest.raises(UnknownNameError) as caught:
        get_config(method, task)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("name", OLD_PRESETS)
def test_an_old_preset_is_answered_with_its_method_and_task(name):
    with pytest.raises(ConfigError) as caught:
        refuse_old_preset(name)
    method, task = OLD_PRESETS[name]
    assert f"`mgp train --method {method} --task {task}`" in str(caught.value)
    assert get_config(method, task).task.name == task, "what is named works"


def test_every_old_preset_is_known():
    families = ("metaworld", "dynamic", "buttons", "sorting", "paper-metaworld")
    pairs = {f"{family}-{horizon}" for family in families for horizon in ("short", "long")}
    assert set(OLD_PRESETS) == pairs | {"paper-libero-short"}
    assert OLD_PRESETS["paper-libero-short"][0] == "paper-mgp-libero"
    assert OLD_PRESETS["metaworld-long"] == ("mgp-long", "metaworld/assembly")
    assert OLD_PRESETS["paper-metaworld-short"] == ("paper-mgp-short", "metaworld/assembly")
