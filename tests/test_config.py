from __future__ import annotations

import dataclasses
import json
import pickle

import pytest

import small
from mgp.config import AugmentationConfig, EncoderConfig, Sampling, TaskConfig, TrainingConfig, changed, digest, flat
from mgp.errors import ConfigError, UnknownNameError
from mgp.model.transformer import TransformerConfig
from mgp.policies.bc import BCConfig
from mgp.policies.config import RunConfig
from mgp.policies.mgp.config import MGPConfig
from mgp.sampling.config import SamplingConfig
from mgp.sampling.corruption import MaskingConfig
from mgp.tokenizer.vqvae import TokenizerConfig

NAN = float("nan")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sede": 1}, ["'sede'", "Did you mean 'seed'?", "training"]),
        ({"training": {"stepps": 5}}, ["field of TrainingConfig", "Did you mean 'steps'?"]),
        ({"policy": {"tokeniser": {}}}, ["field of MGPConfig", "Did you mean 'tokenizer'?"]),
        (
            {"policy": {"sampling": {"variant": "ful"}}},
            ["value of SamplingConfig.variant", "'ful'", "Did you mean 'full'?", "no-sm"],
        ),
        ({"policy": {"name": "mpg"}}, ["unknown policy 'mpg'", "Did you mean 'mgp'?"]),
        ({"policy": {"horizon": "shrot"}}, ["Did you mean 'short'?"]),
    ],
)
def test_unknown_fields_and_values_in_json_are_named(change, words):
    values = json.loads(small.tiny().to_json())
    for key, value in change.items():
        values[key] = {**values[key], **value} if isinstance(value, dict) else value
    with pytest.raises(UnknownNameError) as caught:
        RunConfig.from_json(json.dumps(values))
    assert all(word in str(caught.value) for word in words)


BAD = [
    (TaskConfig, {"demonstrations": -1}, "demonstrations = -1"),
    (TaskConfig, {"held_out": -1}, "held_out = -1"),
    (TaskConfig, {"seed": -1}, "seed = -1"),
    (TaskConfig, {"observation": "clod"}, "Did you mean 'cloud'"),
    (TokenizerConfig, {"window": 0}, "window = 0"),
    (TokenizerConfig, {"window": 10}, "window = 10 is no multiple of actions_per_token = 4: choose 8"),
    (TokenizerConfig, {"window": 2}, "choose 4"),
    (TokenizerConfig, {"actions_per_token": 3}, "choose 2, 4 or 8"),
    (TokenizerConfig, {"codes": 0}, "codes = 0"),
    (TokenizerConfig, {"code_dim": 0}, "code_dim = 0"),
    (TokenizerConfig, {"width": 0}, "width = 0"),
    (TokenizerConfig, {"commit_weight": -0.1}, "commit_weight = -0.1"),
    (TokenizerConfig, {"reset_after": 0}, "reset_after = 0"),
    (TokenizerConfig, {"ema_decay": 1.5}, r"ema_decay = 1.5: must lie in \[0, 1\]"),
    (TokenizerConfig, {"learning_rate": NAN}, "learning_rate = nan"),
    (EncoderConfig, {"history": 0}, "history = 0"),
    (EncoderConfig, {"dim": 0}, "dim = 0"),
    (EncoderConfig, {"hidden": ()}, "hidden is empty"),
    (EncoderConfig, {"frame": "hnd"}, "Did you mean 'hand'"),
    (EncoderConfig, {"frame": "motion", "history": 1}, "one frame does not tell motion; raise encoder.history to 2"),
    (TransformerConfig, {"dim": 30, "heads": 4}, "dim = 30 is no multiple of heads = 4"),
    (TransformerConfig, {"time": "relativ"}, "Did you mean 'relative'"),
    (TransformerConfig, {"self_layers": -1}, "self_layers = -1"),
    (MaskingConfig, {"perturb": 2.0}, "perturb = 2.0"),
    (MaskingConfig, {"start": -0.1}, "start = -0.1"),
    (MaskingConfig, {"prefix_dropout": NAN}, "prefix_dropout = nan"),
    (MaskingConfig, {"soft_labels": -1.0}, "soft_labels = -1.0"),
    (Sampling, {"execution_horizon": 0}, "execution_horizon = 0"),
    (SamplingConfig, {"temperature": -0.5}, r"temperature = -0.5: must be 0 \(argmax\) or above"),
    (SamplingConfig, {"temperature": NAN}, "temperature = nan"),
    (SamplingConfig, {"refine_steps": 0}, "refine_steps = 0"),
    (SamplingConfig, {"execution_horizon": 0}, "execution_horizon = 0"),
    (SamplingConfig, {"mask_ratio": 1.7}, "mask_ratio = 1.7"),
    (SamplingConfig, {"scoring": "randm"}, "Did you mean 'random'"),
    (SamplingConfig, {"variant": "nosm"}, "Did you mean 'no-sm'"),
    (AugmentationConfig, {"cloud_noise": -1.0}, "cloud_noise = -1.0"),
    (AugmentationConfig, {"rotation": -1.0}, "rotation = -1.0"),
    (AugmentationConfig, {"stretch": 1.5}, "stretch = 1.5"),
    (TrainingConfig, {"steps": 0}, "steps = 0"),
    (TrainingConfig, {"batch": 0}, "batch = 0"),
    (TrainingConfig, {"ema_decay": 2.0}, "ema_decay = 2.0"),
    (TrainingConfig, {"precision": "fp16"}, "bf16, fp32"),
    (TrainingConfig, {"checkpoint_every": 0}, "checkpoint_every = 0"),
    (BCConfig, {"chunk": 0}, "chunk = 0"),
    (MGPConfig, {"horizon": "medium"}, "Valid: long, short"),
]


