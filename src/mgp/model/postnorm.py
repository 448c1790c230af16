"""A transformer layer that normalises after adding, as the first ones did and ACT still does."""

from __future__ import annotations

from torch import Tensor, nn

from mgp.model.transformer import Attention


class PostNorm(nn.Module):
    """Attention among tokens (B, N, D), to a source (B, S, D) if it is built for one, and an MLP."""

    def __init__(self, dim: int, heads: int, feedforward: int, dropout: float, source: bool = False):
        super().__init__()
        self.attention = nn.ModuleList(Attention(dim, heads, dim) for _ in range(1 + source))
        self.mlp = nn.Sequential(nn.Linear(dim, feedforward), nn.ReLU(), nn.Linear(feedforward, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 + source))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, source: Tensor | None = None, allowed: Tensor | None = None) -> Tensor:
        """`allowed` (B, N): which of the tokens are looked at."""
        x = self.norms[0](x + self.dropout(self.attention[0](x, x, allowed)))
        if source is not None:
            x = self.norms[1](x + self.dropout(self.attention[1](x, source)))
        return self.norms[-1](x + self.dropout(self.mlp(x)))
