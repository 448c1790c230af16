"""What the policies share that make a chunk of actions out of noise, or refine one, with a U-Net.

One of them says its loss (`action_loss`) and how it samples (`sample`), both on normalised actions.
B windows, O episodes, H frames, C condition width, T actions, A action width.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import torch
from torch import Tensor

from mgp.config import AugmentationConfig, EncoderConfig, Sampling, TrainingConfig, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.model.unet import UNet, UNetConfig
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig
from mgp.policies.learned import Figures, LearnedPolicy, Stage


@dataclass(frozen=True)
class DenoisingConfig(PolicyConfig):
    horizon: int = 16  # actions made together, the first `encoder.history - 1` of them before now; a model of 4 runs 3
    unet: UNetConfig = field(default_factory=UNetConfig)
    sampling: Sampling = field(default_factory=lambda: Sampling(execution_horizon=8))

    def __post_init__(self) -> None:
        positive(self, "horizon")


class DenoisingPolicy(LearnedPolicy):
    interval: ClassVar[bool] = False  # whether the network takes a second time

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = cast(DenoisingConfig, config.policy)
        self.past, self.window = self.reach()
        self.encoder = self.make_encoder()
        self.unet = UNet(options.unet, spec.action, self.condition_width, self.interval)
        self.auxiliary = self.make_auxiliary(self.window)

    def reach(self) -> tuple[int, int]:
        """Actions before now and in all; a window starts at the oldest frame, as in Diffusion Policy."""
        return self.config.encoder.history - 1, cast(DenoisingConfig, self.config.policy).horizon

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        condition = self.condition(batch.looks, generator).float()
        # the encoder may run in bf16; a convolution would take ten times as long where the processor has no unit for it
        with torch.autocast(condition.device.type, enabled=False):
            loss, figures = self.action_loss(stage, self.normal_actions(batch.actions), condition.flatten(1), generator)
            auxiliary, more = self.auxiliary_loss(condition, batch.actions)
        return loss + auxiliary, figures | more

    @abstractmethod
    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        """Normalised actions (B, T, A), repeated beyond an episode's end, under conditions (B, H C)."""

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return self.raw_actions(self.sample(condition.flatten(1), generators))[:, self.past :]

    @abstractmethod
    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Conditions (O, H C) to normalised actions (O, T, A)."""

    def noise(self, generators: Sequence[torch.Generator]) -> Tensor:
        """(O, T, A), each row from its own episode's generator."""
        shape = (self.window, self.spec.action)
        return torch.stack([torch.randn(shape, generator=one) for one in generators]).to(self.device)


def randn_like(like: Tensor, generator: torch.Generator) -> Tensor:
    """Generators are on the CPU, wherever the network is."""
    return torch.randn(like.shape, generator=generator).to(like.device)


def uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """(B,) in [0, 1), one for each row."""
    return torch.rand(len(like), generator=generator).to(like.device)


def wide(time: Tensor) -> Tensor:
    """(B,) to (B, 1, 1), to go with actions."""
    return time[:, None, None]


# What the default methods share
METHOD = Method(
    DenoisingConfig(),
    ENCODER,
    AUGMENTATION,
    TrainingConfig(batch=64, early=2.0, auxiliary=5.0, learning_rate=1e-3),
    ABSOLUTE,
)
# The released settings of DP3's Meta-World tasks, which its successors took over, with 16 actions, 8 run, two frames
PAPER_UNET = UNetConfig((512, 1024, 2048), step_dim=128)
PAPER = Method(
    DenoisingConfig(unet=PAPER_UNET),
    EncoderConfig(frame="world"),
    AugmentationConfig(points=0, cloud_noise=0.0),
    TrainingConfig(
        steps=45_000,  # about 3000 epochs of ten demonstrations
        segment=1,
        learning_rate=1e-4,
        warmup=500,
        ema_decay=0.9999,
        precision="fp32",
        eval_every=3000,
    ),
)
