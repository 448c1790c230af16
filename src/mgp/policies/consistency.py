"""Consistency Policy: a diffusion teacher, and a student distilled from it that jumps from noise to actions at once.

Times are standard deviations of noise. B windows, O episodes, C condition width, T actions, A action width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mgp.config import Sampling, positive
from mgp.data.spec import DataSpec
from mgp.errors import ConfigError
from mgp.model.unet import UNet, UNetConfig
from mgp.policies.config import RunConfig
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

CHAIN = (27, 54)  # bins where the variant of three steps makes its guess noisy again
HARDEST = 0.7  # share of the bins, from the noisiest, that half of the student's denoising draws from
LOG_NORMAL = (-1.2, 1.2)  # mean and deviation of log times in denoising


@dataclass(frozen=True)
class ConsistencySampling(Sampling):
    execution_horizon: int = 8  # actions between two plans
    steps: Literal[1, 3] = 1  # jumps from noise to actions; after each but the last the guess is made noisy again


@dataclass(frozen=True)
class ConsistencyConfig(DenoisingConfig):
    name: ClassVar[str] = "consistency"
    unet: UNetConfig = field(default_factory=lambda: UNetConfig(dropout=0.2))  # the teacher has no dropout
    teacher_steps: int = 2000  # of the teacher's training; `training.steps` are the student's
    least: float = 0.02  # time of clean actions
    most: float = 80.0  # time of pure noise
    rho: float = 7.0  # how the bins crowd towards `least`
    bins: int = 80  # times that the teacher steps along
    data_std: float = 0.5  # of normalised actions
    start: float = 1.0  # deviation of the noise that sampling starts from, as released; not `most`
    sampling: ConsistencySampling = field(default_factory=ConsistencySampling)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self, "teacher_steps", "least", "rho", "data_std")
        if self.bins <= max(CHAIN) or self.most <= self.least:
            raise ConfigError(
                f"ConsistencyConfig.bins = {self.bins} must exceed {max(CHAIN)}, and most = {self.most} exceed"
                f" least = {self.least}"
            )


class Consistency(DenoisingPolicy):
    """Kept: EDM teacher (times .02 to 80, rho 7, 80 bins, Heun), a CTM student that starts as the teacher, dropout .2,
    CTM and DSM losses 1:1, on the teacher's encoder as it is; one jump, or three. The window is that of DP, 16 and 8.
    Other than in the release: squared errors for its pseudo-Huber. Smaller in the default method: the widths of the
    U-Net.
    """

    Config = ConsistencyConfig
    interval = True

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        self.teacher = UNet(replace(self.options.unet, dropout=0.0), spec.action, self.condition_width)

    @property
    def options(self) -> ConsistencyConfig:
        return cast(ConsistencyConfig, self.config.policy)

    # --- the noise ------------------------------------------------------------------------------------------------

    def time(self, place: Tensor) -> Tensor:
        """Times of bins, from noise (0) to actions (`bins` - 1)."""
        options, root = self.options, 1 / self.options.rho
        first, last = options.most**root, options.least**root
        return ((first + place / (options.bins - 1) * (last - first)) ** options.rho).clamp(options.least, options.most)

    def denoised(self, network: nn.Module, x: Tensor, t: Tensor, condition: Tensor, *stop: Tensor) -> Tensor:
        """A network's idea of the clean actions; at t = `least` they are x itself."""
        least, std = self.options.least, self.options.data_std
        size = (t**2 + std**2).sqrt()
        skip, out = std**2 / ((t - least) ** 2 + std**2), (t - least) * std / size
        told = network(x / wide(size), scaled(t), condition, *(scaled(s) for s in stop))
        return wide(skip) * x + wide(out) * told

    def jump(self, x: Tensor, t: Tensor, s: Tensor, condition: Tensor, frozen: bool = False) -> Tensor:
        """The student from time t to s <= t; with s = t it stays. `frozen`: its weights are taken as they are."""

        def network(*arguments: Tensor) -> Tensor:
            held = {name: weight.detach() for name, weight in self.unet.named_parameters()} if frozen else {}
            return functional_call(self.unet, held, arguments)

        with torch.random.fork_rng():  # all jumps of a step drop the same channels
            clean = self.denoised(cast(nn.Module, network), x, t, condition, s)
        return torch.lerp(clean, x, wide(s / t))

    @torch.no_grad()
    def teacher_step(self, x: Tensor, t: Tensor, u: Tensor, condition: Tensor) -> Tensor:
        """Heun's step of the teacher's field from time t to u."""
        slope = (x - self.denoised(self.teacher, x, t, condition)) / wide(t)
        guess = x + wide(u - t) * slope
        after = (guess - self.denoised(self.teacher, guess, u, condition)) / wide(u)
        return x + wide(u - t) * (slope + after) / 2

    # --- training -------------------------------------------------------------------------------------------------

    def stages(self) -> tuple[Stage, ...]:
        (student,) = super().stages()
        teacher = replace(student, name="teacher", steps=self.options.teacher_steps, averaged=False)
        return teacher, replace(student, name="student")

    def begin_stage(self, stage: Stage) -> dict[str, nn.Parameter]:
        first = stage.name == "teacher"
        if not first:
            self.unet.load_state_dict(self.teacher.state_dict(), strict=False)  # the second time has no influence yet
        self.requires_grad_(first)  # what the teacher tells is told of the features it has learned with
        self.unet.requires_grad_(not first)
        return {name: weight for name, weight in self.named_parameters() if weight.requires_grad}

    def action_loss(
        self, stage: Stage, actions: Tensor, condition: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Figures]:
        if stage.name == "teacher":
            t = self.log_normal(actions, generator)
            clean = self.denoised(self.teacher, noised(actions, t, generator), t, condition)
            return self.dsm_loss(clean, actions, t), {}
        least = torch.full((len(actions),), self.options.least, device=actions.device)
        place = (uniform(actions, generator) * (self.options.bins - 1)).floor()
        stop = place + 1 + (uniform(actions, generator) * (self.options.bins - 1 - place)).floor()  # after `place`
        t, u, s = self.time(place), self.time(place + 1), self.time(stop)
        x = noised(actions, t, generator)
        there = self.jump(x, t, s, condition)
        with torch.no_grad():
            target = self.jump(self.teacher_step(x, t, u, condition), u, s, condition, frozen=True)
            target = self.jump(target, s, least, condition, frozen=True)
        ctm = (self.jump(there, s, least, condition, frozen=True) - target).square().mean()
        hard = self.time(uniform(actions, generator) * HARDEST * (self.options.bins - 1))
        even = torch.arange(len(actions), device=actions.device) % 2 == 0
        t = torch.where(even, hard, self.log_normal(actions, generator))
        dsm = self.dsm_loss(self.jump(noised(actions, t, generator), t, least, condition), actions, t)
        return ctm + dsm, {"ctm": ctm, "dsm": dsm}

    def log_normal(self, actions: Tensor, generator: torch.Generator) -> Tensor:
        mean, deviation = LOG_NORMAL
        drawn = torch.randn(len(actions), generator=generator).to(actions.device)
        return (mean + deviation * drawn).exp().clamp(self.options.least, self.options.most)

    def dsm_loss(self, clean: Tensor, actions: Tensor, t: Tensor) -> Tensor:
        std = self.options.data_std
        return (wide((t**2 + std**2) / (t * std) ** 2) * (clean - actions).square()).mean()

    # --- acting ---------------------------------------------------------------------------------------------------

    def sample(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        options = self.options
        bins = torch.tensor([0, *CHAIN], device=condition.device)[: options.sampling.steps]
        least, x = condition.new_tensor([options.least]), options.start * self.noise(generators)
        for number, t in enumerate(self.time(bins)[:, None]):
            if number:
                x = x + wide(t) * self.noise(generators)
            x = self.jump(x, t, least, condition).clamp(-1, 1)
        return x


def scaled(time: Tensor) -> Tensor:
    """As the network's embedding sees a time."""
    return 250 * time.log()


def noised(actions: Tensor, t: Tensor, generator: torch.Generator) -> Tensor:
    return actions + wide(t) * randn_like(actions, generator)


POLICY = Consistency
METHODS = {
    "consistency-policy": replace(
        METHOD,
        policy=ConsistencyConfig(),
        training=replace(METHOD.training, steps=1500),  # of the student: 5 passes each
    ),
    "paper-consistency-policy": replace(
        PAPER, policy=ConsistencyConfig(unet=replace(PAPER_UNET, dropout=0.2), teacher_steps=45_000)
    ),
}
