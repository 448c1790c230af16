"""Observation encoders: the condition c_t of the paper, one embedding a frame.

B batch, H frames of history, F distinct frames, P points, S state width, C condition width.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from mgp.config import EncoderConfig


class PointNet(nn.Module):
    """DP3's point encoder: the same MLP on every point, the maximum over points, a projection.

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


def mlp(widths: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ConditionEncoder(nn.Module):
    """State MLP and, where there are clouds, a PointNet; concatenated for each frame.

    Several windows of a batch may share frames: `cloud` holds each distinct frame once and `index` says which window
    sees which. Without `index`, cloud is (B, H, P, W). W is 3, or 6 with colours; 0 means no clouds.
    """

    def __init__(self, config: EncoderConfig, state_width: int, cloud_width: int):
        super().__init__()
        self.state = mlp((state_width, *config.state_hidden, config.state_dim))
        self.cloud = PointNet(config.hidden, config.cloud_dim, config.zoom, cloud_width) if cloud_width else None
        self.dim = config.state_dim + (config.cloud_dim if cloud_width else 0)

    def forward(self, state: Tensor, cloud: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """State (B, H, S), cloud (F, P, W) with index (B, H), to the condition (B, H, C)."""
        features = self.state(state)
        if self.cloud is None:
            return features
        assert cloud is not None, "this encoder was built for clouds"
        if index is None:
            seen = self.cloud(cloud.flatten(0, 1)).unflatten(0, cloud.shape[:2])
        else:
            seen = self.cloud(cloud)[index]
        return torch.cat([features, seen], dim=-1)
