"""A whole plan of one robot as one graph: from features of frames to actions, with all passes and choices in between.

An engine then is called once where it was called ten times, with Python and torch in between each time, which took
longer than the network. Only at temperature 0, where nothing is drawn, and for one robot; otherwise the parts are
called one by one, to the same end (tests/policies/test_whole.py).

H frames, C condition width, N tokens, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mgp.graph import graph
from mgp.policies.mgp.network import MGPNetworks
from mgp.sampling.config import SamplingConfig
from mgp.sampling.long import editable_to
from mgp.sampling.whole import Filled, fill, places_between, ranks, read_all, rewrite


class Now(NamedTuple):
    """When a plan of the whole episode is looked at again."""

    steps: int  # actions executed
    executed: int  # tokens begun by then
    frozen: int  # and those that will be begun before the plan is there


class Rewritten(NamedTuple):
    plan: Filled
    actions: Tensor  # (1, T, A) of it from now on, normalised
    offset: Tensor  # (1, T', A) to be added to those that come next


class WholePlans(MGPNetworks):
    whole = True  # whether such graphs are used

    def may_be_whole(self, rows: int, sampling: SamplingConfig) -> bool:
        plain = sampling.temperature == 0 and self.transformer.local is None
        if self.long:
            scored = sampling.scoring == "atr" and sampling.score == "posterior" and not sampling.see_pending
            plain = plain and scored and not sampling.replan and sampling.variant != "full"
        return self.whole and plain and rows == 1 and self.device.type == "cpu"

    def whole_window(
        self, parts: Sequence[Tensor], known: Tensor | None, sampling: SamplingConfig
    ) -> tuple[Tensor, Tensor]:
        """MGP-Short: raw actions (1, T, A) of a window that begins with `known` (1, K) tokens, and how sure (1,).

        `parts` are those of the condition.
        """
        tokens = torch.full((1, self.tokens), self.transformer.vocabulary.mask)
        free = self.tokens
        if known is not None:
            tokens[:, : known.shape[1]] = known
            free -= known.shape[1]
        counts, rounds = ranks(self.tokens, free, free, sampling.refine_steps)
        return self.window_graph(tokens, counts, rounds[0], *rounds[2:], *parts)

    @graph
    def window_graph(self, tokens: Tensor, counts: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        """From tokens (1, N) with [MASK]s, `sampling.whole.Ranks`, and the parts of a condition."""
        rounds, parts = self._apart(rest)
        transformer, condition = self.transformer, self.encoder.join(*parts)
        masked = tokens == transformer.vocabulary.mask
        nothing = torch.zeros(1, dtype=torch.long)
        keys_values = transformer.keys_values(condition)
        x = read_all(transformer, tokens, nothing, keys_values)
        ranking = torch.where(masked, 0.0, torch.inf)
        rounds = (rounds[0], rounds[0], *rounds[1:])  # nothing is read anew for the first
        out = fill(transformer, x, keys_values, nothing, tokens, ranking, counts, rounds, fresh=True)
        sure = torch.where(masked, out.confidence, 0.0).sum(1) / masked.sum(1)
        guess = self._decoded(out.tokens)
        if self.offset is not None:
            guess = guess + self.offset(condition, guess)
        return self.raw_actions(guess)[:, self.past :], sure

    def whole_rewrite(
        self,
        plan: Tensor,
        confidence: Tensor,
        parts: Sequence[Tensor],
        now: Now,
        alike: Tensor | None,
        sampling: SamplingConfig,
    ) -> Rewritten:
        """MGP-Long: what becomes of a plan (1, N) of some confidence under a look, the parts of a condition."""
        size, per = self.tokens, self.options.tokenizer.actions_per_token
        last = editable_to(sampling, now.frozen, size)
        pending = last - now.frozen
        share = 1.0 if sampling.variant == "no-sm" else sampling.mask_ratio
        counts, rounds = ranks(size, pending, round(pending * share), sampling.refine_steps)
        start = self.tokenizer.decoding_from(now.steps // per, size)
        skipped = now.steps - start * per
        tokens, sure, times, actions, offset = self.rewrite_graph(
            plan,
            confidence,
            torch.tensor([now.executed]),
            torch.tensor([now.frozen, last]),
            places_between(now.frozen, last, size),
            torch.arange(start, size),
            torch.tensor([skipped]),
            counts,
            *rounds,
            *(() if alike is None else (alike,)),
            *parts,
        )
        return Rewritten(Filled(tokens, sure, times), actions[:, skipped:], offset)

    @graph
    def rewrite_graph(
        self,
        plan: Tensor,  # (1, N)
        confidence: Tensor,  # (1, N)
        executed: Tensor,  # (1,) tokens
        editable: Tensor,  # (2,) the first place that may be rewritten, and the first after these
        asked: Tensor,  # (S,) places of those in between, and some more
        decoded: Tensor,  # (L,) places of those to be decoded
        first: Tensor,  # (1,) of their actions the next one
        counts: Tensor,
        *rest: Tensor,  # of `Ranks`; `likeness` of the codes (K, K), where it counts; the parts of a condition
    ) -> tuple[Tensor, ...]:
        """Tokens, confidence and rounds of the plan, its normalised actions (1, L actions, A), the offset (1, T, A)."""
        rounds, parts = self._apart(rest)
        rounds, alike = (rounds, None) if len(rounds) % 2 == 0 else (rounds[:-1], rounds[-1])
        condition = self.encoder.join(*parts)
        keys_values = self.transformer.keys_values(condition)
        rewritten = rewrite(
            self.transformer, keys_values, executed, plan, confidence, editable, asked, counts, rounds, alike
        )
        actions = self._decoded(rewritten.tokens.index_select(1, decoded))
        near = self.next_actions(actions, first)
        offset = torch.zeros_like(near) if self.offset is None else self.offset(condition, near)
        return *rewritten, actions, offset

    def _apart(self, rest: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """What comes before the parts of a condition, and these."""
        place = len(rest) - len(self.encoder.encoders)
        return rest[:place], rest[place:]

    def _decoded(self, tokens: Tensor) -> Tensor:
        """Codes (1, N) to normalised actions (1, T, A)."""
        return self.tokenizer.decode_vectors(self.tokenizer.codebook.lookup(tokens)).clamp(-1, 1)
