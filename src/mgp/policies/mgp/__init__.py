"""Masked Generative Policy, and its recipes.

`mgp-short` and `mgp-long` are what measured best on two CPU cores; docs/method.md lists each deviation from the paper
with what it bought. `paper-mgp-*` hold the paper's tables of hyper-parameters.
"""

from __future__ import annotations

from dataclasses import replace

from mgp.config import AugmentationConfig, EncoderConfig, TrainingConfig
from mgp.model.transformer import TransformerConfig
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method
from mgp.policies.mgp.config import MGPConfig
from mgp.policies.mgp.policy import MGP
from mgp.sampling.config import SamplingConfig
from mgp.sampling.corruption import MaskingConfig
from mgp.tokenizer.vqvae import TokenizerConfig

POLICY = MGP

# Places fill a codebook more thinly than displacements do: codes drawn within 64 would be guesses 16 cm off (buttons).
# The offset head learns not to read these, and what it sees then overrules what the plan remembers.
_PLACES = {
    **ABSOLUTE,
    "policy.offset": 4.0,
    "policy.tokenizer.steps": 6000,
    "training.early": 1.0,
    "training.steps": 3000,
    "policy.transformer.local": 2,
    "policy.masking.soft_labels": 2.0,
}
_SHORT = Method(
    MGPConfig(offset=64.0),
    ENCODER,
    AUGMENTATION,
    TrainingConfig(early=2.0, auxiliary=5.0),
    absolute={**_PLACES, "policy.tokenizer.window": 16, "policy.sampling.execution_horizon": 12},
)
_LONG = replace(
    _SHORT,
    policy=MGPConfig(
        horizon="long",
        tokenizer=TokenizerConfig(window=128, batch=16),
        masking=MaskingConfig(foreign_prefix=0.5, foreign_plan=0.3, near_weight=20.0),
        sampling=SamplingConfig(execution_horizon=4, near_codes=8.0),
        offset=64.0,
    ),
    training=replace(_SHORT.training, batch=32),
    # What was done and seen before is the point: Long keeps the first frame in view, no prefix is ever another
    # demonstration's, and pending tokens are scored with the plan in view, since a plan may hold what no later frame
    # shows. But half of the plans in view are ones that a shift has left behind, and where things are now is looked at
    # ahead of time.
    absolute={
        **_PLACES,
        "encoder.first": True,
        "policy.gaze": 1500,
        "policy.masking.end": False,
        "policy.masking.start": 0.2,
        "policy.masking.foreign_prefix": 0.0,
        "policy.masking.foreign_plan": 0.0,
        "policy.masking.stale_plan": 0.5,
        "policy.masking.run": 0.5,
        "policy.masking.near_weight": 5.0,
        "policy.sampling.execution_horizon": 12,
        "policy.sampling.refine_steps": 8,
        "policy.sampling.see_pending": True,
    },
)
_PAPER = MGPConfig(
    tokenizer=TokenizerConfig(width=16, linear_path=False, steps=30_000, learning_rate=2e-4),
    transformer=TransformerConfig(dim=256, time="absolute"),
    masking=MaskingConfig(soft_labels=0.0, prefix_dropout=0.0, prefix_weight=1.0),
    sampling=SamplingConfig(temperature=1.0),
)
_PAPER_SHORT = Method(
    _PAPER,
    EncoderConfig(history=4, frame="world"),
    AugmentationConfig(points=0, cloud_noise=0.0),
    TrainingConfig(
        steps=150_000,
        segment=1,
        learning_rate=1e-4,
        warmup=500,
        ema_decay=0.9999,
        precision="fp32",
        eval_every=1000,
    ),
)
_PAPER_LONG = replace(
    _PAPER_SHORT,
    policy=replace(
        _PAPER,
        horizon="long",
        tokenizer=replace(_PAPER.tokenizer, window=128),
        sampling=SamplingConfig(temperature=1.0, execution_horizon=12),
    ),
    training=replace(_PAPER_SHORT.training, batch=64),
)
# The paper's tables for LIBERO; the environment itself is not here yet
_PAPER_LIBERO = replace(
    _PAPER_SHORT,
    policy=replace(
        _PAPER,
        tokenizer=replace(_PAPER.tokenizer, window=32, codes=8192),
        transformer=TransformerConfig(dim=512, heads=8, cross_layers=6, time="absolute"),
        sampling=SamplingConfig(temperature=1.0, execution_horizon=8),
    ),
    encoder=EncoderConfig(history=1, frame="world"),
)

METHODS = {
    "mgp-short": _SHORT,
    "mgp-long": _LONG,
    "paper-mgp-short": _PAPER_SHORT,
    "paper-mgp-long": _PAPER_LONG,
    "paper-mgp-libero": _PAPER_LIBERO,
}
