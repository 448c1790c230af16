"""Mask-and-refine for one robot at temperature 0 as a function of tensors alone, so that an engine can do all of it.

The same tokens as `sampler.refine` and `long.LongPlanner` give (tests/policies/test_whole.py). What depends on values
there depends on sizes here: how many tokens are hidden is known beforehand, which ones is a sort. So a round is told
which *ranks*, from the least sure on, it asks about and which it reads anew; both rounded up, as in `model/reading.py`:
a token that is read or asked about in vain changes nothing.

N tokens, P pending, S asked about, R read anew, r rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mgp.model.reading import ROUND
from mgp.model.transformer import MaskedTransformer
from mgp.sampling.sampler import KNOWN, confidence_of
from mgp.sampling.schedule import shares


class Ranks(NamedTuple):
    """What each round does with tokens, the least sure first."""

    counts: Tensor  # (r,) so many are hidden
    rounds: tuple[Tensor, ...]  # for each round the ranks (S,) that are asked about, and those (R,) that are read anew


class Filled(NamedTuple):
    tokens: Tensor  # (1, N)
    confidence: Tensor  # (1, N) of tokens that were hidden; KNOWN elsewhere
    times: Tensor  # (1, N) in how many rounds a token was hidden


@functools.lru_cache(maxsize=1024)
def ranks(size: int, editable: int, hidden: int, rounds: int) -> Ranks:
    """Of N = `size` tokens so many are `editable` and were read as [MASK]s; so many of them are to be rewritten."""
    counts = [int(hidden * share + 1e-9) for share in shares(rounds)]
    parts: list[Tensor] = []
    for index, count in enumerate(counts):
        # first those that are kept are read, then those that are hidden no more
        parts += [torch.arange(_up(count, size)), _between(count, hidden if index else editable, size)]
    return Ranks(torch.tensor(counts), tuple(parts))


def _up(count: int, size: int) -> int:
    return min(-(-max(count, 1) // ROUND) * ROUND, size)


def _between(low: int, high: int, size: int) -> Tensor:
    """Ranks from `low` to `high`, and some around them."""
    end = _up(high, size)
    return torch.arange(max(min(low // ROUND * ROUND, end - ROUND), 0), end)


def fill(
    transformer: MaskedTransformer,
    x: Tensor,
    keys_values: Tensor,
    executed: Tensor,
    tokens: Tensor,
    ranking: Tensor,
    counts: Tensor,
    rounds: Sequence[Tensor],
    alike: Tensor | None = None,
    fresh: bool = False,
) -> Filled:
    """Hide the least sure of the tokens (1, N) and fill them in, in r rounds.

    x (1, N, D): the tokens as they were read with all [MASK]s that there may be. ranking (1, N): how sure each is,
    KNOWN where it stays. `fresh`: all others are hidden in the first round, so that nothing is read anew for it.
    """
    vocabulary, times = transformer.vocabulary, torch.zeros_like(tokens)
    for index in range(len(rounds) // 2):
        ask, again = rounds[2 * index : 2 * index + 2]
        order = ranking.argsort(dim=1, stable=True)  # (1, N)
        asked = order.index_select(1, ask)  # (1, S)
        found, sureness = tokens.gather(1, asked), ranking.gather(1, asked)
        hidden = (ask < counts[index]) & (sureness < KNOWN)
        if index or not fresh:
            place = order.index_select(1, again)  # (1, R)
            seen = tokens.scatter(1, asked, torch.where(hidden, vocabulary.mask, found))
            read = transformer.read(seen.gather(1, place), place, executed, keys_values)
            now = x.scatter(1, place[..., None].expand_as(read), read)
        else:
            now = x
        x = now if index == 0 else x  # what is kept is kept: later rounds hide some of the first one's again
        logits = transformer.answer(now, asked)[..., : vocabulary.end]  # (1, S, K)
        drawn = logits.argmax(-1)
        sure = confidence_of(logits, drawn, alike)
        tokens = tokens.scatter(1, asked, torch.where(hidden, drawn, found))
        ranking = ranking if index else torch.full_like(ranking, KNOWN)
        ranking = ranking.scatter(1, asked, torch.where(hidden, sure, KNOWN if index == 0 else sureness))
        times = times.scatter_add(1, asked, hidden.long())
    return Filled(tokens, ranking, times)


def read_all(transformer: MaskedTransformer, tokens: Tensor, executed: Tensor, keys_values: Tensor) -> Tensor:
    """Tokens (1, N) to (1, N, D)."""
    return transformer.read(tokens, torch.arange(tokens.shape[1])[None], executed, keys_values)


def rewrite(
    transformer: MaskedTransformer,
    keys_values: Tensor,
    executed: Tensor,
    plan: Tensor,
    confidence: Tensor,
    editable: Tensor,
    asked: Tensor,
    counts: Tensor,
    rounds: Sequence[Tensor],
    alike: Tensor | None = None,
) -> Filled:
    """Adaptive token refinement: a plan (1, N) scored, and rewritten where it is unsure, from one place to another.

    editable (2,): these places. asked (S,): all in between, and some more. The confidence that comes is of all tokens.
    """
    vocabulary, place = transformer.vocabulary, torch.arange(plan.shape[1])
    pending = (place >= editable[0]) & (place < editable[1])  # (N,)
    x = read_all(transformer, torch.where(pending, vocabulary.mask, plan), executed, keys_values)
    logits = transformer.answer(x, asked[None])[..., : vocabulary.end]  # (1, S, K)
    posterior = confidence_of(logits, plan.index_select(1, asked), alike)
    scores = torch.where(pending, confidence.scatter(1, asked[None], posterior), confidence)
    ranking = torch.where(pending, scores, KNOWN)
    out = fill(transformer, x, keys_values, executed, plan, ranking, counts, rounds, alike)
    return out._replace(confidence=torch.where(out.times > 0, out.confidence, scores))


def places_between(first: int, last: int, size: int) -> Tensor:
    """The places (S,) of N = `size` tokens from `first` to before `last`, and some around them."""
    count = _up(last - first, size)
    return torch.arange(count) + max(last - count, 0)
