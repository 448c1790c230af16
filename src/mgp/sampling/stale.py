"""Plans that were right before something was shifted: what training shows beside the new scene.

ATR keeps what it does not doubt, so the network must learn to doubt what the scene has left behind. A demonstration's
own way, led aside for a while, is such a plan: it leaves the right way at the present, goes past where things are now,
and comes back, or does not if all that follows is shifted. Outside of this span it is right, memory and all. B
sequences, T steps, A action width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mgp.data.demonstrations import Demonstrations

SHIFT = (0.02, 0.4)  # how far aside, as a share of the span of the demonstrated ways: up to 8 cm on towel-nudged
RAMP = (4, 32)  # steps in which it is led aside, and back
LONGEST = 1.5  # of the steps that are left: where the span ends, so that one in three goes on to the end


def span(demonstrations: Demonstrations) -> float:
    """How far a demonstrated way leads in the plane, along the axis on which it is further, in the units of actions."""
    parts = demonstrations.arrays["action"][:, :2].split(demonstrations.lengths.tolist())
    ways = parts if demonstrations.meta["actions"] == "absolute" else [part.cumsum(0) for part in parts]
    return float(torch.stack([(way.amax(0) - way.amin(0)).max() for way in ways]).mean())


def led_aside(actions: Tensor, now: Tensor, scale: float, absolute: bool, generator: torch.Generator) -> Tensor:
    """Actions (B, T, A) as of a plan from before a shift that is seen at steps `now` (B,); `scale`: of `span`.

    Places are moved; displacements lead to the moved places.
    """
    batch, steps = actions.shape[:2]
    angle, far, end = torch.rand(3, batch, generator=generator)
    length = scale * (SHIFT[0] + (SHIFT[1] - SHIFT[0]) * far)
    aside = length[:, None] * torch.stack([(2 * torch.pi * angle).cos(), (2 * torch.pi * angle).sin()], 1)  # (B, 2)
    rise, fall = RAMP[0] + (RAMP[1] - RAMP[0]) * torch.rand(2, batch, 1, generator=generator)
    back = now + LONGEST * end * (steps - now)  # (B,)
    time = torch.arange(steps)
    share = ((time - now[:, None]) / rise).clamp(0, 1) * ((back[:, None] - time) / fall).clamp(0, 1)  # (B, T)
    offset = (share**2 * (3 - 2 * share))[..., None] * aside[:, None]  # (B, T, 2), smooth at both ends
    if not absolute:
        offset = offset.diff(dim=1, prepend=torch.zeros(batch, 1, 2))
    return torch.cat([actions[..., :2] + offset, actions[..., 2:]], dim=-1)
