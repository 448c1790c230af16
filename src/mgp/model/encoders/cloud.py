"""Point clouds: DP3's point encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgp.config import EncoderConfig


class PointNet(nn.Module):
    """The same MLP on every point, the maximum over points, a projection. F frames, P points.

    With `zoom`, a point is also seen through tanh(zoom * xyz): fine resolution near the origin, which is the hand, at
    the price of three more inputs a factor. A point is xyz and, with `width` above 3, its colour.
    """

    def __init__(self, hidden: tuple[int, ...], out: int, zoom: tuple[float, ...] = (), width: int = 3):
        super().__init__()
        self.zoom = zoom
        layers: list[nn.Module] = []
        for a, b in zip((width + 3 * len(zoom), *hidden[:-1]), hidden, strict=True):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.project = nn.Sequential(nn.Linear(hidden[-1], out), nn.LayerNorm(out))

    def forward(self, cloud: Tensor) -> Tensor:
        inputs = torch.cat([cloud, *(torch.tanh(factor * cloud[..., :3]) for factor in self.zoom)], dim=-1)
        return self.project(self.points(inputs).amax(dim=-2))  # (F, P, width) to (F, out)


def build(config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    return PointNet(config.hidden, config.dim, config.zoom, shape[-1])
