"""The maximum over points of a layer's features, found and differentiated at the price of what counts.

F frames, P points, U points that give some feature its maximum, K features before the layer, C after it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def first_highest(x: Tensor) -> Tensor:
    """Where (F, P, C) is highest over P, (F, C): `x.max(dim=1).indices` by a knock-out, in half the time."""
    rounds = [x]
    while rounds[-1].shape[1] > 1:
        half = (rounds[-1].shape[1] + 1) // 2
        rounds.append(torch.maximum(rounds[-1][:, :half], rounds[-1][:, -half:]))
    highest = rounds.pop()  # (F, 1, C)
    place = torch.zeros_like(highest, dtype=torch.long)
    for players in reversed(rounds):  # the winner was here, or in the other half
        place.add_(players.gather(1, place) != highest, alpha=players.shape[1] // 2)
    return place.squeeze(1)


class Highest(torch.autograd.Function):
    """relu(scale * unit + shift) of each feature's own point, (F, C), where unit = y / rms(y), y = x weight^T + bias.

    What comes out is known from the pass that found the points. A gradient reaches one number in P of y directly, and
    the others only through the root mean square of their point, which takes one product instead of a LayerNorm's many.
    """

    @staticmethod
    def forward(
        ctx,
        x: Tensor,  # (U, K)
        weight: Tensor,  # (C, K)
        bias: Tensor,  # (C,)
        scale: Tensor,  # (C,)
        shift: Tensor,  # (C,)
        unit: Tensor,  # (U, C)
        inverse: Tensor,  # (U, 1) one over the root mean square
        place: Tensor,  # (F, C) which of the U points each feature is taken from
    ) -> Tensor:
        top = unit.gather(0, place).float()  # (F, C)
        out = (top * scale + shift).relu_()
        ctx.save_for_backward(x, weight.to(x.dtype), scale, unit, inverse, place, top, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        x, weight, scale, unit, inverse, place, top, out = ctx.saved_tensors
        grad = grad.float() * (out > 0)  # (F, C)
        pull = grad * scale
        along = torch.zeros_like(inverse).index_add_(0, place.flatten(), (pull * top).view(-1, 1)) / unit.shape[1]
        moved = unit * (-along * inverse).to(unit.dtype)  # (U, C), gradient of y
        moved.scatter_add_(0, place, (pull * inverse[place].squeeze(-1)).to(unit.dtype))
        parameters = (moved.T @ x).to(scale.dtype), moved.sum(0).to(scale.dtype), (grad * top).sum(0), grad.sum(0)
        return moved @ weight, *parameters, None, None, None
