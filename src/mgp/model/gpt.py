"""A small causal transformer, shared by the policies that speak in tokens.

B batch, N new places, M places there are, D model width.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from mgp.config import not_negative, positive
from mgp.errors import ConfigError
from mgp.graph import graph
from mgp.model.transformer import Attention, attend


@dataclass(frozen=True)
class GPTConfig:
    dim: int = 128
    heads: int = 4
    layers: int = 4
    head: int = 0  # width of a head; 0 = dim / heads
    dropout: float = 0.0  # of embeddings, and of what each layer adds

    def __post_init__(self) -> None:
        positive(self, "dim", "heads", "layers")
        not_negative(self, "head", "dropout")
        if not self.head and self.dim % self.heads:
            raise ConfigError(f"dim = {self.dim} is no multiple of heads = {self.heads}: change one, or say head")


@dataclass
class Cache:
    """Keys and values of the places so far, a pair a layer: decoding then pays for new places only."""

    layers: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # each (B, heads, M, d)

    @property
    def length(self) -> int:
        return self.layers[0][0].shape[2] if self.layers else 0


class CausalBlock(nn.Module):
    """Pre-norm: attention to earlier places, to a source if there is one, and an MLP."""

    def __init__(self, config: GPTConfig, source: bool = False):
        super().__init__()
        dim, inner = config.dim, config.heads * (config.head or config.dim // config.heads)
        self.heads = config.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query_key_value, self.out = nn.Linear(dim, 3 * inner), nn.Linear(inner, dim)
        self.norm_source = nn.LayerNorm(dim) if source else None
        self.source = Attention(dim, config.heads, dim) if source else None
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor] | None = None, source: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (B, N, D) after `past`; `mask` (N, M) says who sees whom. Also gives keys and values (B, heads, M, d)."""
        joint = self.query_key_value(self.norm_attention(x)).unflatten(-1, (3 * self.heads, -1)).transpose(1, 2)
        q, k, v = joint.chunk(3, dim=1)  # (B, heads, N, d)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        x = x + self.dropout(self.out(attend(q, k, v, mask).transpose(1, 2).flatten(-2)))
        if self.source is not None and self.norm_source is not None:
            assert source is not None, "these layers were built to look at a source"
            x = x + self.dropout(self.source(self.norm_source(x), source))
        return x + self.dropout(self.mlp(self.norm_mlp(x))), (k, v)


class GPT(nn.Module):
    """Embedded places in, features out, each of what stands before it; conditions are simply the first places."""

    def __init__(self, config: GPTConfig, length: int, source: bool = False):
        """`length`: most places there are; `source`: whether each layer also attends to one (B, S, D)."""
        super().__init__()
        self.config, self.length = config, length
        self.place = nn.Parameter(0.02 * torch.randn(length, config.dim))
        self.blocks = nn.ModuleList(CausalBlock(config, source) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.dim)
        self.dropout = nn.Dropout(config.dropout)

    @graph
    def forward(self, x: Tensor, cache: Cache | None = None, source: Tensor | None = None) -> Tensor:
        """x (B, N, D) to features (B, N, D). With a cache, x are the places after those in it, and join them."""
        before = cache.length if cache else 0
        total = before + x.shape[1]
        if total > self.length:
            raise ConfigError(f"{total} places, but the transformer was built for {self.length}: build it longer")
        x = self.dropout(x + self.place[before:total])
        mask = None
        if x.shape[1] > 1:
            mask = torch.ones(x.shape[1], total, dtype=torch.bool, device=x.device).tril(before)
        for index, block in enumerate(self.blocks):
            x, kept = block(x, mask, cache.layers[index] if before and cache else None, source)
            if cache is not None:
                cache.layers[index : index + 1] = [kept]
        return self.norm(x)
