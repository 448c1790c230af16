"""How many tokens are masked at each refinement round."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def shares(rounds: int) -> list[float]:
    """Of the editable tokens, those masked in each round: all, then less by a cosine."""
    return [math.cos(math.pi / 2 * i / rounds) for i in range(rounds)]


def mask_counts(masked: Tensor, rounds: int) -> Tensor:
    """Masked positions (B, N) to counts (B, rounds): all of them first, then the cosine share of what is left.

    Round i of r re-masks floor(cos(pi/2 * i/r) * M) of the M editable tokens: M, then 0.707 M for r = 2.
    """
    total = masked.sum(1).double()
    return torch.stack([(total * share + 1e-9).floor() for share in shares(rounds)], dim=1).long()


def training_ratio(uniform: Tensor) -> Tensor:
    """Mask ratio of a training sample from u ~ U(0, 1), as MaskGIT draws it."""
    return torch.cos(math.pi / 2 * uniform)
