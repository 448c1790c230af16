"""DP3-Full: the whole episode is denoised from its first observation and run open loop; later ones change nothing.

B episodes, T actions of an episode, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from mgp.data.augmentation import draw_warps
from mgp.data.demonstrations import Demonstrations
from mgp.data.windows import Batch, Sample, Source, Windows
from mgp.model.unet import UNetConfig
from mgp.policies.acting import acting
from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.denoising import METHOD, PAPER, PAPER_UNET
from mgp.policies.diffusion import Diffusion, DiffusionConfig
from mgp.policies.learned import Figures, LearnedMemory, Stage


@dataclass(frozen=True)
class OpenLoopConfig(DiffusionConfig):
    """`horizon` says nothing here, it is the length of an episode; `sampling.execution_horizon` is only how often one
    asks for the rest of the plan.
    """

    name: ClassVar[str] = "open-loop"


@dataclass(kw_only=True)
class OpenLoopMemory(LearnedMemory):
    plans: np.ndarray  # (B, T, A)
    planned: np.ndarray  # (B,) False before an episode's first observation
    steps: np.ndarray  # (B,) actions of the plan that were run


class FirstWindows(Windows):
    """Whole episodes, seen from their first frame."""

    def choose(self, count: int, generator: torch.Generator) -> Sample:
        demos = self.demonstrations
        episode = torch.randint(len(demos.ends), (count,), generator=generator)
        time, warps = demos.starts[episode], draw_warps(count, self.augmentation, generator)
        return Sample(time, episode, torch.arange(count) if warps is not None else torch.zeros_like(time), warps)


class OpenLoop(Diffusion):
    """Kept: DP3's scheduler, sample prediction, DDIM with 10 steps, FiLM U-Net with kernel 5. Other than in DP3: the
    window is an episode, seen from its first frame alone. Smaller in the default method: the widths of the U-Net, which
    has five stages instead of three, so that the ends of 200 actions know of each other.
    """

    Config = OpenLoopConfig

    def reach(self) -> tuple[int, int]:
        return 0, self.spec.horizon

    def source(self, stage: Stage, demonstrations: Demonstrations) -> Source:
        config = self.config
        return FirstWindows(demonstrations, config.encoder, config.augmentation, config.training, self.window)

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        # once a demonstration is over, the robot is to stay, not to repeat its last move
        hold = torch.from_numpy(self.spec.hold_command).to(batch.actions)  # (A,) NaN: goes on
        over = ~batch.inside[..., None] & ~hold.isnan()
        return super().loss(stage, batch._replace(actions=torch.where(over, hold, batch.actions)), generator)

    def begin(self, seeds: Sequence[int]) -> OpenLoopMemory:
        batch = len(seeds)
        plans = np.zeros((batch, self.window, self.spec.action), np.float32)
        return OpenLoopMemory(
            **vars(super().begin(seeds)), plans=plans, planned=np.zeros(batch, bool), steps=np.zeros(batch, int)
        )

    @acting
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        """What is left of each plan, then holding. An episode holds until its first observation is there."""
        assert isinstance(memory, OpenLoopMemory)
        _, arrived = self.look(observation, memory, observed)  # refused if it is bad, though only the first one counts
        memory.steps[memory.planned] += self.execution_horizon if executed is None else executed
        looks, new = self.look(observation, memory, arrived & ~memory.planned)
        if looks is not None:
            generators = [one for one, there in zip(memory.generators, new, strict=True) if there]
            memory.plans[new] = self.predict(self.condition(looks, memory=memory), generators).cpu().numpy()
            memory.planned |= new
        actions = np.repeat(self.holding(memory)[:, None], self.window, axis=1)  # (B, T, A)
        for row in np.flatnonzero(memory.planned):
            rest = memory.plans[row, memory.steps[row] :]
            actions[row, : len(rest)] = rest
        return Chunk(actions, self.execution_horizon)


POLICY = OpenLoop
METHODS = {
    "dp3-full": replace(
        METHOD,
        policy=OpenLoopConfig(unet=UNetConfig((32, 32, 64, 64, 128))),
        encoder=replace(METHOD.encoder, history=1),
        training=replace(METHOD.training, batch=16),
        absolute={**METHOD.absolute, "encoder.frame": "world", "encoder.zoom": ()},  # one frame tells no motion
    ),
    "paper-dp3-full": replace(PAPER, policy=OpenLoopConfig(unet=PAPER_UNET), encoder=replace(PAPER.encoder, history=1)),
}
