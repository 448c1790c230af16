"""Demonstrations seen through a small linear map of the plane about the hand: turned and stretched.

Ten demonstrations show ten places of an object, and in them the distances in x and in y shrink together: a policy then
takes one for the other. Where actions are displacements of the hand, a map M of the horizontal plane, applied to what
lies round the hand and to the actions alike, gives another consistent demonstration: an expert that moves in proportion
to the distance does M a where it did a. Everything here works on raw, world-frame arrays.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgp.config import AugmentationConfig
from mgp.data.frames import move


def draw_warps(count: int, config: AugmentationConfig, generator: torch.Generator) -> Tensor | None:
    """Random maps (count, 2, 2): rotation by up to `rotation` degrees, each axis stretched by up to `stretch`.

    Small ones come most often, since where an object always stands in one place, precision there matters more than
    variety. But no share is left as demonstrated: of scenes that are, ten answers would be learned by heart.
    """
    if not config.warps:
        return None
    angle = math.radians(config.rotation) * _mostly_small(count, generator=generator)
    stretch = 1 + config.stretch * _mostly_small(count, 2, generator=generator)
    rows = [torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)]
    return torch.stack(rows, 1) * stretch[:, None, :]


def _mostly_small(*shape: int, generator: torch.Generator) -> Tensor:
    """Numbers in -1..1, half of them within a quarter of 0."""
    even = 2 * torch.rand(shape, generator=generator) - 1
    return even * even.abs()


def _turn(points: Tensor, warp: Tensor) -> Tensor:
    """Horizontal part of points (G, ..., 3+) through maps (G, 2, 2)."""
    plane = torch.einsum("gij,g...j->g...i", warp, points[..., :2])
    return torch.cat([plane, points[..., 2:]], dim=-1)


def warp_cloud(cloud: Tensor, hand: Tensor, warp: Tensor) -> Tensor:
    """Clouds (F, P, 3+) about the hand of their frames (F, 3)."""
    return move(_turn(move(cloud, -hand[:, None]), warp), hand[:, None])


def warp_state(state: Tensor, warp: Tensor, points: int) -> Tensor:
    """State histories (B, H, S) about the newest hand; the gripper keeps its own shape and moves with the hand.

    Only the first `points` triples are places that move.
    """
    hand = state[..., :3]
    newest = hand[:, -1:]
    shift = newest + _turn(hand - newest, warp) - hand
    places = state[..., : 3 * points].unflatten(-1, (points, 3)) + shift[..., None, :]
    return torch.cat([places.flatten(-2), state[..., 3 * points :]], dim=-1)


def warp_actions(actions: Tensor, warp: Tensor) -> Tensor:
    """Actions (B, T, A), whose first two numbers are horizontal displacements."""
    return _turn(actions, warp)
