"""Observations in the frame that suits the actions: the hand's, or the world's with motion beside it.

Where actions are displacements of the hand, what matters is where things are relative to it. With ten demonstrations
an absolute position tells *which demonstration this is*, and a model then plays that one back; relative ones do not.
The first three numbers of the state must be the hand's position; the following triples may be other points of the
gripper (`points` in all), and what comes after them, as an opening or joint angles, is no place and stays as it is.

Where actions are absolute places, the world's frame is the right one, and `with_motion` adds what it does not resolve.
"""

from __future__ import annotations

import torch
from torch import Tensor


def motion(history: Tensor, causal: bool) -> Tensor:
    """Of (B, H, S) each frame's difference from the newest; causal: from the one before it, the oldest has none."""
    return history - (torch.cat([history[:, :1], history[:, :-1]], dim=1) if causal else history[:, -1:])


def with_motion(state: Tensor, causal: bool = False) -> Tensor:
    """State history (B, H, S) to (B, H, 2 S): a few millimetres a step vanish in a state that spans half a metre.

    On their own they are normalised by their own limits, and tell rising from sinking.
    """
    return torch.cat([state, motion(state, causal)], dim=-1)


def cloud_to_hand(cloud: Tensor, hand: Tensor) -> Tensor:
    """Clouds (..., P, 3+) relative to the hand (..., 3) of their own frame; colours stay."""
    return move(cloud, -hand[..., None, :])


def move(cloud: Tensor, by: Tensor) -> Tensor:
    """Clouds (..., P, 3+) with xyz displaced."""
    return cloud + by if cloud.shape[-1] == 3 else torch.cat([cloud[..., :3] + by, cloud[..., 3:]], dim=-1)


def state_to_hand(state: Tensor, points: int, causal: bool = False) -> Tensor:
    """State history (B, H, S): gripper points relative to the hand; of the hand its motion, but height kept."""
    hand = state[..., :3]
    moved = motion(hand, causal)
    height = hand[..., 2:3]
    gripper = (state[..., 3 : 3 * points].unflatten(-1, (points - 1, 3)) - hand[..., None, :]).flatten(-2)
    return torch.cat([moved, height, gripper, state[..., 3 * points :]], dim=-1)
