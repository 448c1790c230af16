from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

import small
from mgp.config import (
    Config,
    EncoderConfig,
    EnvConfig,
    MaskingConfig,
    SamplingConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)
from mgp.errors import ConfigError, UnknownNameError
from mgp.presets import PRESETS, get_preset

NAN = float("nan")


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json_and_knows_its_name(name):
    config = get_preset(name)
    assert config.preset == name
    back = Config.from_json(config.to_json())
    assert back == config
    assert isinstance(back.encoder.hidden, tuple)
    assert hash(back) == hash(config)


def test_the_presets_that_the_documentation_names_are_there():
    assert {"metaworld-short", "metaworld-long", "paper-metaworld-short", "paper-metaworld-long"} <= PRESETS.keys()


# The paper's appendix, tables "Stage 1" and "Stage 2" of MGP-Short and MGP-Long, and the text around them.
PAPER = {
    "paper-metaworld-short": {
        "policy": "short",
        "env.points": 1024,
        "tokenizer.window": 8,
        "tokenizer.codes": 1024,
        "transformer.block_size": 54,
        "transformer.cross_layers": 2,
        "transformer.dim": 256,
        "encoder.history": 4,
        "sampling.execution_horizon": 5,
        "tokens": 2,
        "past": 3,
    },
    "paper-metaworld-long": {
        "policy": "long",
        "env.points": 1024,
        "env.horizon": 200,
        "tokenizer.window": 128,
        "tokenizer.codes": 1024,
        "transformer.block_size": 54,
        "transformer.cross_layers": 2,
        "transformer.dim": 256,
        "encoder.history": 4,
        "sampling.execution_horizon": 12,
        "sampling.mask_ratio": 0.7,
        "sampling.scoring": "atr",
        "sampling.variant": "long",
        "masking.cut": 0.3,
        "tokens": 50,
    },
    "paper-libero-short": {
        "policy": "short",
        "tokenizer.window": 32,
        "tokenizer.codes": 8192,
        "transformer.block_size": 68,
        "transformer.cross_layers": 6,
        "transformer.dim": 512,
        "encoder.history": 1,
        "sampling.execution_horizon": 8,
        "tokens": 8,
        "past": 0,
    },
}
PAPER_ALL = {
    "tokenizer.actions_per_token": 4,  # two stages of stride 2
    "tokenizer.code_dim": 16,
    "tokenizer.commit_weight": 0.02,
    "tokenizer.reconstruction_weight": 1.0,
    "transformer.self_layers": 2,
    "sampling.refine_steps": 2,
    "sampling.temperature": 1.0,
    "training.weight_decay": 1e-6,
    "training.steps": 150_000,
    "env.demonstrations": 10,
}


@pytest.mark.parametrize(
    ("preset", "name", "value"),
    [(preset, *item) for preset, own in PAPER.items() for item in {**PAPER_ALL, **own}.items()],
)
def test_the_paper_presets_hold_the_papers_figures(preset, name, value):
    found = get_preset(preset)
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


def test_an_unknown_preset_answers_with_the_valid_ones_and_the_nearest():
    with pytest.raises(UnknownNameError) as caught:
        get_preset("metaworld-shrt")
    message = str(caught.value)
    assert "'metaworld-shrt'" in message
    assert "Did you mean 'metaworld-short'?" in message
    assert all(name in message for name in PRESETS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sede": 1}, ["'sede'", "Did you mean 'seed'?", "training"]),
        ({"training": {"stepps": 5}}, ["field of TrainingConfig", "Did you mean 'steps'?"]),
        (
            {"sampling": {"variant": "ful"}},
            ["value of SamplingConfig.variant", "'ful'", "Did you mean 'full'?", "no-sm"],
        ),
        ({"policy": "shrot"}, ["Did you mean 'short'?"]),
    ],
)
def test_unknown_fields_and_values_in_json_are_named(change, words):
    values = json.loads(Config().to_json())
    for key, value in change.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    with pytest.raises(UnknownNameError) as caught:
        Config.from_json(json.dumps(values))
    assert all(word in str(caught.value) for word in words)