@pytest.mark.parametrize(
    ("kind", "values", "message"), BAD, ids=[f"{k.__name__}-{next(iter(v.items()))}" for k, v, _ in BAD]
)
def test_a_setting_that_cannot_work_is_refused_with_its_value(kind, values, message):
    with pytest.raises(ConfigError, match=message):
        kind(**values)


@pytest.mark.parametrize(
    ("horizon", "changes", "message"),
    [
        (
            "short",
            {"policy.sampling.execution_horizon": 8},
            "execution_horizon = 8 exceeds the 7 actions left of a wind",
        ),
        ("short", {"encoder.history": 7, "policy.sampling.execution_horizon": 5}, "of 8 after 6 past ones"),
        ("long", {"policy.sampling.execution_horizon": 6}, "execution_horizon = 6 is no multiple of actions_per_token"),
        (
            "long",
            {"policy.sampling.execution_horizon": 12, "policy.sampling.edit_window": 2},
            "edit_window = 2 is 8 steps, but execution_horizon = 12 of them are run before the next look: set it to 3",
        ),
        ("short", {"encoder.frame": "hand"}, "choose encoder.frame = 'motion' or 'world'"),
        ("short", {"augmentation.rotation": 10.0}, r"augmentation.rotation = 10.0.*choose encoder.frame = 'hand'"),
    ],
)
def test_settings_that_cannot_work_together_are_refused_with_both(horizon, changes, message):
    """Some meet in the configuration, others only in a policy that knows its data."""
    with pytest.raises(ConfigError, match=message):
        small.untrained(small.tiny(horizon, "state", **changes))


def test_tokens_and_past_of_a_plan():
    assert small.policy(small.tiny("long")).tokens == 6
    later = small.demonstrations().saying(horizon=25)
    assert small.policy(small.tiny("long"), later).tokens == 7, "the last token may hang over"
    assert small.policy(small.tiny("long", **{"encoder.history": 4})).past == 0
    assert small.policy(small.tiny("short", **{"encoder.history": 4})).past == 3


def test_changes_by_dotted_names_are_made_at_once():
    config = small.tiny("long")
    # either alone would be refused: 6 is no multiple of 4
    both = {"policy.sampling.execution_horizon": 6, "policy.tokenizer.actions_per_token": 2}
    other = config.changed({**both, "seed": 3, "task.name": "mine/x"})
    assert (other.policy.sampling.execution_horizon, other.seed, other.task.name) == (6, 3, "mine/x")
    assert other.policy.masking == config.policy.masking
    assert config == small.tiny("long"), "nothing is changed in place"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sede", ["unknown field of RunConfig 'sede'", "Did you mean 'seed'"]),
        ("training.stepz", ["unknown field of TrainingConfig 'stepz'", "Did you mean 'steps'"]),
        ("policy.masking.strat", ["unknown field of MaskingConfig 'strat'", "Did you mean 'start'"]),
    ],
)
def test_a_change_of_an_unknown_field_is_refused(name, words):
    with pytest.raises(UnknownNameError) as caught:
        changed(small.tiny(), {name: 1})
    assert all(word in str(caught.value) for word in words)


def test_sampling_is_changed_by_name_alone():
    assert SamplingConfig().changed(variant="full").variant == "full"
    with pytest.raises(UnknownNameError, match=r"unknown sampling option 'tempratur'. Did you mean 'temperature'"):
        SamplingConfig().changed(tempratur=1.0)
    with pytest.raises(UnknownNameError, match="unknown sampling option 'temperature'"):
        Sampling().changed(temperature=1.0)


def test_digests_tell_configurations_apart():
    assert digest(small.tiny()) == digest(small.tiny()) != digest(small.tiny(seed=1))
    assert flat({"a": {"b": 1, "c": {"d": 2}}, "e": 3}) == {"a.b": 1, "a.c.d": 2, "e": 3}


def test_configurations_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().seed = 3  # type: ignore[misc]


def test_an_unknown_name_survives_the_way_between_processes():
    error = UnknownNameError("preset", "x", ["y", "z"])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
