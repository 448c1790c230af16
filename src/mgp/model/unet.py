"""The 1-D U-Net over a chunk of actions that Diffusion Policy, DP3 and their successors share.

Convolutions along time; observation and step reach every residual block as a scale and a shift of its channels (FiLM).
B chunks, T actions, A action width, W channels, C condition width, D width of the step's embedding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import fraction, positive
from mgp.errors import ConfigError
from mgp.graph import graph


@dataclass(frozen=True)
class UNetConfig:
    widths: tuple[int, ...] = (32, 64, 128)  # channels of each stage; between two of them time is halved
    blocks: int = 2  # residual blocks of a stage; 1 in Simple-DP3
    kernel: int = 5  # actions that a convolution sees
    groups: int = 8  # of the group norms; divides each width
    step_dim: int = 64  # D; 128 as released
    dropout: float = 0.0  # in each residual block

    def __post_init__(self) -> None:
        positive(self, "blocks", "kernel", "groups", "step_dim")
        fraction(self, "dropout")
        if not self.widths or any(width % self.groups for width in self.widths):
            raise ConfigError(f"unet.widths = {self.widths} must be multiples of unet.groups = {self.groups}")
        if self.kernel % 2 == 0 or self.step_dim % 2:
            raise ConfigError(
                f"unet.kernel = {self.kernel} must be odd, to keep the length, and unet.step_dim = {self.step_dim} even"
            )

    @property
    def multiple(self) -> int:
        """Lengths are padded to a multiple of this."""
        return 2 ** (len(self.widths) - 1)


class StepEmbedding(nn.Module):
    """A time (B,) to (B, D): sines of many wavelengths, then an MLP."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.Mish(), nn.Linear(4 * dim, dim))

    def forward(self, step: Tensor) -> Tensor:
        half = self.dim // 2
        rates = torch.exp(-math.log(10_000) / max(1, half - 1) * torch.arange(half, device=step.device))
        angle = step.float()[:, None] * rates
        return self.mlp(torch.cat([angle.sin(), angle.cos()], dim=-1))


def convolution(inner: int, outer: int, config: UNetConfig) -> nn.Sequential:
    padded = nn.Conv1d(inner, outer, config.kernel, padding=config.kernel // 2)
    return nn.Sequential(padded, nn.GroupNorm(config.groups, outer), nn.Mish())


class ResidualBlock(nn.Module):
    def __init__(self, inner: int, outer: int, condition: int, config: UNetConfig):
        super().__init__()
        self.first, self.second = convolution(inner, outer, config), convolution(outer, outer, config)
        self.film = nn.Sequential(nn.Mish(), nn.Linear(condition, 2 * outer))
        self.dropout = nn.Dropout(config.dropout)
        self.skip = nn.Conv1d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """x (B, W, T), condition (B, D + C)."""
        scale, shift = self.film(condition)[..., None].chunk(2, dim=1)
        return self.second(self.dropout(scale * self.first(x) + shift)) + self.skip(x)


class Blocks(nn.ModuleList):
    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        for block in self:
            x = block(x, condition)
        return x


class UNet(nn.Module):
    """Actions (B, T, A) at a step (B,) under a condition (B, C) to as many numbers. Any length: it is padded inside.

    With `interval`, a second time goes in (where to stop, or how far to go); it starts without influence.
    """

    def __init__(self, config: UNetConfig, actions: int, condition: int, interval: bool = False):
        super().__init__()
        self.config = config
        self.step = StepEmbedding(config.step_dim)
        self.interval = StepEmbedding(config.step_dim) if interval else None
        if self.interval is not None:
            for weight in self.interval.mlp[-1].parameters():
                nn.init.zeros_(weight)
        widths, total = config.widths, config.step_dim + condition

        def stage(inner: int, outer: int) -> Blocks:
            sizes = [inner] + [outer] * config.blocks
            return Blocks(ResidualBlock(a, b, total, config) for a, b in pairwise(sizes))

        self.down = nn.ModuleList(stage(a, b) for a, b in pairwise((actions, *widths)))
        self.shrink = nn.ModuleList(nn.Conv1d(width, width, 3, stride=2, padding=1) for width in widths[:-1])
        self.middle = stage(widths[-1], widths[-1])
        # as released: the widest stage sees its own skip, the first stage's goes unused
        self.up = nn.ModuleList(stage(2 * b, a) for a, b in reversed(list(pairwise(widths))))
        self.grow = nn.ModuleList(nn.ConvTranspose1d(w, w, 4, stride=2, padding=1) for w in reversed(widths[:-1]))
        self.out = nn.Sequential(convolution(widths[0], widths[0], config), nn.Conv1d(widths[0], actions, 1))

    @graph
    def forward(self, x: Tensor, step: Tensor, condition: Tensor, interval: Tensor | None = None) -> Tensor:
        length = x.shape[1]
        embedded = self.step(step.expand(len(x)))
        if self.interval is not None:
            assert interval is not None, "this network wants a second time"
            embedded = embedded + self.interval(interval.expand(len(x)))
        condition = torch.cat([embedded, condition], dim=-1)  # (B, D + C)
        # the last action goes on for as long as the strides need
        x = F.pad(x.transpose(1, 2), (0, -length % self.config.multiple), mode="replicate")  # (B, A, T')
        skips: list[Tensor] = []
        for number, stage in enumerate(self.down):
            x = stage(x, condition)
            skips.append(x)
            x = self.shrink[number](x) if number < len(self.shrink) else x
        x = self.middle(x, condition)
        for stage, grow in zip(self.up, self.grow, strict=True):
            x = grow(stage(torch.cat([x, skips.pop()], dim=1), condition))
        return self.out(x)[..., :length].transpose(1, 2).float()  # (B, T, A)