BAD = [
    (EnvConfig, {"points": 0}, "EnvConfig.points = 0"),
    (EnvConfig, {"demonstrations": 0}, "demonstrations = 0"),
    (EnvConfig, {"horizon": -3}, "horizon = -3"),
    (EnvConfig, {"seed": -1}, "seed = -1"),
    (EnvConfig, {"observation": "clod"}, "Did you mean 'cloud'"),
    (TokenizerConfig, {"window": 0}, "window = 0"),
    (TokenizerConfig, {"window": 10}, "window = 10 is no multiple of actions_per_token = 4: choose 8"),
    (TokenizerConfig, {"window": 2}, "choose 4"),
    (TokenizerConfig, {"actions_per_token": 3}, "choose 2, 4 or 8"),
    (TokenizerConfig, {"codes": 0}, "codes = 0"),
    (TokenizerConfig, {"code_dim": 0}, "code_dim = 0"),
    (TokenizerConfig, {"width": 0}, "width = 0"),
    (TokenizerConfig, {"dilation_growth": 0}, "dilation_growth = 0"),
    (TokenizerConfig, {"residual_blocks": -1}, "residual_blocks = -1"),
    (TokenizerConfig, {"commit_weight": -0.1}, "commit_weight = -0.1"),
    (TokenizerConfig, {"reset_after": 0}, "reset_after = 0"),
    (TokenizerConfig, {"ema_decay": 1.5}, r"ema_decay = 1.5: must lie in \[0, 1\]"),
    (TokenizerConfig, {"learning_rate": NAN}, "learning_rate = nan"),
    (EncoderConfig, {"history": 0}, "history = 0"),
    (EncoderConfig, {"stride": 0}, "stride = 0"),
    (EncoderConfig, {"hidden": ()}, "hidden is empty"),
    (EncoderConfig, {"frame": "hnd"}, "Did you mean 'hand'"),
    (TransformerConfig, {"dim": 30, "heads": 4}, "dim = 30 is no multiple of heads = 4"),
    (TransformerConfig, {"dropout": 1.1}, "dropout = 1.1"),
    (TransformerConfig, {"head": "x"}, "Valid: codebook, linear"),
    (TransformerConfig, {"time": "relativ"}, "Did you mean 'relative'"),
    (TransformerConfig, {"block_size": 0}, "block_size = 0"),
    (TransformerConfig, {"self_layers": -1}, "self_layers = -1"),
    (MaskingConfig, {"perturb": 2.0}, "perturb = 2.0"),
    (MaskingConfig, {"cut": -0.1}, "cut = -0.1"),
    (MaskingConfig, {"prefix_dropout": NAN}, "prefix_dropout = nan"),
    (MaskingConfig, {"soft_labels": -1.0}, "soft_labels = -1.0"),
    (MaskingConfig, {"schedule": "cos"}, "Did you mean 'cosine'"),
    (SamplingConfig, {"temperature": -0.5}, r"temperature = -0.5: must be 0 \(argmax\) or above"),
    (SamplingConfig, {"temperature": NAN}, "temperature = nan"),
    (SamplingConfig, {"refine_steps": 0}, "refine_steps = 0"),
    (SamplingConfig, {"execution_horizon": 0}, "execution_horizon = 0"),
    (SamplingConfig, {"mask_ratio": 1.7}, "mask_ratio = 1.7"),
    (SamplingConfig, {"scoring": "randm"}, "Did you mean 'random'"),
    (SamplingConfig, {"variant": "nosm"}, "Did you mean 'no-sm'"),
    (TrainingConfig, {"steps": 0}, "steps = 0"),
    (TrainingConfig, {"batch": 0}, "batch = 0"),
    (TrainingConfig, {"gradient_clip": 0.0}, "gradient_clip = 0.0"),
    (TrainingConfig, {"cloud_noise": -1.0}, "cloud_noise = -1.0"),
    (TrainingConfig, {"rotation": -1.0}, "rotation = -1.0"),
    (TrainingConfig, {"stretch": 1.5}, "stretch = 1.5"),
    (TrainingConfig, {"ema_decay": 2.0}, "ema_decay = 2.0"),
    (TrainingConfig, {"precision": "fp16"}, "Valid: bf16, fp32"),
    (TrainingConfig, {"checkpoint_every": 0}, "checkpoint_every = 0"),
    (Config, {"policy": "medium"}, "Valid: long, short"),
    (Config, {"encoder": EncoderConfig(motion=True)}, "tells motion already"),
]


@pytest.mark.parametrize(
    ("kind", "values", "message"), BAD, ids=[f"{k.__name__}-{next(iter(v.items()))}" for k, v, _ in BAD]
)
def test_a_setting_that_cannot_work_is_refused_with_its_value(kind, values, message):
    with pytest.raises(ConfigError, match=message):
        kind(**values)


@pytest.mark.parametrize(
    ("policy", "changes", "message"),
    [
        ("long", {"env.horizon": 400}, r"100 tokens do not fit transformer.block_size = 8.*env.horizon = 400"),
        ("short", {"sampling.execution_horizon": 8}, "execution_horizon = 8 exceeds the 7 actions left of window = 8"),
        ("short", {"encoder.history": 4, "encoder.stride": 2}, "after 6 past ones"),
        ("long", {"sampling.execution_horizon": 6}, "execution_horizon = 6 is no multiple of actions_per_token = 4"),
        ("short", {"encoder.frame": "hand"}, "choose encoder.frame = 'world'"),
        ("short", {"encoder.motion": True, "encoder.history": 1}, r"encoder.motion = True and encoder.history = 1: .*"),
        ("short", {"training.rotation": 10.0}, r"training.rotation = 10.0.*choose encoder.frame = 'hand'"),
    ],
)
def test_settings_that_cannot_work_together_are_refused_with_both(policy, changes, message):
    with pytest.raises(ConfigError, match=message):
        small.tiny(policy, "state", **changes)


def test_tokens_and_past_of_a_plan():
    assert small.tiny("long").tokens == 6
    assert small.tiny("long", **{"env.horizon": 25}).tokens == 7, "the last token may hang over"
    assert small.tiny("long", **{"encoder.history": 4}).past == 0
    assert small.tiny("short", **{"encoder.history": 2, "encoder.stride": 3}).past == 3


def test_configurations_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 3  # type: ignore[misc]


def test_an_unknown_name_survives_the_way_between_processes():
    error = UnknownNameError("preset", "x", ["y", "z"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
