"""Masked Generative Transformer (paper, section "Masked Generative Transformer").

Encoder-only: cross-attention layers to the observation, then self-attention layers among the tokens, all in parallel.
B batch, N tokens, H observation frames, D model width, K codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import choices, not_negative, positive
from mgp.errors import ConfigError
from mgp.graph import graph, logits


@dataclass(frozen=True)
class TransformerConfig:
    dim: int = 128  # 256 in the paper
    heads: int = 4
    cross_layers: int = 2  # attention to the observation, first
    self_layers: int = 2  # attention among tokens, after
    local: int = 0  # neighbours on either side that a convolution shows each token before attention; 0 = none
    # a token's place; relative: its index minus the executed tokens; absolute: its index (paper); both: each of the two
    time: Literal["relative", "absolute", "both"] = "relative"

    def __post_init__(self) -> None:
        choices(self)
        positive(self, "dim", "heads")
        not_negative(self, "cross_layers", "self_layers", "local")
        if self.dim % self.heads:
            raise ConfigError(f"transformer.dim = {self.dim} is no multiple of heads = {self.heads}")


@dataclass(frozen=True)
class Vocabulary:
    """Codes are 0 .. codes-1; the specials follow. Only codes and [END] are ever predicted."""

    codes: int

    @property
    def end(self) -> int:
        return self.codes

    @property
    def pad(self) -> int:
        return self.codes + 1

    @property
    def mask(self) -> int:
        return self.codes + 2

    @property
    def predicted(self) -> int:
        """Width of the logits: codes and [END]."""
        return self.codes + 1


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scaled dot-product attention of (B, heads, N, d) to (B, heads, M, d).

    PyTorch's fused kernel is slow to train on a CPU: with 125 tokens in bfloat16 these two products take a third of its
    time, and a step of MGP-Long takes 0.6, of MGP-Short 0.8 of what it took. To act, the kernel is faster.
    """
    if q.device.type != "cpu" or not torch.is_grad_enabled():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, source_dim: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key_value = nn.Linear(source_dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, source: Tensor, allowed: Tensor | None = None, wanted: Tensor | None = None) -> Tensor:
        """x (B, N, D) attends to source (B, S, D') where `allowed` (B, S) is true.

        `wanted` (M,) of all B * N: only these tokens come out, (M, D).
        """
        return self.look(x, self.keys_values(source), allowed, wanted)

    def keys_values(self, source: Tensor) -> Tensor:
        """Of a source (B, S, D'), (B, 2 heads, S, d)."""
        return self.key_value(source).unflatten(-1, (2 * self.heads, -1)).transpose(1, 2)

    def look(
        self, x: Tensor, keys_values: Tensor, allowed: Tensor | None = None, wanted: Tensor | None = None
    ) -> Tensor:
        """x (B, N, D) attends to a source by its keys and values."""
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, heads, N, d)
        k, v = keys_values.chunk(2, dim=1)
        mask = None if allowed is None else allowed[:, None, None, :]
        seen = attend(q, k, v, mask).transpose(1, 2).flatten(-2)  # (B, N, D)
        return self.out(seen if wanted is None else seen.flatten(0, 1)[wanted])


