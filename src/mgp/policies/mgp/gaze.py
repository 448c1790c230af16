"""Gaze: the places a plan leads to are looked at ahead of time, and what stands aside of them draws the plan to itself.

A plan remembers which thing comes next and where it was. Where the thing is now is seen best from that very place: the
points round it, relative to it, look alike for all things of a kind, wherever they stand. So little is to be learned,
and nothing by heart. What is rewritten at a look, and why, stays with the tokens (`sampling/long.py`).

B plans, O of them with an observation, J places of each, P points, T steps.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.data.demonstrations import Demonstrations
from mgp.data.windows import Batch, Looks, augment_cloud
from mgp.model.encoders.state import mlp
from mgp.policies.config import RunConfig

EVERY = 4  # steps between two places that are looked at
AHEAD = 60  # steps that are
CONTEXT = (-12, -8, -4, 4, 8, 12)  # steps before and after a place: the way there, which tells what is done there
COVERED = 0.08  # metres from the hand within which it covers what there is: what was seen before holds
SAME = 0.02  # metres by which a plan may have changed there in the meantime
ASIDE = 0.08  # metres at most by which training moves places aside
RADIUS = 0.15  # metres from a place within which points count, the less the farther
SHARE = 8  # one point in so many counts, the nearest ones
ZOOM = (4.0, 16.0)
WIDTHS = (64, 128)
UNIT = 0.1  # metres that are 1 to the network
SAMPLES = 8  # places of one training sample


class Gaze(nn.Module):
    def __init__(self, point: int):
        """`point`: numbers of one, xyz and perhaps its colour."""
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in zip((point + 3 * len(ZOOM), *WIDTHS[:-1]), WIDTHS, strict=True):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        self.points = nn.Sequential(*layers)
        self.head = mlp((WIDTHS[-1] + 1 + 3 * len(CONTEXT), 128, 2))

    def forward(self, cloud: Tensor, places: Tensor, ways: Tensor) -> Tensor:
        """How far aside (B, J, 2) of `places` (B, J, 3), on `ways` (B, J, W), clouds (B, P, 3+) show what is meant."""
        distance, nearest = torch.cdist(places, cloud[..., :3]).topk(
            max(1, cloud.shape[1] // SHARE), largest=False, sorted=False
        )  # (B, J, P')
        batch = torch.arange(len(cloud), device=cloud.device)[:, None, None]
        points = cloud[batch, nearest]  # (B, J, P', 3+)
        away = points[..., :3] - places[:, :, None]
        inputs = torch.cat([away, *(torch.tanh(factor * away) for factor in ZOOM), points[..., 3:]], dim=-1)
        near = (1 - (distance / RADIUS).square()).clamp_min(0)[..., None]
        seen = (self.points(inputs) * near).amax(2)  # (B, J, C)
        return UNIT * self.head(torch.cat([seen, places[..., 2:] / UNIT, ways], dim=-1))


def on_the_way(plan: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Of the places of plans (B, T, 3) those at steps (B, J): (B, J, 3), and the way there and on (B, J, W)."""

    def after(steps: int) -> Tensor:
        return plan.gather(1, (at + steps).clamp(0, plan.shape[1] - 1)[..., None].expand(-1, -1, 3))

    places = after(0)
    return places, torch.cat([after(steps) - places for steps in CONTEXT], dim=-1) / UNIT


class Aside:
    """How far aside the steps of B plans lead to what they mean, as it was last seen."""

    def __init__(self, batch: int, steps: int, device: torch.device):
        self.by = torch.zeros(batch, steps, 2, device=device)  # metres
        self.of = torch.full((batch, steps, 3), torch.inf, device=device)  # the place it was seen from

    def look(self, gaze: Gaze, rows: Tensor, cloud: Tensor, hand: Tensor, plan: Tensor, now: int) -> None:
        """From clouds (O, P, 3+) with the hand at (O, 3), by the places (O, T', 3) from step `now` on of plans `rows`.

        Where the hand is, what was seen before holds, if it was seen of the same plan.
        """
        at = torch.arange(EVERY - 1, min(plan.shape[1], AHEAD), EVERY, device=plan.device)  # (J,) from now
        if not len(at):
            return
        until = int(at[-1]) + 1
        places, ways = on_the_way(plan, at.expand(len(plan), -1))
        seen = gaze(cloud, places, ways)
        held = (places - self.of[rows][:, now + at]).norm(dim=-1, keepdim=True) < SAME
        covered = (places - hand[:, None]).norm(dim=-1, keepdim=True) < COVERED
        knots = torch.where(covered & held, self.by[rows][:, now + at], seen)  # (O, J, 2)
        start = self.by[rows, max(now - 1, 0)]  # nothing yet at step 0
        knots = torch.cat([start[:, None], knots], dim=1)
        share = (torch.arange(EVERY, device=plan.device) + 1)[:, None] / EVERY
        steps = torch.lerp(knots[:, :-1, None], knots[:, 1:, None], share)  # (O, J, EVERY, 2)
        self.by[rows, now : now + until] = steps.flatten(1, 2)
        self.of[rows, now : now + until] = plan[:, :until]


class GazeWindows:
    """What a demonstration sees now, and where it will go, as if its plan had been made before things were shifted."""

    def __init__(self, demonstrations: Demonstrations, config: RunConfig, key: str):
        self.demonstrations, self.config, self.key = demonstrations, config, key

    def draw(self, count: int, generator: torch.Generator) -> Batch:
        demos = self.demonstrations
        episode = torch.randint(len(demos.ends), (count,), generator=generator)
        time = demos.starts[episode] + (torch.rand(count, generator=generator) * demos.lengths[episode]).long()
        actions = demos.action_windows(time, AHEAD + CONTEXT[-1], episode)
        at = torch.randint(AHEAD, (count, SAMPLES), generator=generator)
        angle, far = torch.rand(2, count, generator=generator)
        aside = (ASIDE * far)[:, None] * torch.stack([(2 * math.pi * angle).cos(), (2 * math.pi * angle).sin()], dim=1)
        cloud = augment_cloud(demos.arrays[self.key][time], None, None, self.config.augmentation, generator)
        state = demos.arrays["state"][time][:, None]
        looks = Looks(state, {self.key: cloud}, torch.arange(count)[:, None], state[:, 0, :3])
        inside = torch.ones(actions.shape[:2], dtype=torch.bool)
        return Batch(looks, actions, inside, {"at": at, "aside": aside})


def gaze_loss(gaze: Gaze, batch: Batch, key: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Mean error, in `UNIT`, of how far places were moved aside; of those that the hand does not cover."""
    looks, aside = batch.looks, batch.extra["aside"][:, None]
    assert looks.hand is not None
    places, ways = on_the_way(batch.actions[..., :3], batch.extra["at"])
    moved = places + F.pad(aside, (0, 1))
    seen = gaze(looks.frames[key], moved, ways)
    free = ((places - looks.hand[:, None]).norm(dim=-1) > COVERED).float()  # (B, J)
    error = ((seen + aside).abs().sum(-1) * free).sum() / free.sum().clamp_min(1)
    return error / UNIT, {"aside": aside.norm(dim=-1).mean(), "error": error.detach()}
