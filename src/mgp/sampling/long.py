"""MGP-Long: plan the whole episode, then keep what is executed and what is sure, and rewrite the rest (ATR).

The variants of the paper are settings of this one planner: *Full* never edits its plan, *w/o SM* re-masks everything
unexecuted, and `scoring` chooses which tokens count as unsure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mgp.config import SamplingConfig
from mgp.model.transformer import Vocabulary
from mgp.sampling.sampler import KNOWN, Generators, Refined, confidence_of, lowest, refine

PlanLogits = Callable[[Tensor, Tensor], Tensor]  # (tokens (B, N), executed (B,)) to logits (B, N, V)


class LongPlanner:
    """The plan of B episodes and its history."""

    def __init__(self, config: SamplingConfig, vocabulary: Vocabulary, length: int, generators: Generators):
        self.config, self.vocabulary, self.length, self.generators = config, vocabulary, length, generators
        self.tokens: Tensor | None = None  # (B, N)
        self.confidence: Tensor | None = None  # (B, N)
        self.executed = 0  # tokens, the same for all episodes: they run in lock step
        self.log: list[dict[str, np.ndarray]] = []

    def step(self, logits_fn: PlanLogits, observed: Tensor, tokens_per_step: int) -> Tensor:
        """Plan or replan where an observation arrived (B,), count `tokens_per_step` as executed, return the plan."""
        masked = torch.zeros(len(observed), self.length, dtype=torch.long)
        if self.tokens is None:
            masked = self._first(logits_fn, len(observed))
        elif self.config.variant != "full" and self.executed < self.length and bool(observed.any()):
            masked = self._replan(logits_fn, observed)
        assert self.tokens is not None and self.confidence is not None
        self.log.append(
            {
                "executed": np.full(len(observed), min(self.executed, self.length)),
                "tokens": self.tokens.cpu().numpy().copy(),
                "confidence": self.confidence.cpu().numpy().copy(),
                "masked": masked.cpu().numpy().astype(np.int8),
            }
        )
        self.executed += tokens_per_step
        return self.tokens

    def _first(self, logits_fn: PlanLogits, batch: int) -> Tensor:
        everything = torch.ones(batch, self.length, dtype=torch.bool)
        blank = torch.full((batch, self.length), self.vocabulary.mask)
        out = self._refine(logits_fn, blank, everything)
        self.tokens, self.confidence = out.tokens, out.confidence
        return out.rounds

    def _replan(self, logits_fn: PlanLogits, observed: Tensor) -> Tensor:
        assert self.tokens is not None and self.confidence is not None
        plan, pending = self.tokens, (torch.arange(self.length) >= self.executed).expand_as(self.tokens)
        scores, ranking = self._scores(logits_fn, plan)
        editable = torch.where(pending & observed[:, None], ranking, KNOWN)
        share = 1.0 if self.config.variant == "no-sm" else self.config.mask_ratio
        count = (editable.isfinite().sum(1) * share).round().long()
        masked = lowest(editable, count)
        out = self._refine(logits_fn, plan, masked)
        self.tokens = torch.where(pending, out.tokens, plan)  # a copy: the executed prefix is byte-identical
        fresh = torch.where(masked, out.confidence, scores)
        keep = ~(pending & observed[:, None])
        self.confidence = torch.where(keep, self.confidence, fresh)
        return out.rounds

    def _scores(self, logits_fn: PlanLogits, plan: Tensor) -> tuple[Tensor, Tensor]:
        """How sure each token of the plan is, and the ranking by which the lowest are rewritten; both (B, N)."""
        assert self.confidence is not None
        if self.config.scoring == "random":
            return self.confidence, torch.stack([torch.rand(self.length, generator=g) for g in self.generators])
        if self.config.scoring == "reuse":
            return self.confidence, self.confidence
        posterior = confidence_of(self._logits(logits_fn, plan), plan)  # equation 4
        return posterior, -posterior if self.config.scoring == "inverse" else posterior

    def _logits(self, logits_fn: PlanLogits, tokens: Tensor) -> Tensor:
        done = min(self.executed, self.length)
        if not self.config.see_prefix:
            tokens = tokens.clone()
            tokens[:, :done] = self.vocabulary.mask
        return logits_fn(tokens, torch.full((len(tokens),), done))

    def _refine(self, logits_fn: PlanLogits, tokens: Tensor, masked: Tensor) -> Refined:
        forbidden = () if self.config.allow_end else (self.vocabulary.end,)
        return refine(
            lambda current: self._logits(logits_fn, current),
            tokens,
            masked,
            self.vocabulary.mask,
            self.config.refine_steps,
            self.config.temperature,
            self.generators,
            forbidden,
        )
