"""1-D convolution stack of the tokenizer: actions (B, A, T) to latents (B, D, N) and back."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from mgp.graph import graph

RESIDUAL_BLOCKS, DILATION_GROWTH = 2, 3  # of each stage, as in the lineage


class ResidualBlock(nn.Module):
    """Pre-activation: dilated Conv3, then Conv1."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def _residual(width: int) -> list[nn.Module]:
    return [ResidualBlock(width, DILATION_GROWTH**i) for i in range(RESIDUAL_BLOCKS)]


class Encoder(nn.Module):
    """(B, A, T) to (B, D, N): the convolution stack of the lineage, beside a linear map of each token's own actions.

    The linear path is a deviation from the paper: the stack alone needs tens of thousands of steps to place an abrupt
    change inside a token. With it the code space starts out as a linear image of the actions, so that near codes mean
    near actions, and a few hundred steps do (docs/method.md has the figures).
    """

    def __init__(self, action_dim: int, width: int, out: int, stages: int, linear_path: bool = True):
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(action_dim, width, 3, padding=1), nn.ReLU()]
        for _ in range(stages):
            layers += [nn.Conv1d(width, width, 4, stride=2, padding=1), *_residual(width)]
        last = nn.Conv1d(width, out, 3, padding=1)
        self.stack = nn.Sequential(*layers, _quiet(last) if linear_path else last)
        self.patch = nn.Conv1d(action_dim, out, 2**stages, stride=2**stages) if linear_path else None
        if self.patch is not None:
            nn.init.orthogonal_(self.patch.weight.view(out, -1))

    def forward(self, actions: Tensor) -> Tensor:
        out = self.stack(actions)
        return out if self.patch is None else self.patch(actions) + out


class Decoder(nn.Module):
    """(B, D, N) to (B, A, T): the mirror image of `Encoder`, with nearest up-sampling."""

    def __init__(self, action_dim: int, width: int, inner: int, stages: int, linear_path: bool = True):
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(inner, width, 3, padding=1), nn.ReLU()]
        for _ in range(stages):
            layers += [
                *reversed(_residual(width)),
                nn.Upsample(scale_factor=2, mode="nearest"),
                nn.Conv1d(width, width, 3, padding=1),
            ]
        last = nn.Conv1d(width, action_dim, 3, padding=1)
        self.stack = nn.Sequential(*layers, nn.ReLU(), _quiet(last) if linear_path else last)
        self.patch = nn.ConvTranspose1d(inner, action_dim, 2**stages, stride=2**stages) if linear_path else None
        if self.patch is not None:
            nn.init.orthogonal_(self.patch.weight.view(inner, -1))
        # tokens on either side that an action depends on: a stage works at twice the rate of the one before
        widest = sum(DILATION_GROWTH**i for i in range(RESIDUAL_BLOCKS))
        rates = [2.0**stage for stage in range(stages)]
        self.reach = math.ceil(1 + sum(widest / rate + 0.5 / rate for rate in rates) + 0.5**stages)

    @graph
    def forward(self, latents: Tensor) -> Tensor:
        out = self.stack(latents)
        return out if self.patch is None else self.patch(latents) + out


def _quiet(layer: nn.Conv1d) -> nn.Conv1d:
    """Starts at zero, so that the linear path leads at first."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return layer


class CausalConv(nn.Module):
    def __init__(self, dim: int, kernel: int, stride: int):
        super().__init__()
        self.before = kernel - 1
        self.conv, self.norm = nn.Conv1d(dim, dim, kernel, stride), nn.LayerNorm(dim)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to (B, T / stride, D); a place sees nothing after it."""
        out = self.conv(F.pad(x.transpose(1, 2), (self.before, 0))).transpose(1, 2)
        return F.mish(self.norm(out))
