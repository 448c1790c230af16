"""Images, colour (F, H, W, 3) uint8 or depth (F, H, W) in metres: convolutions and a spatial soft-argmax."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgp.config import EncoderConfig
from mgp.graph import graph

WIDTHS = (32, 64, 64, 64)  # channels after each halving; 128 pixels become 8 x 8 places
GROUPS = 8  # of group normalisation, which unlike batch normalisation bears averaged weights


class ImageEncoder(nn.Module):
    """Where each feature is in the image, and how strong it is there."""

    def __init__(self, channels: int, out: int):
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in zip((channels, *WIDTHS[:-1]), WIDTHS, strict=True):
            layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.GroupNorm(GROUPS, b), nn.ReLU()]
        self.stack = nn.Sequential(*layers)
        self.project = nn.Sequential(nn.Linear(3 * WIDTHS[-1], out), nn.LayerNorm(out))

    @graph
    def forward(self, image: Tensor) -> Tensor:
        pixels = image[..., None] if image.ndim == 3 else image
        scaled = pixels.float() / 127.5 - 1 if pixels.dtype == torch.uint8 else pixels.float()
        features = self.stack(scaled.movedim(-1, 1))  # (F, C, h, w)
        share = features.flatten(2).float().softmax(-1)  # (F, C, h w)
        rows = torch.linspace(-1, 1, features.shape[2], device=image.device).repeat_interleave(features.shape[3])
        columns = torch.linspace(-1, 1, features.shape[3], device=image.device).repeat(features.shape[2])
        peak = (share * features.flatten(2)).sum(-1)
        return self.project(torch.cat([share @ rows, share @ columns, peak], dim=-1))


def build(config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    return ImageEncoder(shape[2] if len(shape) == 3 else 1, config.dim)
