"""Behaviour cloning: regress the next chunk of actions from the observation. The plainest policy that works.

It cannot choose between two ways of doing a thing, and averages them; where there is one way, it is hard to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import torch
from torch import Tensor

from mgp.config import Sampling, TrainingConfig, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.graph import graph
from mgp.model.encoders.state import mlp
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig
from mgp.policies.learned import Figures, LearnedPolicy, Stage


@dataclass(frozen=True)
class BCConfig(PolicyConfig):
    name: ClassVar[str] = "bc"
    chunk: int = 8  # actions regressed from one observation
    hidden: tuple[int, ...] = (512, 512)  # widths of the layers between condition and actions
    sampling: Sampling = field(default_factory=Sampling)

    def __post_init__(self) -> None:
        positive(self, "chunk")


class BC(LearnedPolicy):
    """B windows, O episodes, H frames, C condition width, T actions, A action width."""

    Config = BCConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = cast(BCConfig, config.policy)
        self.window = options.chunk
        self.encoder = self.make_encoder()
        self.head = mlp((self.condition_width, *options.hidden, options.chunk * spec.action))

    @graph
    def forward(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) to normalised actions (B, T, A)."""
        return self.head(condition.flatten(1)).float().unflatten(1, (self.window, self.spec.action))

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        error = self(self.condition(batch.looks, generator)) - self.normal_actions(batch.actions)
        return error.abs().mean(), {}

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return self.raw_actions(self(condition))


POLICY = BC
METHODS = {"bc": Method(BCConfig(), ENCODER, AUGMENTATION, TrainingConfig(early=2.0), ABSOLUTE)}
