"""MGP-Long: plan the whole episode, then keep what is executed and what is sure, and rewrite the rest (ATR).

The variants of the paper are settings of this one planner: *Full* never edits its plan, *w/o SM* re-masks everything
unexecuted, and `scoring` chooses which tokens count as unsure. Where the robot goes on while a plan is made, the tokens
that will have been begun by then are frozen as the executed ones are: real-time chunking without further means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mgp.errors import ObservationError
from mgp.model.transformer import Vocabulary
from mgp.sampling.config import SamplingConfig
from mgp.sampling.sampler import KNOWN, Generators, Refined, lowest, refine
from mgp.sampling.scores import SCORES, Question

# (tokens (O, N), places (O, P) of those that are asked about, executed (O,)) to logits (O, P, V); also for a multiple
# of O rows, those of an episode one after the other
PlanLogits = Callable[[Tensor, Tensor, Tensor], Tensor]
# plan and confidence (B, N) to those after it, and in how many rounds each token was masked
Rewrite = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


# tokens that come next: weighted in the loss, regressed by the auxiliary head; by them a plan is called sure
NEAR = 3
FIRST_MISSING = "the first observation of an episode is missing: there is no plan to go on with"


class Edit(NamedTuple):
    """What one replanning makes of the plans of O episodes."""

    tokens: Tensor  # (O, N) the plan after it
    confidence: Tensor  # (O, N) of these tokens
    rounds: Tensor  # (O, N) in how many rounds a token was masked
    before: Tensor  # (O, N) the plan it found
    scores: Tensor  # (O, N) how sure those of its tokens that are pending were under the new observation
    ranking: Tensor  # (O, N) by which the lowest of them were rewritten


class LongPlanner:
    """The plan of B episodes and its history. Only the O <= B episodes with an observation are replanned.

    The others neither call the network nor draw random numbers, so that a batch equals its episodes run alone.
    """

    def __init__(
        self,
        config: SamplingConfig,
        vocabulary: Vocabulary,
        length: int,
        generators: Generators,
        alike: Tensor | None = None,
    ):
        self.config, self.vocabulary, self.length, self.generators = config, vocabulary, length, generators
        self.alike = alike  # (K, K) of `sampler.likeness`
        self.tokens: Tensor | None = None  # (B, N)
        self.confidence: Tensor | None = None  # (B, N)
        self.written: Tensor | None = None  # (B, N) the confidence when the plan was last rewritten
        self.executed = 0  # tokens, the same for all episodes: they run in lock step
        self.frozen = 0  # tokens that stay: the executed, and those that will be begun before the plan is there
        self.before: tuple[Tensor, ...] = ()  # tokens, confidence and written before the last step
        self.traced = True  # whether each step is written down
        self.log: list[dict[str, np.ndarray]] = []

    def step(
        self, logits_fn: PlanLogits, observed: Tensor, executed: int, frozen: int = 0, rewrite: Rewrite | None = None
    ) -> Tensor:
        """Plan, or replan where an observation arrived (B,); the first `executed` tokens have been. Returns the plan.

        `logits_fn` answers for the observed episodes, in their order. The first `frozen` tokens stay as they are.
        `rewrite` replans in one go, in place of what is done here with `logits_fn`.
        """
        self.executed, self.frozen = executed, max(executed, frozen)
        before = tuple(one.clone() for one in self._state)
        masked = torch.zeros(len(observed), self.length, dtype=torch.long)
        if self.tokens is None or self.confidence is None or self.written is None:
            if not bool(observed.all()):
                raise ObservationError(FIRST_MISSING)
            self.tokens, self.confidence, masked = self._first(logits_fn, len(observed))
            self.written = self.confidence.clone()
        elif self.config.variant != "full" and self.frozen < self.length and bool(observed.any()):
            if rewrite is not None:
                self.tokens, self.confidence, masked = rewrite(self.tokens, self.confidence)
            else:
                edit = self._replan(logits_fn, self.tokens[observed], self.confidence[observed], observed)
                self.tokens[observed], self.confidence[observed], masked[observed] = edit[:3]
            rewritten = masked.any(1)
            self.written[rewritten] = self.confidence[rewritten]
        self.before = before
        if self.traced:
            self.log.append(
                {
                    "executed": np.full(len(observed), min(self.executed, self.length)),
                    "tokens": self.tokens.cpu().numpy().copy(),
                    "confidence": self.confidence.cpu().numpy().copy(),
                    "masked": masked.cpu().numpy().astype(np.int8),
                }
            )
        return self.tokens.clone()  # the plan itself is not handed out, nor logged above

    def keep(self, count: int) -> None:
        """The first `count` tokens as they were before the last step: it came later than they were begun."""
        self.tokens, self.confidence, self.written = (
            torch.cat([old[:, :count], new[:, count:]], dim=1)
            for old, new in zip(self.before, self._state, strict=True)
        )
        if self.traced and self.log:  # else the last step is not there
            self.log[-1] |= {"tokens": self.tokens.numpy().copy(), "confidence": self.confidence.numpy().copy()}

    @property
    def _state(self) -> tuple[Tensor, ...]:
        """What a step changes; nothing before the first."""
        state = (self.tokens, self.confidence, self.written)
        return tuple(one for one in state if one is not None)

    @property
    def sure(self) -> Tensor:
        """(B,) mean confidence of the tokens that come next, NaN where the plan is over."""
        assert self.confidence is not None
        return self.confidence[:, self.frozen : self.frozen + NEAR].mean(1)

    def what_if(self, logits_fn: PlanLogits, observed: Tensor, executed: int, **changes: object) -> Edit | None:
        """The edit that `step` would make now if it were configured otherwise; None if there is nothing to edit.

        Nothing comes of it: the plan and its log stay, and random numbers are drawn from copies of the generators.
        """
        config = self.config.changed(**changes)
        if self.tokens is None or self.confidence is None or executed >= self.length or not bool(observed.any()):
            return None
        if config.variant == "full":
            return None
        other = LongPlanner(config, self.vocabulary, self.length, [_copy(g) for g in self.generators], self.alike)
        other.executed = other.frozen = executed
        other.written = self.written
        return other._replan(logits_fn, self.tokens[observed], self.confidence[observed], observed)

    def _first(self, logits_fn: PlanLogits, batch: int) -> Refined:
        everything = torch.ones(batch, self.length, dtype=torch.bool)
        blank = torch.full((batch, self.length), self.vocabulary.mask)
        return self._refine(logits_fn, blank, everything, self.generators)

    def _replan(self, logits_fn: PlanLogits, plan: Tensor, confidence: Tensor, observed: Tensor) -> Edit:
        """Plan and confidence (O, N) of the observed episodes, rewritten where they are pending and unsure."""
        generators = [g for g, seen in zip(self.generators, observed.tolist(), strict=True) if seen]
        pending = self._editable  # (N,)
        scores, ranking = self._scores(logits_fn, plan, confidence, generators)
        share = 1.0 if self.config.variant == "no-sm" else self.config.mask_ratio
        count = (pending.sum().double() * share).round().long().expand(len(plan))
        candidates = torch.where(pending, ranking, KNOWN)
        masked = lowest(candidates, torch.where(self._fell(scores, observed), count, 0))
        changes = masked.any(1)  # (O,)
        if not bool(changes.any()):  # the look cost one pass
            return Edit(plan, torch.where(pending, scores, confidence), torch.zeros_like(plan), plan, scores, ranking)
        # a plan that stays draws nothing, as if its episode ran alone
        drawing = [g if change else _copy(g) for g, change in zip(generators, changes.tolist(), strict=True)]
        out = self._refine(logits_fn, plan, masked, drawing)
        fresh = torch.where(masked, out.confidence, scores)
        return Edit(
            torch.where(pending, out.tokens, plan),  # the executed prefix stays byte-identical
            torch.where(pending, fresh, confidence),
            out.rounds,
            plan,
            scores,
            ranking,
        )

    @property
    def _editable(self) -> Tensor:
        """Which tokens (N,) this look may rewrite: the pending ones, or as far ahead as `edit_window` says.

        What lies further ahead will be looked at again before it is executed. Until then it stays and is in view: there
        is no gain in rewriting what is merely unsure by now, and what only the past can tell may stand there.
        """
        place = torch.arange(self.length)
        return (place >= self.frozen) & (place < editable_to(self.config, self.frozen, self.length))

    def _fell(self, scores: Tensor, observed: Tensor) -> Tensor:
        """Which plans (O,) are rewritten: the tokens that come next are less sure than when they were written."""
        if not self.config.replan or self.written is None:
            return torch.ones(len(scores), dtype=torch.bool)
        near = slice(self.frozen, self.frozen + NEAR)
        return scores[:, near].mean(1) < self.config.replan * self.written[observed, near].mean(1)

    def _scores(
        self, logits_fn: PlanLogits, plan: Tensor, confidence: Tensor, generators: Generators
    ) -> tuple[Tensor, Tensor]:
        """How sure each token of the plan is, and the ranking by which the lowest are rewritten; both (O, N)."""
        if self.config.scoring == "random":
            return confidence, torch.stack([torch.rand(self.length, generator=g) for g in generators])
        if self.config.scoring == "reuse":
            return confidence, confidence
        question = self._question(logits_fn, plan)
        scored = SCORES[self.config.score](question)
        scores = torch.where(question.pending, scored.sure, confidence)
        return scores, -scored.ranking if self.config.scoring == "inverse" else scored.ranking

    def _question(self, logits_fn: PlanLogits, plan: Tensor) -> Question:
        return Question(
            plan,
            self._editable,
            lambda tokens, asked: self._logits(logits_fn, tokens, asked),
            self.vocabulary.mask,
            self.alike,
            self.config.see_pending,
            self.config.window,
        )

    def _logits(self, logits_fn: PlanLogits, tokens: Tensor, asked: Tensor) -> Tensor:
        """Without [END]: an episode has a fixed horizon. In scoring as in drawing: all confidences are on one scale."""
        executed = torch.full((len(tokens),), min(self.executed, self.length))
        return logits_fn(tokens, asked, executed)[..., : self.vocabulary.end]

    def _refine(self, logits_fn: PlanLogits, tokens: Tensor, masked: Tensor, generators: Generators) -> Refined:
        return refine(
            lambda current, asked: self._logits(logits_fn, current, asked),
            tokens,
            masked,
            self.vocabulary.mask,
            self.config.refine_steps,
            self.config.temperature,
            generators,
            alike=self.alike,
        )


def editable_to(config: SamplingConfig, frozen: int, length: int) -> int:
    """The first of so many tokens that a look may not rewrite: w/o SM knows no such window."""
    window = config.edit_window if config.variant == "long" else 0
    return min(frozen + window, length) if window else length


def _copy(generator: torch.Generator) -> torch.Generator:
    """A generator that will draw the same numbers."""
    return torch.Generator(generator.device).set_state(generator.get_state())
