"""MGP-Short: a fresh short window at every plan, filled in and refined in a few rounds."""

from __future__ import annotations

import torch
from torch import Tensor

from mgp.model.transformer import Vocabulary
from mgp.sampling.config import SamplingConfig
from mgp.sampling.sampler import Generators, LogitsFn, Refined, refine


def plan_short(
    logits_fn: LogitsFn, batch: int, length: int, config: SamplingConfig, vocabulary: Vocabulary, generators: Generators
) -> Refined:
    """B windows of `length` tokens, all masked at first. A window has no [END]."""
    blank: Tensor = torch.full((batch, length), vocabulary.mask)
    everything = torch.ones_like(blank, dtype=torch.bool)
    steps, heat = config.refine_steps, config.temperature
    return refine(logits_fn, blank, everything, vocabulary.mask, steps, heat, generators, (vocabulary.end,))
