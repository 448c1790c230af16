"""MIP, the minimal iterative policy: regress the actions, then regress them again from a noised first guess.

B windows, O episodes, C condition width, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from mgp.errors import ConfigError
from mgp.policies.denoising import METHOD, PAPER, PAPER_UNET, DenoisingConfig, DenoisingPolicy, randn_like
from mgp.policies.learned import Figures, Stage

TIMES = 100.0  # a time in [0, 1] as the network's embedding sees it


@dataclass(frozen=True)
class MIPConfig(DenoisingConfig):
    name: ClassVar[str] = "mip"
    second: float = 0.9  # time of the second pass; its guess carries noise of 1 - second, and the losses their inverses

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.second < 1:
            raise ConfigError(f"MIPConfig.second = {self.second}: must lie between 0 and 1")


class MIP(DenoisingPolicy):
    """Kept: two passes of one network, the first from zeros at time 0, the second from the first's answer at time .9;
    in training both regress the demonstrated actions, the second from those actions with Gaussian noise of .1; squared
    errors over the squares of .9 and .1; nothing is drawn when acting. The window is that of DP3, 16 and 8. Smaller in
    the default method: the widths of the U-Net.
    """

    Config = MIPConfig

    @property
    def second(self) -> float:
        return cast(MIPConfig, self.config.policy).second

    def forward(self, actions: Tensor, time: float, condition: Tensor) -> Tensor:
        """Guessed actions (B, T, A) to better ones."""
        return self.unet(actions, torch.full((1,), TIMES * time, device=actions.device), condition)

    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        noisy = actions + (1 - self.second) * randn_like(actions, generator)
        first = (self(torch.zeros_like(actions), 0.0, condition) - actions).square().mean()
        again = (self(noisy, self.second, condition) - actions).square().mean()
        loss = first / self.second**2 + again / (1 - self.second) ** 2
        return loss, {"first": first, "second": again}

    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        nothing = condition.new_zeros(len(condition), self.window, self.spec.action)
        return self(self(nothing, 0.0, condition), self.second, condition)


POLICY = MIP
METHODS = {
    "mip": replace(METHOD, policy=MIPConfig()),
    "paper-mip": replace(PAPER, policy=MIPConfig(unet=PAPER_UNET)),
}
