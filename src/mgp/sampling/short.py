"""MGP-Short: a fresh short window at every plan, filled in and refined in a few rounds."""

from __future__ import annotations

import torch
from torch import Tensor

from mgp.model.transformer import Vocabulary
from mgp.sampling.config import SamplingConfig
from mgp.sampling.sampler import Generators, LogitsFn, Refined, refine


def plan_short(
    logits_fn: LogitsFn,
    batch: int,
    length: int,
    config: SamplingConfig,
    vocabulary: Vocabulary,
    generators: Generators,
    known: Tensor | None = None,
) -> Refined:
    """B windows of `length` tokens, all masked at first but those `known` (B, K) to begin it. A window has no [END]."""
    tokens: Tensor = torch.full((batch, length), vocabulary.mask)
    if known is not None:
        tokens[:, : known.shape[1]] = known
    steps, heat, masked = config.refine_steps, config.temperature, tokens == vocabulary.mask
    return refine(logits_fn, tokens, masked, vocabulary.mask, steps, heat, generators, (vocabulary.end,))
