"""Point clouds: DP3's point encoder."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import EncoderConfig
from mgp.graph import graph
from mgp.model.encoders.highest import Highest, first_highest
from mgp.model.rounding import rounded

FEW = 32  # points, below which the plain way is as fast
ROWS = 512  # points with a gradient are rounded up to this


class PointNet(nn.Module):
    """The same MLP on every point, the maximum over points, a projection. F frames, P points.

    With `zoom`, a point is also seen through tanh(zoom * xyz): fine resolution near the origin, which is the hand, at
    the price of three more inputs a factor. A point is xyz and, with `width` above 3, its colour.
    """

    def __init__(self, hidden: tuple[int, ...], out: int, zoom: tuple[float, ...] = (), width: int = 3):
        super().__init__()
        self.zoom, self.width = zoom, hidden[-1]
        layers: list[nn.Module] = []
        for a, b in zip((width + 3 * len(zoom), *hidden[:-1]), hidden, strict=True):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.project = nn.Sequential(nn.Linear(hidden[-1], out), nn.LayerNorm(out))

    @graph
    def forward(self, cloud: Tensor) -> Tensor:
        inputs = torch.cat([cloud, *(torch.tanh(factor * cloud[..., :3]) for factor in self.zoom)], dim=-1)
        learning = torch.is_grad_enabled() and self.points[0].weight.requires_grad
        if learning and cloud.shape[-2] >= FEW:
            return self.project(self._pooled(inputs))
        if torch.compiler.is_exporting():
            return self.project(self._highest(inputs))
        return self.project(self.points(inputs).amax(dim=-2))  # (F, P, width) to (F, out)

    def _highest(self, inputs: Tensor) -> Tensor:
        """The maximum over points (F, P, W) to (F, C) in a graph, where weights are constants.

        As in `_pooled`, centred weights of the right sign leave a root mean square of the last LayerNorm to each point,
        half of an engine's work for it, and its shift and the ReLU to the highest point alone.
        """
        norm = cast(nn.LayerNorm, self.points[-2])
        weight, bias, sign = self._centred()
        y = F.linear(self.points[:-3](inputs), weight, bias)  # (F, P, C)
        scaled = y / torch.sqrt(y.pow(2).mean(-1, keepdim=True) + norm.eps) * (norm.weight * sign)  # one operator there
        return F.relu(scaled.amax(dim=-2) + norm.bias)

    def _centred(self) -> tuple[Tensor, Tensor, Tensor]:
        """Weight, bias and sign (C,) of the last layer, so that its LayerNorm has nothing to centre or to turn over."""
        last, norm = cast(nn.Linear, self.points[-3]), cast(nn.LayerNorm, self.points[-2])
        sign = torch.where(norm.weight < 0, -1.0, 1.0)  # (C,)
        weight = (last.weight - last.weight.mean(0)) * sign[:, None]
        return weight, (last.bias - last.bias.mean()) * sign, sign

    def _pooled(self, inputs: Tensor) -> Tensor:
        """The maximum over points (F, P, W) to (F, C), with gradients at the price of the points that have any.

        Only a point that gives some feature its maximum gets a gradient; of 256 points, with 256 features, one in three
        does. So all points go through the layers without one, and those few once more through all but the last. In the
        last, weights that are centred and have the sign of the LayerNorm's scale leave of it a division by the root
        mean square, with the highest point where it was.
        """
        hidden, norm = self.points[:-3], cast(nn.LayerNorm, self.points[-2])
        weight, bias, sign = self._centred()
        with torch.no_grad():
            y = F.linear(hidden(inputs), weight, bias)  # (F, P, C)
            with torch.autocast(inputs.device.type, enabled=False):
                length = torch.linalg.vector_norm(y, dim=-1, keepdim=True).float()
                inverse = (length.square() / y.shape[-1] + norm.eps).rsqrt()
                unit = y.mul_(inverse.to(y.dtype))
            best = first_highest(unit)  # (F, C)
        frame = torch.arange(len(inputs), device=inputs.device)[:, None]
        chosen, place = (frame * inputs.shape[1] + best).unique(return_inverse=True)  # (U,), (F, C)
        rows = rounded(chosen, ROWS)
        x, unit, inverse = hidden(inputs.flatten(0, 1)[rows]), unit.flatten(0, 1)[rows], inverse.flatten(0, 1)[rows]
        return Highest.apply(x.to(unit.dtype), weight, bias, norm.weight * sign, norm.bias, unit, inverse, place)


def build(config: EncoderConfig, shape: tuple[int, ...]) -> nn.Module:
    return PointNet(config.hidden, config.dim, config.zoom, shape[-1])