class Block(nn.Module):
    """Pre-norm attention and MLP; attends to `source` if given, else to the tokens themselves."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm_attention, self.norm_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(
        self, x: Tensor, source: Tensor | None = None, allowed: Tensor | None = None, wanted: Tensor | None = None
    ) -> Tensor:
        """(B, N, D) to the same; `wanted` (M,) of all B * N: to these tokens only, (M, D)."""
        normed = self.norm_attention(x)
        seen = self.attention(normed, normed if source is None else source, allowed, wanted)
        x = (x if wanted is None else x.flatten(0, 1)[wanted]) + seen
        return x + self.mlp(self.norm_mlp(x))

    def keys_values(self, source: Tensor) -> Tensor:
        return self.attention.keys_values(source)

    def across(self, x: Tensor, keys_values: Tensor) -> Tensor:
        """x (B, N, D) attends to a source whose keys and values are known."""
        x = x + self.attention.look(self.norm_attention(x), keys_values)
        return x + self.mlp(self.norm_mlp(x))

    def among(self, x: Tensor, wanted: Tensor) -> Tensor:
        """The tokens x (B, N, D) attend to themselves; what comes of those at `wanted` (B, P) alone, (B, P, D)."""
        normed = self.norm_attention(x)
        x = at(x, wanted) + self.attention(at(normed, wanted), normed)
        return x + self.mlp(self.norm_mlp(x))


def _blocks(layers: nn.ModuleList) -> list[Block]:
    return cast(list[Block], list(layers))


def at(x: Tensor, place: Tensor) -> Tensor:
    """Rows of x (B, N, D) at places (B, P), (B, P, D)."""
    return x.gather(1, place[..., None].expand(-1, -1, x.shape[-1]))


class MaskedTransformer(nn.Module):
    code_vectors: Tensor  # (K, code width)
    code_scale: Tensor  # ()

    def __init__(self, config: TransformerConfig, codebook: Tensor, condition_dim: int, frames: int, tokens: int):
        """`frames` of a condition, at most `tokens` of a plan."""
        super().__init__()
        self.config, self.tokens = config, tokens
        codes, code_dim = codebook.shape
        self.vocabulary = Vocabulary(codes)
        # The tokenizer's own vectors, frozen, embed the codes; specials have learned ones.
        self.register_buffer("code_vectors", codebook.detach().clone())
        self.register_buffer("code_scale", codebook.std().clamp_min(1e-6).detach().clone())
        self.embed_code = nn.Linear(code_dim, config.dim)
        self.embed_special = nn.Parameter(0.02 * torch.randn(3, config.dim))  # [END], [PAD], [MASK]
        self.embed_condition = nn.Linear(condition_dim, config.dim)
        self.embed_frame = nn.Parameter(0.02 * torch.randn(frames, config.dim))
        positions = tokens * (1 if config.time == "absolute" else 2)
        self.embed_time = nn.Parameter(0.02 * torch.randn(positions, config.dim))
        self.embed_index = nn.Parameter(0.02 * torch.randn(tokens, config.dim)) if config.time == "both" else None
        # Attention must first learn where a token's neighbours are; a convolution knows
        self.local = (
            nn.Conv1d(config.dim, config.dim, 2 * config.local + 1, padding=config.local) if config.local else None
        )
        self.cross = nn.ModuleList(Block(config.dim, config.heads) for _ in range(config.cross_layers))
        self.selfs = nn.ModuleList(Block(config.dim, config.heads) for _ in range(config.self_layers))
        self.norm_condition, self.norm_out = nn.LayerNorm(config.dim), nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, self.vocabulary.predicted)

    def forward(self, tokens: Tensor, condition: Tensor, executed: Tensor, wanted: Tensor | None = None) -> Tensor:
        """Tokens (B, N) with [MASK]s, condition (B, H, C), executed (B,) tokens so far, to logits (B, N, K + 1).

        `wanted` (M,) of all B * N: of these tokens only, (M, K + 1), in training.
        """
        pad = tokens == self.vocabulary.pad
        place = torch.arange(tokens.shape[1], device=tokens.device)[None].expand_as(tokens)
        x = self.embed(tokens, place, executed)
        source = self.source(condition)
        for block in self.cross:
            x = block(x, source)
        allowed = ~pad if bool(pad.any()) else None
        for block in self.selfs[:-1]:
            x = block(x, allowed=allowed)
        for block in self.selfs[-1:]:  # what nobody asks for need not go through the last one
            x = block(x, allowed=allowed, wanted=wanted)
        if wanted is not None and not self.selfs:
            x = x.flatten(0, 1)[wanted]
        return self.head(self.norm_out(x)).float()

    def embed(self, tokens: Tensor, place: Tensor, executed: Tensor) -> Tensor:
        """Tokens (B, M) at their places (B, M) of the plan, (B, M, D). With `local`: the whole plan, in order."""
        vocabulary = self.vocabulary
        if torch.compiler.is_exporting():  # in a graph all embeddings are one constant
            codes = self.embed_code(self.code_vectors / self.code_scale)
            x = F.embedding(tokens, torch.cat([codes, self.embed_special]))
        else:
            special = tokens >= vocabulary.codes
            x = self.embed_code(self.code_vectors[tokens.masked_fill(special, 0)] / self.code_scale)
            x = torch.where(special[..., None], self.embed_special[(tokens - vocabulary.codes).clamp_min(0)], x)
        if self.embed_index is not None:
            x = x + F.embedding(place, self.embed_index)
        if self.config.time != "absolute":
            place = place - executed[:, None] + self.tokens
        x = x + F.embedding(place, self.embed_time)
        if self.local is not None:
            known = x.masked_fill((tokens == vocabulary.pad)[..., None], 0.0)  # [PAD] tells nobody anything
            x = x + self.local(known.transpose(1, 2)).transpose(1, 2)
        return x

    def source(self, condition: Tensor) -> Tensor:
        """What tokens attend to of a condition (B, H, C), (B, H, D)."""
        return self.norm_condition(self.embed_condition(condition) + self.embed_frame)

    # --- acting: what `forward` does in one go, in the steps that a plan repeats (`model/reading.py`) --------------

    @graph
    def keys_values(self, condition: Tensor) -> Tensor:
        """What every pass reads of the condition (B, H, C): (B, cross layers, 2 heads, H, d)."""
        source = self.source(condition)
        return torch.stack([block.keys_values(source) for block in _blocks(self.cross)], dim=1)

    @graph
    def read(self, tokens: Tensor, place: Tensor, executed: Tensor, keys_values: Tensor) -> Tensor:
        """Tokens (B, M) at places (B, M) after the cross-attention layers, (B, M, D).

        So far a token knows itself, its place and the condition, and nothing of other tokens (`local` aside).
        """
        x = self.embed(tokens, place, executed)
        for index, block in enumerate(_blocks(self.cross)):
            x = block.across(x, keys_values[:, index])
        return x

    @logits
    @graph
    def answer(self, x: Tensor, wanted: Tensor) -> Tensor:
        """All tokens as they were read (B, N, D) to the logits of those at places `wanted` (B, P), (B, P, K + 1)."""
        blocks = _blocks(self.selfs)
        for block in blocks[:-1]:
            x = block(x)
        x = blocks[-1].among(x, wanted) if blocks else at(x, wanted)
        return self.head(self.norm_out(x)).float()
