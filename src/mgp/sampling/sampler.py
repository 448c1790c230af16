"""Mask-and-refine sampling: pure functions of (logits function, tokens, schedule, generators).

B batch, N tokens, K codes. Nothing is changed in place: tokens go in and new ones come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mgp.model.reading import chosen
from mgp.model.transformer import at
from mgp.sampling.schedule import mask_counts
from mgp.tokenizer.codebook import code_distances

# tokens (B, N) with [MASK]s, and places (B, P) of those that are asked about, to logits (B, P, V)
LogitsFn = Callable[[Tensor, Tensor], Tensor]
Generators = Sequence[torch.Generator]  # one an episode, so that a batch equals its rows sampled alone

KNOWN = float("inf")  # confidence of tokens that must not be picked for masking


class Refined(NamedTuple):
    tokens: Tensor  # (B, N)
    confidence: Tensor  # (B, N) probability of the standing token when it was drawn; KNOWN where it was given
    rounds: Tensor  # (B, N) in how many rounds the token was masked


def gumbel_max(
    logits: Tensor, temperature: float, generators: Generators, part: tuple[Tensor, int] | None = None
) -> Tensor:
    """Equation 3: argmax of logits / temperature + Gumbel noise; temperature 0 is the plain argmax.

    `part`: the logits are those at places (B, P) of N. The noise is drawn for all N: what an episode draws must not
    depend on how many places its neighbours ask about.
    """
    if temperature == 0:
        return logits.argmax(-1)
    shape = logits.shape[1:] if part is None else (part[1], logits.shape[-1])
    uniform = torch.stack([torch.rand(shape, generator=g) for g in generators]).to(logits.device)
    if part is not None:
        uniform = at(uniform, part[0])
    noise = -torch.log(-torch.log(uniform.clamp(1e-10, 1 - 1e-7)))
    return (logits / temperature + noise).argmax(-1)


def draw(logits: Tensor, temperature: float, generators: Generators, top: int = 0) -> Tensor:
    """Logits (B, ..., V) to tokens (B, ...), each row by its own generator; only the `top` likeliest, 0 = any."""
    logits = logits.float()
    if 0 < top < logits.shape[-1]:
        least = logits.topk(top, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return gumbel_max(logits, temperature, generators)


def likeness(codes: Tensor, width: float) -> Tensor | None:
    """How far codes (K, D) stand for one another, (K, K) from 0 to 1; None if each stands for itself alone."""
    return torch.exp(-code_distances(codes) / width) if width else None


def confidence_of(logits: Tensor, tokens: Tensor, alike: Tensor | None = None) -> Tensor:
    """Softmax probability of the tokens that stand in the plan (B, N); 0 for tokens the logits do not cover.

    A codebook has many near-duplicates, among which the probability of one action is divided; with `alike` (K, K) it
    is added up again.
    """
    probability, width = logits.softmax(-1), logits.shape[-1]
    if alike is not None:
        codes = alike.shape[0]
        near = F.embedding(tokens.clamp_max(codes - 1), alike)  # (B, N, K)
        shared = torch.linalg.vecdot(probability[..., :codes], near)
        if codes == width:
            return shared * (tokens < width)
    own = probability.gather(-1, tokens.clamp_max(width - 1)[..., None]).squeeze(-1) * (tokens < width)
    return own if alike is None else torch.where(tokens < codes, shared, own)


def lowest(confidence: Tensor, count: Tensor) -> Tensor:
    """The `count` (B,) least confident positions of each row, by rank: right whatever positions are KNOWN."""
    rank = confidence.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
    return (rank < count[:, None]) & (confidence < KNOWN)


def refine(
    logits_fn: LogitsFn,
    tokens: Tensor,
    masked: Tensor,
    mask_token: int,
    rounds: int,
    temperature: float,
    generators: Generators,
    forbidden: Sequence[int] = (),
    alike: Tensor | None = None,
) -> Refined:
    """Fill the masked positions (B, N), re-mask the least confident by the schedule and fill again, `rounds` times.

    Positions that are not masked at the start never change. `forbidden` token ids (such as [END]) are never drawn.
    """
    counts = mask_counts(masked, rounds)
    confidence = torch.full(tokens.shape, KNOWN, device=tokens.device)
    confidence = torch.where(masked, torch.zeros_like(confidence), confidence)
    times = torch.zeros_like(tokens)
    for i in range(rounds):
        hidden = masked if i == 0 else lowest(confidence, counts[:, i])
        asked = chosen(hidden)  # (B, P)
        logits = logits_fn(torch.where(hidden, mask_token, tokens), asked)  # (B, P, V)
        if forbidden:
            logits = logits.clone()
            logits[..., list(forbidden)] = -torch.inf
        drawn = gumbel_max(logits, temperature, generators, (asked, tokens.shape[1]))
        sure = confidence_of(logits, drawn, alike)
        tokens = torch.where(hidden, tokens.scatter(1, asked, drawn), tokens)
        confidence = torch.where(hidden, confidence.scatter(1, asked, sure), confidence)
        times = times + hidden
    return Refined(tokens, confidence, times)
