"""DP3-Full: the whole episode is denoised from its first observation and run open loop; nothing is looked at again.

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
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch, Sample, Source, Windows
from mgp.model.unet import UNetConfig
from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.config import RunConfig
from mgp.policies.denoising import METHOD, PAPER, PAPER_UNET
from mgp.policies.diffusion import Diffusion, DiffusionConfig
from mgp.policies.learned import Figures, LearnedMemory, Stage


@dataclass(frozen=True)
class OpenLoopConfig(DiffusionConfig):
    """`horizon` and `sampling.execution_horizon` say nothing here: both are the length of an episode."""

    name: ClassVar[str] = "open-loop"


@dataclass(kw_only=True)
class OpenLoopMemory(LearnedMemory):
    plans: np.ndarray  # (B, T, A)
    planned: np.ndarray  # (B,) False before an episode's first observation
    steps: np.ndarray  # (B,) actions of the plan that were run
    run: int = 0  # as the last chunk said


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

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        self.execution_horizon = self.window

    def reach(self) -> tuple[int, int]:
        return 0, self.spec.horizon

    def check(self) -> None:
        self.execution_horizon = self.window
        super().check()

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

    @torch.inference_mode()
    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        """What is left of each plan, then holding. An episode without an observation yet holds and is asked again."""
        assert isinstance(memory, OpenLoopMemory)
        memory.steps[memory.planned] += memory.run if executed is None else executed
        if not memory.planned.all():
            arrived = np.ones(len(memory.seeds), bool) if observed is None else np.asarray(observed, dtype=bool)
            looks, seen = self.look(observation, memory, arrived & ~memory.planned)
            if looks is not None:
                generators = [one for one, there in zip(memory.generators, seen, strict=True) if there]
                memory.plans[seen] = self.predict(self.condition(looks), generators).cpu().numpy()
                memory.planned |= seen
        actions = np.repeat(self.holding(memory)[:, None], self.window, axis=1)  # (B, T, A)
        for row in np.flatnonzero(memory.planned):
            rest = memory.plans[row, memory.steps[row] :]
            actions[row, : len(rest)] = rest
        memory.run = self.window if memory.planned.all() else 1
        return Chunk(actions, memory.run)


POLICY = OpenLoop
METHODS = {
    "dp3-full": replace(
        METHOD,
        policy=OpenLoopConfig(unet=UNetConfig((32, 32, 64, 64, 128))),
        encoder=replace(METHOD.encoder, history=1),
        training=replace(METHOD.training, batch=16),
        absolute={**METHOD.absolute, "encoder.frame": "world"},  # one frame tells no motion
    ),
    "paper-dp3-full": replace(PAPER, policy=OpenLoopConfig(unet=PAPER_UNET), encoder=replace(PAPER.encoder, history=1)),
}
