"""The robot's state through a small MLP."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from mgp.config import EncoderConfig


def mlp(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def build(config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    """(F, S) to (F, dim)."""
    return mlp((shape[-1], config.dim, config.dim))
