"""Diffusion Policy, DP3 and Simple-DP3: a chunk of actions is denoised step by step.

B windows, O episodes, H frames, C condition width, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from mgp.config import Sampling, choices, positive
from mgp.data.spec import DataSpec
from mgp.errors import ConfigError
from mgp.model.unet import UNetConfig
from mgp.policies.config import RunConfig
from mgp.policies.denoising import METHOD, PAPER, PAPER_UNET, DenoisingConfig, DenoisingPolicy, randn_like
from mgp.policies.learned import Figures, Stage


@dataclass(frozen=True)
class DiffusionSampling(Sampling):
    execution_horizon: int = 8  # actions between two plans
    steps: int = 10  # of denoising

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "steps")


@dataclass(frozen=True)
class DiffusionConfig(DenoisingConfig):
    name: ClassVar[str] = "diffusion"
    scheduler: Literal["ddpm", "ddim"] = "ddim"  # ddpm adds fresh noise in each step
    prediction: Literal["sample", "epsilon"] = "sample"  # what the network tells: the actions, or the noise on them
    train_steps: int = 100  # levels of noise
    sampling: DiffusionSampling = field(default_factory=DiffusionSampling)

    def __post_init__(self) -> None:
        super().__post_init__()
        choices(self)
        positive(self, "train_steps")


class Diffusion(DenoisingPolicy):
    """Kept: noise schedule (100 levels, squared cosine), prediction, sampler and its number of steps (dp: DDPM 100; the
    others: DDIM 10), FiLM U-Net with kernel 5, window of 16 actions from the oldest of two frames, of which 8 are run.
    Smaller in the default methods: the widths of the U-Net. `paper-*` have the released ones.
    """

    Config = DiffusionConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        self.scheduler = make_scheduler(self.options)

    @property
    def options(self) -> DiffusionConfig:
        return cast(DiffusionConfig, self.config.policy)

    def check(self) -> None:
        super().check()
        steps, most = self.options.sampling.steps, self.options.train_steps
        if steps > most:
            raise ConfigError(f"sampling.steps = {steps} exceeds the {most} levels of noise trained for: lower it")

    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        noise = randn_like(actions, generator)
        level = torch.randint(self.options.train_steps, (len(actions),), generator=generator).to(actions.device)
        noisy = self.scheduler.add_noise(actions, noise, level)
        target = noise if self.options.prediction == "epsilon" else actions
        return F.mse_loss(self.unet(noisy, level, condition), target), {}

    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        scheduler, actions = self.scheduler, self.noise(generators)
        scheduler.set_timesteps(self.options.sampling.steps)
        fresh = {"generator": list(generators)} if self.options.scheduler == "ddpm" else {}
        for step in scheduler.timesteps.to(actions.device):
            actions = scheduler.step(self.unet(actions, step, condition), step, actions, **fresh).prev_sample
        return actions


def make_scheduler(options: DiffusionConfig) -> Any:
    """Of diffusers, which nothing else needs."""
    try:
        from diffusers.schedulers.scheduling_ddim import DDIMScheduler
        from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
    except ImportError as error:
        raise ConfigError(
            f"policy {options.name!r} needs diffusers, which cannot be imported ({error}):"
            " pip install 'masked-generative-policy[baselines]'"
        ) from error
    kind = DDPMScheduler if options.scheduler == "ddpm" else DDIMScheduler
    schedule: dict[str, Any] = {"beta_start": 1e-4, "beta_end": 0.02, "beta_schedule": "squaredcos_cap_v2"}
    with torch.device("cpu"):  # whoever builds a network elsewhere
        return kind(options.train_steps, prediction_type=options.prediction, clip_sample=True, **schedule)


POLICY = Diffusion
_DP = DiffusionConfig(scheduler="ddpm", prediction="epsilon", sampling=DiffusionSampling(steps=100))
METHODS = {
    "dp": replace(METHOD, policy=_DP),
    "dp3": replace(METHOD, policy=DiffusionConfig()),
    "simple-dp3": replace(METHOD, policy=DiffusionConfig(unet=UNetConfig(blocks=1))),
    "paper-dp": replace(PAPER, policy=replace(_DP, unet=PAPER_UNET)),
    "paper-dp3": replace(PAPER, policy=DiffusionConfig(unet=PAPER_UNET)),
    "paper-simple-dp3": replace(PAPER, policy=DiffusionConfig(unet=UNetConfig((128, 256, 384), 1, step_dim=128))),
}
