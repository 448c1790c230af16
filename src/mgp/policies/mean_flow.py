"""MP1: the network tells the average velocity of an interval, so that one step of any length is exact.

Time 0 are actions, time 1 is noise. B windows, O episodes, C condition width, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from mgp.config import fraction, not_negative
from mgp.policies.denoising import (
    METHOD,
    PAPER,
    PAPER_UNET,
    DenoisingConfig,
    DenoisingPolicy,
    randn_like,
    uniform,
    wide,
)
from mgp.policies.learned import Figures, Stage

Field = Callable[[Tensor, Tensor, Tensor], Tensor]  # (x, t, r) to the average velocity from r to t
SMALLEST = 1e-3  # added to squared errors before their weights are taken


@dataclass(frozen=True)
class MeanFlowConfig(DenoisingConfig):
    name: ClassVar[str] = "mean-flow"
    instantaneous: float = 0.5  # share of samples with r = t
    centre: float = -0.4  # of the normal distribution whose sigmoid are the times
    spread: float = 1.0  # of the same
    guidance: float = 1.0  # w in v = w v + (1 - w) u, which moves no fixed point; 2 as released
    dispersive: float = 0.5  # weight of the loss that spreads the encoder's features

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction(self, "instantaneous")
        not_negative(self, "dispersive")


class MeanFlow(DenoisingPolicy):
    """Kept: target v - (t - r) du/dt by a Jacobian-vector product, half of the samples with r = t, times as sigmoids of
    N(-.4, 1), squared error over its own root, a dispersive loss of weight .5, one step from noise. That loss spreads
    the features of the encoder; the release, those inside of its U-Net. The window is that of DP3, 16 and 8. Smaller in
    the default method: the widths of the U-Net, and no guidance, which costs a pass.
    """

    Config = MeanFlowConfig
    interval = True

    @property
    def options(self) -> MeanFlowConfig:
        return cast(MeanFlowConfig, self.config.policy)

    def average(self, x: Tensor, t: Tensor, r: Tensor, condition: Tensor) -> Tensor:
        return self.unet(x, t, condition, t - r)

    def times(self, actions: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """t >= r, both (B,)."""
        options = self.options
        drawn = options.centre + options.spread * torch.randn((2, len(actions)), generator=generator)
        t, r = drawn.sigmoid().to(actions.device).sort(0, descending=True).values
        return t, torch.where(uniform(actions, generator) < options.instantaneous, t, r)

    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        noise, (t, r) = randn_like(actions, generator), self.times(actions, generator)
        x, v = torch.lerp(actions, noise, wide(t)), noise - actions
        if self.options.guidance != 1:
            with torch.no_grad():
                v = torch.lerp(self.average(x, t, t, condition), v, self.options.guidance)
        told, target = average_velocity(lambda x, t, r: self.average(x, t, r, condition), x, t, r, v)
        error = (told - target).square().mean((1, 2))  # (B,)
        flow = (error / (error.detach() + SMALLEST).sqrt()).mean()
        spread = dispersive_loss(condition)
        return flow + self.options.dispersive * spread, {"error": error.mean(), "dispersive": spread}

    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        x = self.noise(generators)
        return x - self.average(x, x.new_ones(1), x.new_zeros(1), condition)


def average_velocity(field: Field, x: Tensor, t: Tensor, r: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """What the field tells (B, T, A), and what it should, without gradient: v - (t - r) du/dt along the flow."""
    along = (v, torch.ones_like(t), torch.zeros_like(r))
    told, change = torch.func.jvp(field, (x, t, r), along)  # type: ignore[misc]
    return told, (v - wide(t - r) * change).detach()


def dispersive_loss(features: Tensor) -> Tensor:
    """The lower, the farther the rows (B, C) are from each other; distances count relative to the largest."""
    squares = (features[:, None] - features[None]).square().sum(-1)  # (B, B)
    return (-squares / squares.max().clamp_min(1e-12)).exp().mean().log()


POLICY = MeanFlow
METHODS = {
    "mp1": replace(METHOD, policy=MeanFlowConfig()),
    "paper-mp1": replace(PAPER, policy=MeanFlowConfig(unet=PAPER_UNET, guidance=2.0)),
}
