"""FlowPolicy: a velocity field made straight by consistency, so that one step goes from noise to actions.

Time 0 is noise, time 1 are actions. B windows, O episodes, C condition width, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from mgp.config import Sampling, not_negative, positive
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

TIMES = 99.0  # a time in [0, 1] as the network's embedding sees it


@dataclass(frozen=True)
class FlowSampling(Sampling):
    execution_horizon: int = 8  # actions between two plans
    steps: int = 1  # of Euler, from noise to actions

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "steps")


@dataclass(frozen=True)
class FlowConfig(DenoisingConfig):
    name: ClassVar[str] = "flow"
    earliest: float = 0.01  # time where sampling starts, and the first that is trained
    apart: float = 0.01  # between the two times that must agree
    segments: int = 2  # parts of [0, 1] in each of which the field is to be straight
    velocity: float = 1e-5  # weight of |v_t - v_r|^2
    sampling: FlowSampling = field(default_factory=FlowSampling)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "earliest", "apart", "segments")
        not_negative(self, "velocity")


class Flow(DenoisingPolicy):
    """Kept: DP3's network; t ~ U(.01, 1) and r = t + .01; in each of two segments the ends that both times point to
    must agree, |f_t - f_r|^2 + 1e-5 |v_t - v_r|^2, with gradients through both (the release has no target network), and
    at r = 1 the end is the demonstration; one Euler step from t = .01. The window is that of DP3, 16 and 8. Smaller in
    the default method: the widths of the U-Net.
    """

    Config = FlowConfig

    @property
    def options(self) -> FlowConfig:
        return cast(FlowConfig, self.config.policy)

    def velocity(self, x: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        return self.unet(x, TIMES * time, condition)

    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        options, noise = self.options, randn_like(actions, generator)
        t = options.earliest + (1 - options.earliest) * uniform(actions, generator)  # (B,)
        r = (t + options.apart).clamp_max(1.0)
        end = (t * options.segments).ceil().clamp_min(1) / options.segments  # of the segment that t lies in
        at_t, at_r, at_end = (torch.lerp(noise, actions, wide(time)) for time in (t, r, end))  # (B, T, A)
        # one pass for both times, twice the batch
        both = self.velocity(torch.cat([at_t, at_r]), torch.cat([t, r]), condition.repeat(2, 1))
        v_t, v_r = both.chunk(2)
        to_t = at_t + wide(end - t) * v_t
        to_r = torch.where(wide(r) < 1, at_r + wide(end - r) * v_r, at_end)
        ends = (to_t - to_r).square().mean()
        inside = wide(end - t) > 1.01 * options.apart  # velocities of two segments need not agree
        velocities = ((v_t - v_r).square() * inside).mean()
        error = (v_t.detach() - (actions - noise)).square().mean()
        return ends + options.velocity * velocities, {"velocity_error": error}

    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        x, steps = self.noise(generators), self.options.sampling.steps
        for index in range(steps):
            time = self.options.earliest + index / steps * (1 - self.options.earliest)
            x = x + self.velocity(x, torch.full((1,), time, device=x.device), condition) / steps
        return x


POLICY = Flow
METHODS = {
    "flow-policy": replace(METHOD, policy=FlowConfig()),
    "paper-flow-policy": replace(PAPER, policy=FlowConfig(unet=PAPER_UNET)),
}
