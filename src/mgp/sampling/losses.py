"""Equation 2, with targets that may respect the codebook."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mgp.tokenizer.codebook import code_distances


def soft_targets(codes: Tensor, temperature: float) -> Tensor | None:
    """Distance-aware labels (K, K + 1): a code's near-duplicates share its probability. None for one-hot labels.

    Many codes decode to almost the same actions; to punish one for the other teaches the noise of the tokenizer.
    The unit of `temperature` is the mean squared distance between a code and its nearest neighbour.
    """
    if temperature == 0:
        return None
    soft = (-code_distances(codes) / temperature).softmax(1)
    return F.pad(soft, (0, 1))  # no share for [END]


def token_loss(logits: Tensor, target: Tensor, weight: Tensor, soft: Tensor | None) -> Tensor:
    """Weighted mean cross-entropy. logits (B, N, K + 1), target and weight (B, N)."""
    counted = weight > 0
    logits, target, weight = logits[counted], target[counted], weight[counted]
    if soft is None:
        loss = F.cross_entropy(logits, target, reduction="none")
    else:
        rows = soft[target.clamp_max(len(soft) - 1)]
        end = F.one_hot(target.new_tensor(len(soft)), logits.shape[-1]).to(rows)
        rows = torch.where((target >= len(soft))[:, None], end, rows)
        loss = -(rows * logits.log_softmax(-1)).sum(-1)
    return (loss * weight).sum() / weight.sum().clamp_min(1e-12)


def focal_loss(logits: Tensor, target: Tensor, gamma: float) -> Tensor:
    """Cross-entropy of logits (B, K) that cares less for what is known already, (B,)."""
    likely = logits.log_softmax(-1).gather(-1, target[:, None]).squeeze(-1)
    return -((1 - likely.exp()) ** gamma) * likely
