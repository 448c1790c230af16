"""ResNet-T (LIBERO, Liu et al. 2023): a transformer over the tokens of the last frames, and a mixture of Gaussians for
the next action. Its ResNets are the shared encoders here, so what is left of the name is the T.

B windows, O episodes, H frames, C condition width, A action width, M modes, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from mgp.config import Sampling, TrainingConfig, not_negative, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.graph import graph
from mgp.model.encoders.state import mlp
from mgp.model.gpt import GPT, GPTConfig
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, LearnedPolicy, Stage
from mgp.sampling.sampler import draw


@dataclass(frozen=True)
class ResNetTSampling(Sampling):
    execution_horizon: int = 1  # there is one action a frame
    temperature: float = 1.0  # of the choice among modes; 0 = the likeliest
    noise: float = 1e-4  # deviation of the drawn mode when acting; the learned one is for the likelihood

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "temperature", "noise")


@dataclass(frozen=True)
class ResNetTConfig(PolicyConfig):
    name: ClassVar[str] = "resnet-t"
    gpt: GPTConfig = field(default_factory=lambda: GPTConfig(64, 6, 4, head=64))
    modes: int = 5
    hidden: int = 256  # width of the two layers of the head; 1024 in the release
    least: float = 1e-4  # deviation of a mode, at least
    sampling: ResNetTSampling = field(default_factory=ResNetTSampling)

    def __post_init__(self) -> None:
        positive(self, "modes", "hidden", "least")


class Mixture(nn.Module):
    """Features to a mixture of diagonal Gaussians over normalised actions."""

    def __init__(self, dim: int, hidden: int, modes: int, action: int, least: float):
        super().__init__()
        self.shape, self.least = (modes, action), least
        self.trunk = nn.Sequential(mlp((dim, hidden, hidden)), nn.ReLU())
        self.mean, self.deviation = nn.Linear(hidden, modes * action), nn.Linear(hidden, modes * action)
        self.share = nn.Linear(hidden, modes)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, D) to logits (B, M), means and deviations (B, M, A)."""
        x = self.trunk(features)
        means = self.mean(x).float().tanh().unflatten(-1, self.shape)
        deviations = F.softplus(self.deviation(x).float()).unflatten(-1, self.shape) + self.least
        return self.share(x).float(), means, deviations


def log_likelihood(logits: Tensor, means: Tensor, deviations: Tensor, actions: Tensor) -> Tensor:
    """Of actions (B, A) under mixtures, (B,)."""
    modes = Independent(Normal(means, deviations), 1)
    return MixtureSameFamily(Categorical(logits=logits), modes).log_prob(actions)


class ResNetT(LearnedPolicy):
    """Kept: 10 frames, a token for each key of each frame (LIBERO: language, two images, joints, gripper), 4 causal
    layers of 6 heads of 64 at width 64, one action a frame as in the release, so no chunk, 5 modes with deviations of
    at least 1e-4, and low noise when acting: a mode is drawn, then 1e-4 about its mean.

    Smaller by default: the head's width, 256 (release: 1024), no dropout (.1). Otherwise: the shared encoders stand for
    the ResNets with FiLM; a frame is read off its last token, which sees the whole frame, where LIBERO masks frame by
    frame.
    """

    Config = ResNetTConfig

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        self.past = config.encoder.history - 1
        self.window = self.past + 1
        self.encoder = self.make_encoder()
        self.keys = self.encoder.dim // config.encoder.dim  # tokens a frame
        dim = options.gpt.dim
        self.embed, self.embed_key = (
            nn.Linear(config.encoder.dim, dim),
            nn.Parameter(0.02 * torch.randn(self.keys, dim)),
        )
        self.gpt = GPT(options.gpt, config.encoder.frames * self.keys)
        self.head = Mixture(dim, options.hidden, options.modes, spec.action, options.least)
        self.auxiliary = self.make_auxiliary(1)

    @property
    def options(self) -> ResNetTConfig:
        return cast(ResNetTConfig, self.config.policy)

    @graph
    def features(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) to a feature of each newest frame (B, history, D)."""
        tokens = self.embed(condition.unflatten(-1, (self.keys, -1))) + self.embed_key  # (B, H, keys, D)
        return self.gpt(tokens.flatten(1, 2))[:, self.keys - 1 :: self.keys][:, -self.history :]

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        condition = self.condition(batch.looks, generator)
        logits, means, deviations = self.head(self.features(condition).flatten(0, 1))
        actions = self.normal_actions(batch.actions).flatten(0, 1)
        likelihood = log_likelihood(logits, means, deviations, actions)
        inside = batch.inside.flatten().float()
        auxiliary, more = self.auxiliary_loss(condition, batch.actions[:, self.past :])
        loss = -(likelihood * inside).sum() / inside.sum().clamp_min(1)
        return loss + auxiliary, {"deviation": deviations.mean()} | more

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        logits, means, _ = self.head(self.features(condition)[:, -1])
        mode = draw(logits, self.options.sampling.temperature, generators)
        mean = means[torch.arange(len(means), device=means.device), mode]  # (O, A)
        noise = torch.stack([torch.randn(mean.shape[1:], generator=one) for one in generators]).to(mean.device)
        return self.raw_actions(mean + self.options.sampling.noise * noise)[:, None]


POLICY = ResNetT
METHODS = {
    # 6 minutes of one core; a window's frames are a segment already
    "resnet-t": Method(
        ResNetTConfig(),
        replace(ENCODER, history=10, causal=True),
        AUGMENTATION,
        TrainingConfig(3000, 16, segment=1, early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    "paper-resnet-t": released(
        ResNetTConfig(gpt=GPTConfig(64, 6, 4, head=64, dropout=0.1), hidden=1024),
        TrainingConfig(steps=100_000, batch=32, learning_rate=1e-4, weight_decay=1e-4),
        history=10,
    ),
}
