"""Instructions in words. No language model is downloaded: a sentence is the bag of its hashed words and word pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from mgp.config import EncoderConfig

BUCKETS = 512  # hashes of words and of pairs of neighbours; a few hundred instructions seldom collide


def bag_of_words(texts: Sequence[str]) -> Tensor:
    """(len(texts), BUCKETS) counts, each row of length 1. The same words give the same row on every machine."""
    out = torch.zeros(len(texts), BUCKETS)
    for row, text in enumerate(texts):
        words = text.lower().split()
        for part in (*words, *(" ".join(pair) for pair in pairwise(words))):
            out[row, int.from_bytes(hashlib.sha256(part.encode()).digest()[:4], "little") % BUCKETS] += 1
    return out / out.norm(dim=1, keepdim=True).clamp_min(1.0)


def build(config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    """(B, BUCKETS) to (B, dim)."""
    return nn.Linear(BUCKETS, config.dim)
