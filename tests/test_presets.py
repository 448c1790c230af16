"""Methods and tasks: N + M names, any of one with any of the other."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mgp.config import AugmentationConfig, EncoderConfig, TrainingConfig
from mgp.envs import FAMILIES, action_kind, env_names
from mgp.errors import ConfigError, UnknownNameError
from mgp.policies import POLICIES, methods, policy_class
from mgp.policies.config import PolicyConfig, RunConfig
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
    environment = "buttons/on-off" if actions == "absolute" else "metaworld/assembly"
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
def test_absolute_actions_get_the_frame_with_motion_and_no_warps(method):
    kinds = {family: action_kind(family) for family in FAMILIES}
    assert {"absolute", "displacement"} == set(kinds.values())
    for family, kind in kinds.items():
        config = get_config(method, TASK_OF[family])
        assert config.encoder.frame == ("motion" if kind == "absolute" else "hand")
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
    assert set(OLD_PRESETS) == {f"{family}-{horizon}" for family in families for horizon in ("short", "long")}
    assert OLD_PRESETS["metaworld-long"] == ("mgp-long", "metaworld/assembly")
    assert OLD_PRESETS["paper-metaworld-short"] == ("paper-mgp-short", "metaworld/assembly")


# --- the paper ------------------------------------------------------------------------------------------------------

# Appendix, tables "Stage 1" and "Stage 2" of MGP-Short and MGP-Long, and the text around them.
PAPER = {
    "paper-mgp-short": {
        "policy.horizon": "short",
        "policy.tokenizer.window": 8,
        "policy.tokenizer.codes": 1024,
        "policy.transformer.cross_layers": 2,
        "policy.transformer.dim": 256,
        "encoder.history": 4,
        "policy.sampling.execution_horizon": 5,
    },
    "paper-mgp-long": {
        "policy.horizon": "long",
        "policy.tokenizer.window": 128,
        "policy.tokenizer.codes": 1024,
        "policy.transformer.cross_layers": 2,
        "policy.transformer.dim": 256,
        "encoder.history": 4,
        "policy.sampling.execution_horizon": 12,
        "policy.sampling.mask_ratio": 0.7,
        "policy.sampling.scoring": "atr",
        "policy.sampling.variant": "long",
    },
    "paper-mgp-libero": {
        "policy.horizon": "short",
        "policy.tokenizer.window": 32,
        "policy.tokenizer.codes": 8192,
        "policy.transformer.cross_layers": 6,
        "policy.transformer.dim": 512,
        "encoder.history": 1,
        "policy.sampling.execution_horizon": 8,
    },
}
PAPER_ALL = {
    "policy.tokenizer.actions_per_token": 4,  # two stages of stride 2
    "policy.tokenizer.code_dim": 16,
    "policy.tokenizer.commit_weight": 0.02,
    "policy.transformer.self_layers": 2,
    "policy.sampling.refine_steps": 2,
    "policy.sampling.temperature": 1.0,
    "training.weight_decay": 1e-6,
    "training.steps": 150_000,
    "task.demonstrations": 10,
    "task.options": {"cloud": "paper"},
}
# Everything of ours that the paper does not have, switched off (docs/method.md lists what each bought).
OFF = {
    "encoder.first": False,
    "encoder.frame": "world",
    "encoder.zoom": (),
    "augmentation.points": 0,
    "augmentation.cloud_noise": 0.0,
    "augmentation.state_noise": 0.0,
    "augmentation.warps": False,
    "augmentation.rotation": 0.0,
    "augmentation.stretch": 0.0,
    "training.segment": 1,
    "training.early": 1.0,
    "training.auxiliary": 0.0,
    "training.precision": "fp32",
    "policy.tokenizer.linear_path": False,
    "policy.transformer.local": 0,
    "policy.transformer.time": "absolute",
    "policy.masking.soft_labels": 0.0,
    "policy.masking.prefix_dropout": 0.0,
    "policy.masking.foreign_prefix": 0.0,
    "policy.masking.foreign_plan": 0.0,
    "policy.masking.foreign_frame": 0.0,
    "policy.masking.near_weight": 1.0,
    "policy.masking.prefix_weight": 1.0,
    "policy.sampling.near_codes": 0.0,
    "policy.sampling.see_pending": False,
}
# fields with nothing of ours in them: sizes, numbers of steps, what is in the paper too, or how a run is kept
NEUTRAL = {
    "encoder.history", "encoder.hidden", "encoder.dim",
    "augmentation.warp",
    "training.steps", "training.batch", "training.learning_rate", "training.warmup", "training.weight_decay",
    "training.ema_decay", "training.eval_every", "training.eval_episodes", "training.checkpoint_every",
    "policy.horizon",
    "policy.tokenizer.window", "policy.tokenizer.actions_per_token", "policy.tokenizer.codes",
    "policy.tokenizer.code_dim", "policy.tokenizer.width", "policy.tokenizer.commit_weight",
    "policy.tokenizer.ema_decay", "policy.tokenizer.reset_after", "policy.tokenizer.steps", "policy.tokenizer.batch",
    "policy.tokenizer.learning_rate",
    "policy.transformer.dim", "policy.transformer.heads", "policy.transformer.cross_layers",
    "policy.transformer.self_layers",
    "policy.masking.perturb", "policy.masking.end", "policy.masking.start",
    "policy.sampling.execution_horizon", "policy.sampling.temperature", "policy.sampling.refine_steps",
    "policy.sampling.mask_ratio", "policy.sampling.scoring", "policy.sampling.variant",
}  # fmt: skip
PAPER_METHODS = [name for name in METHODS if name.startswith("paper-")]


def found(config: RunConfig, name: str) -> object:
    value: object = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_the_papers_methods_are_there():
    assert sorted(PAPER) == PAPER_METHODS


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [(method, *item) for method, own in PAPER.items() for item in {**PAPER_ALL, **own}.items()],
)
def test_the_papers_methods_hold_the_papers_figures(method, name, value):
    assert found(get_config(method, "assembly"), name) == value


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_deviation_is_off_in_the_papers_methods_wherever_they_run(method, family):
    config = get_config(method, TASK_OF[family])
    assert {name: found(config, name) for name in OFF} == OFF


def names(part: object, prefix: str) -> set[str]:
    out: set[str] = set()
    for one in fields(part):  # type: ignore[arg-type]
        value, name = getattr(part, one.name), f"{prefix}.{one.name}"
        out |= names(value, name) if hasattr(value, "__dataclass_fields__") else {name}
    return out


@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_setting_is_known_to_be_the_papers_or_ours(method):
    """A new field must be put into OFF or NEUTRAL: nobody adds a deviation to the paper's methods unawares."""
    config = get_config(method, "assembly")
    parts: dict[str, EncoderConfig | AugmentationConfig | TrainingConfig | PolicyConfig] = {
        "encoder": config.encoder,
        "augmentation": config.augmentation,
        "training": config.training,
        "policy": config.policy,
    }
    known = {name for prefix, part in parts.items() for name in names(part, prefix)}
    assert known - set(OFF) - NEUTRAL == set()
