"""How training hides and falsifies tokens, so that filling in, scoring and distrusting a plan are all learned.

B batch, N tokens. Inputs are never changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mgp.config import fraction, not_negative
from mgp.model.transformer import Vocabulary
from mgp.sampling.schedule import training_ratio


@dataclass(frozen=True)
class MaskingConfig:
    """For Short only `perturb` and `soft_labels` matter."""

    perturb: float = 0.1  # share of visible tokens swapped for random codes
    soft_labels: float = 0.1  # width of distance-aware targets, in mean squared nearest-code distances; 0 = one-hot
    end: bool = True  # Long: an episode shorter than the horizon closes with [END]; else its last action goes on
    start: float = 0.1  # share of Long samples with nothing executed yet (t = 0)
    prefix_dropout: float = 0.5  # share of Long samples whose executed prefix is masked as a whole
    foreign_prefix: float = 0.0  # share of Long samples whose executed prefix is another demonstration's
    foreign_plan: float = 0.0  # share of Long samples whose visible pending tokens are another demonstration's
    # share of Long samples, t > 0, that look at another demonstration in like motion: the plan tells what goes on
    foreign_frame: float = 0.0
    # share of Long samples, t > 0, whose visible pending tokens are those of a plan from before a shift (stale.py)
    stale_plan: float = 0.0
    # share of Long samples whose hidden tokens are the next ones, in one run, as `sampling.edit_window` hides them
    run: float = 0.0
    near_weight: float = 1.0  # loss weight of the tokens that would be executed next
    prefix_weight: float = 0.0  # loss weight of tokens already executed

    def __post_init__(self) -> None:
        fraction(self, "perturb", "start", "prefix_dropout", "stale_plan", "run")
        fraction(self, "foreign_prefix", "foreign_plan", "foreign_frame")
        not_negative(self, "soft_labels", "near_weight", "prefix_weight")


CUT = 0.3  # share of Long sequences cut to a random length and closed by [END], as in the paper


class Corrupted(NamedTuple):
    tokens: Tensor  # (B, N) what the transformer sees
    target: Tensor  # (B, N) what it should say: codes and [END]; anything where the weight is 0
    weight: Tensor  # (B, N) of each position in the loss


def _rand(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator)


def perturb(tokens: Tensor, share: float, vocabulary: Vocabulary, generator: torch.Generator) -> Tensor:
    """Swap a share of the codes for random ones; specials stay."""
    random = torch.randint(vocabulary.codes, tokens.shape, generator=generator)
    swap = (_rand(*tokens.shape, generator=generator) < share) & (tokens < vocabulary.codes)
    return torch.where(swap, random, tokens)


def choose(candidates: Tensor, ratio: Tensor, generator: torch.Generator, run: float = 0.0) -> Tensor:
    """A random subset of the candidate positions: `ratio` (B,) of them, at least one where there is any.

    In a share of the rows, `run`, it is the first of them.
    """
    noise = _rand(*candidates.shape, generator=generator)
    if run:
        first = _rand(len(candidates), 1, generator=generator) < run
        noise = torch.where(first, torch.linspace(0, 1, candidates.shape[1]), noise)
    noise = noise.masked_fill(~candidates, 2.0)
    rank = noise.argsort(1).argsort(1)
    total = candidates.sum(1)
    count = torch.minimum((ratio * total).round().long().clamp_min(1), total)
    return rank < count[:, None]


def corrupt_short(
    tokens: Tensor, vocabulary: Vocabulary, config: MaskingConfig, generator: torch.Generator
) -> Corrupted:
    visible = perturb(tokens, config.perturb, vocabulary, generator)
    ratio = training_ratio(_rand(len(tokens), generator=generator))
    hidden = choose(torch.ones_like(tokens, dtype=torch.bool), ratio, generator)
    return Corrupted(torch.where(hidden, vocabulary.mask, visible), tokens, torch.ones(tokens.shape))


def close(tokens: Tensor, length: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Tokens up to `length` (B,), then [END] if there is room, then [PAD]."""
    place = torch.arange(tokens.shape[1])
    tokens = torch.where(place == length[:, None], vocabulary.end, tokens)
    return torch.where(place > length[:, None], vocabulary.pad, tokens)


def corrupt_long(
    tokens: Tensor,
    length: Tensor,
    executed: Tensor,
    donor: Tensor,
    near: int,
    vocabulary: Vocabulary,
    config: MaskingConfig,
    generator: torch.Generator,
    stale: Tensor | None = None,
) -> Corrupted:
    """`length` (B,) tokens are valid, `executed` (B,) lie before the observation, `donor` (B, N) is another episode's.
    `stale` (B, N) is a plan from before a shift, for those samples that have tokens executed.

    The run-time situations are trained as they are met: a whole clean prefix, none at all, and one that proves nothing
    because it is another demonstration's; pending tokens are hidden by the schedule or stem from another plan,
    be it another demonstration's or one that was right before the scene was shifted.
    """
    batch, size = tokens.shape
    place = torch.arange(size)[None]
    cut = _rand(batch, generator=generator) < (CUT if config.end else 0.0)
    shorter = executed + 1 + (_rand(batch, generator=generator) * (length - executed - 1).clamp_min(0)).long()
    length = torch.where(cut, torch.minimum(shorter, length), length)
    target = close(tokens, length, vocabulary)
    valid = place <= length[:, None]  # all but [PAD]

    past = place < executed[:, None]
    visible = target
    code = target < vocabulary.codes
    for share, part in ((config.foreign_prefix, past), (config.foreign_plan, ~past)):
        foreign = (_rand(batch, 1, generator=generator) < share) & part & code
        visible = torch.where(foreign, donor, visible)
    if stale is not None:
        before = (_rand(batch, 1, generator=generator) < config.stale_plan) & (executed > 0)[:, None] & ~past & code
        visible = torch.where(before, stale, visible)
    visible = perturb(visible, config.perturb, vocabulary, generator)
    ratio = training_ratio(_rand(batch, generator=generator))
    hidden = choose(valid & ~past, ratio, generator, config.run)
    forgotten = past & (_rand(batch, 1, generator=generator) < config.prefix_dropout)
    seen = torch.where(hidden | forgotten, vocabulary.mask, visible)

    soon = ~past & (place < executed[:, None] + near)
    weight = torch.where(past, config.prefix_weight, torch.where(soon, config.near_weight, 1.0)) * valid
    return Corrupted(seen, target, weight)
