"""The `paper-*` methods hold the figures of MGP's paper and of the baselines' releases, and nothing of ours."""

from __future__ import annotations

from dataclasses import fields

import pytest

from mgp.config import AugmentationConfig, EncoderConfig, TrainingConfig
from mgp.envs import FAMILIES, env_names
from mgp.policies import methods
from mgp.policies.config import PolicyConfig, RunConfig
from mgp.presets import get_config

TASK_OF = {name.partition("/")[0]: name for name in reversed(env_names())}  # the first of each family
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
    "encoder.causal": False,
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
    "policy.masking.stale_plan": 0.0,
    "policy.masking.run": 0.0,
    "policy.masking.near_weight": 1.0,
    "policy.masking.prefix_weight": 1.0,
    "policy.offset": 0.0,
    "policy.gaze": 0,
    "policy.sampling.score": "posterior",
    "policy.sampling.edit_window": 0,
    "policy.sampling.near_codes": 0.0,
    "policy.sampling.replan": 0.0,
    "policy.sampling.see_pending": False,
}
# fields with nothing of ours in them: sizes, numbers of steps, what is in the paper too, or how a run is kept
NEUTRAL = {
    "encoder.history", "encoder.hidden", "encoder.dim",
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
    "policy.sampling.window",  # of a score that is off
}  # fmt: skip

_CLOUDS = {"encoder.hidden": (64, 128, 256), "encoder.dim": 64, "task.options": {"cloud": "paper"}}  # of DP3
_DP3 = {
    **_CLOUDS,
    "encoder.history": 2,
    "policy.horizon": 16,  # of 4/4, 4/3 and 16/8, as it changed over time, this one is run
    "policy.sampling.execution_horizon": 8,
    "policy.unet.widths": (512, 1024, 2048),
    "policy.unet.blocks": 2,
    "policy.unet.kernel": 5,
    "policy.unet.groups": 8,
    "policy.unet.step_dim": 128,
    "training.batch": 128,
    "training.learning_rate": 1e-4,
    "training.weight_decay": 1e-6,
    "training.warmup": 500,
    "training.ema_decay": 0.9999,
}
_DDIM = {
    **_DP3,
    "policy.scheduler": "ddim",
    "policy.prediction": "sample",
    "policy.train_steps": 100,
    "policy.sampling.steps": 10,
}
# Of what each release sets (the files of the policies say what differs from it), that which a user would look for
RELEASED = {
    "paper-dp3": _DDIM,
    "paper-simple-dp3": {**_DDIM, "policy.unet.widths": (128, 256, 384), "policy.unet.blocks": 1},
    "paper-dp3-full": {**_DDIM, "encoder.history": 1},
    "paper-dp": {
        **_DP3,
        "policy.scheduler": "ddpm",
        "policy.prediction": "epsilon",
        "policy.train_steps": 100,
        "policy.sampling.steps": 100,
    },
    "paper-consistency-policy": {
        **_DP3,
        "policy.unet.dropout": 0.2,
        "policy.least": 0.02,
        "policy.most": 80.0,
        "policy.rho": 7.0,
        "policy.bins": 80,
        "policy.sampling.steps": 1,
    },
    "paper-flow-policy": {
        **_DP3,
        "policy.earliest": 0.01,
        "policy.apart": 0.01,
        "policy.segments": 2,
        "policy.velocity": 1e-5,
        "policy.sampling.steps": 1,
    },
    "paper-mp1": {**_DP3, "policy.instantaneous": 0.5, "policy.guidance": 2.0, "policy.dispersive": 0.5},
    "paper-mip": {**_DP3, "policy.second": 0.9},
    "paper-quest": {
        **_CLOUDS,
        "policy.chunk": 32,
        "policy.autoencoder.kernels": (5, 3, 3),
        "policy.autoencoder.strides": (2, 2, 1),
        "policy.autoencoder.levels": (8, 5, 5, 5),
        "policy.autoencoder.encoder_layers": 2,
        "policy.autoencoder.decoder_layers": 4,
        "policy.autoencoder.dim": 256,
        "policy.prior.layers": 6,
        "policy.prior.heads": 6,
        "policy.prior.dim": 384,
        "policy.sampling.top": 5,
        "policy.sampling.temperature": 1.0,
        "policy.sampling.execution_horizon": 8,
    },
    "paper-vqbet": {
        **_CLOUDS,
        "policy.tokenizer.hidden": 128,
        "policy.tokenizer.latent": 512,
        "policy.tokenizer.quantizers": 2,
        "policy.tokenizer.codes": 16,
        "policy.tokenizer.weight": 5.0,
        "policy.tokenizer.learning_rate": 1e-3,
        "policy.gpt.layers": 6,
        "policy.gpt.heads": 6,
        "policy.gpt.dim": 120,
        "policy.offset": 100.0,
        "training.learning_rate": 5.5e-5,
    },
    "paper-prise": {**_CLOUDS, "policy.codes": 10, "policy.vocabulary": 200, "policy.longest": 20},
    "paper-act": {
        **_CLOUDS,
        "policy.latent": 32,
        "policy.encoder_layers": 4,
        "policy.decoder_layers": 1,  # the only one of the release's that it uses
        "policy.dim": 512,
        "policy.feedforward": 3200,
        "policy.heads": 8,
        "policy.chunk": 100,
        "policy.kl": 10.0,
        "policy.sampling.ensemble": True,
        "policy.sampling.decay": 0.01,
        "training.learning_rate": 1e-5,
    },
    "paper-resnet-t": {
        **_CLOUDS,
        "encoder.history": 10,
        "policy.gpt.layers": 4,
        "policy.gpt.heads": 6,
        "policy.modes": 5,
    },
}
PAPER_METHODS = [name for name in sorted(methods()) if name.startswith("paper-")]
SHARED = {name: value for name, value in OFF.items() if not name.startswith("policy.")}  # which every policy has


def found(config: RunConfig, name: str) -> object:
    value: object = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_every_papers_method_has_its_table():
    assert sorted([*PAPER, *RELEASED]) == PAPER_METHODS


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [(method, *item) for method, own in PAPER.items() for item in {**PAPER_ALL, **own}.items()],
)
def test_the_papers_methods_hold_the_papers_figures(method, name, value):
    assert found(get_config(method, "assembly"), name) == value


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", PAPER_METHODS)
def test_every_deviation_is_off_in_the_papers_methods_wherever_they_run(method, family):
    """Of a baseline what it shares with MGP: frame, augmentation and training; its own settings are in RELEASED."""
    config, off = get_config(method, TASK_OF[family]), OFF if method in PAPER else SHARED
    assert {name: found(config, name) for name in off} == off


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
    }
    if method in PAPER:
        parts["policy"] = config.policy
    known = {name for prefix, part in parts.items() for name in names(part, prefix)}
    assert known - set(OFF) - NEUTRAL == set()


@pytest.mark.parametrize("method", RELEASED)
def test_the_baselines_methods_hold_the_released_settings(method):
    config = get_config(method, "assembly")
    assert {name: found(config, name) for name in RELEASED[method]} == RELEASED[method]
