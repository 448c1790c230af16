"""Vector-quantisation codebook learned by exponential moving averages.

All mutable state is in buffers: a resumed run goes on with the very statistics it had.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn


def code_distances(codes: Tensor) -> Tensor:
    """(K, K) squared distances of codes (K, D), in units of the mean one between a code and its nearest neighbour."""
    distance = torch.cdist(codes, codes).square()
    nearest = distance.clone().fill_diagonal_(torch.inf).amin(1)
    return distance / nearest.mean().clamp_min(1e-12)


class Codebook(nn.Module):
    codes: Tensor  # (K, D) the code vectors
    counts: Tensor  # (K,) moving average of how many latents each code took
    sums: Tensor  # (K, D) moving average of the sum of those latents
    unused: Tensor  # (K,) steps since a code was last taken
    initialised: Tensor  # () bool

    def __init__(self, size: int, dim: int, decay: float = 0.99, reset_after: int = 40, epsilon: float = 1e-5):
        super().__init__()
        self.decay, self.reset_after, self.epsilon = decay, reset_after, epsilon
        self.register_buffer("codes", torch.zeros(size, dim))
        self.register_buffer("counts", torch.zeros(size))
        self.register_buffer("sums", torch.zeros(size, dim))
        self.register_buffer("unused", torch.zeros(size, dtype=torch.long))
        self.register_buffer("initialised", torch.tensor(False))

    def nearest(self, latents: Tensor) -> Tensor:
        """(..., D) to the index of the closest code (...)."""
        flat = latents.reshape(-1, latents.shape[-1]).float()
        distance = self.codes.square().sum(1) - 2 * flat @ self.codes.T  # |z|^2 is the same for all codes
        return distance.argmin(1).reshape(latents.shape[:-1])

    def lookup(self, indices: Tensor) -> Tensor:
        return F.embedding(indices, self.codes)

    @torch.no_grad()
    def initialise(self, latents: Tensor, generator: torch.Generator) -> None:
        """Codes start as latents of the first batch."""
        flat = self._gathered(latents.reshape(-1, latents.shape[-1]).float())
        self.codes.copy_(self._pick(flat, len(self.codes), generator))
        self.counts.fill_(1.0)
        self.sums.copy_(self.codes)
        self.initialised.fill_(True)

    @torch.no_grad()
    def update(self, latents: Tensor, indices: Tensor, generator: torch.Generator) -> int:
        """One moving-average step; returns how many dead codes were re-seeded."""
        flat, taken = latents.reshape(-1, latents.shape[-1]).float(), indices.reshape(-1)
        counts = torch.zeros_like(self.counts).index_add_(0, taken, torch.ones_like(taken, dtype=self.counts.dtype))
        sums = torch.zeros_like(self.sums).index_add_(0, taken, flat)
        if dist.is_initialized():
            dist.all_reduce(counts)
            dist.all_reduce(sums)
        self.counts.lerp_(counts, 1 - self.decay)
        self.sums.lerp_(sums, 1 - self.decay)
        total = self.counts.sum()
        smooth = (self.counts + self.epsilon) / (total + len(self.codes) * self.epsilon) * total  # Laplace
        self.codes.copy_(self.sums / smooth[:, None])

        self.unused.add_(1).masked_fill_(counts > 0, 0)
        dead = (self.unused >= self.reset_after).nonzero().squeeze(1)
        if len(dead):
            fresh = self._pick(self._gathered(flat), len(dead), generator)
            self.codes[dead] = fresh
            # the statistics too, or the old vector would come back with the next update
            self.counts[dead] = 1.0
            self.sums[dead] = fresh
            self.unused[dead] = 0
        return len(dead)

    @staticmethod
    def _pick(pool: Tensor, wanted: int, generator: torch.Generator) -> Tensor:
        """`wanted` random rows of the pool, without repeats as long as there are enough; the same on every rank."""
        rounds = -(-wanted // len(pool))
        chosen = torch.cat([torch.randperm(len(pool), generator=generator) for _ in range(rounds)])[:wanted]
        chosen = chosen.to(pool.device)
        if dist.is_initialized():
            dist.broadcast(chosen, 0)  # each rank has its own generator: rank 0's counts
        return pool[chosen]

    @staticmethod
    def _gathered(flat: Tensor) -> Tensor:
        """Latents of all ranks, in rank order."""
        if not dist.is_initialized():
            return flat
        parts = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, flat)
        return torch.cat(parts)
