"""Equation 2, with targets that may respect the codebook."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mgp.tokenizer.codebook import code_distances


def soft_targets(codes: Tensor, temperature: float) -> Tensor | None:
    """Distance-aware labels (K + 1, K + 1): a code's near-duplicates share its probability. None for one-hot labels.

    Many codes decode to almost the same actions; to punish one for the other teaches the noise of the tokenizer.
    The unit of `temperature` is the mean squared distance between a code and its nearest neighbour.
    """
    if temperature == 0:
        return None
    soft = (-code_distances(codes) / temperature).softmax(1)
    soft = F.pad(soft, (0, 1, 0, 1))  # [END] shares with none
    soft[-1, -1] = 1.0
    return soft


def token_loss(logits: Tensor, target: Tensor, weight: Tensor, soft: Tensor | None) -> Tensor:
    """Weighted mean cross-entropy. logits (M, K + 1) of the M counted tokens, target and weight (M,)."""
    if soft is None:
        loss = F.cross_entropy(logits, target, reduction="none")
    else:
        loss = -(soft.index_select(0, target) * logits.log_softmax(-1)).sum(-1)
    return (loss * weight).sum() / weight.sum().clamp_min(1e-12)


def focal_loss(logits: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Cross-entropy of logits (B, K) that cares less for what is known already, (B,)."""
    likely = logits.log_softmax(-1).gather(-1, target[:, None]).squeeze(-1)
    return -((1 - likely.exp()) ** gamma) * likely
