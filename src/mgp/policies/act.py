"""ACT (Zhao et al. 2023): a transformer writes a long chunk at once, a latent of which style is zero when acting, and
the chunks of all steps so far are averaged.

B windows or episodes, O of them observed, H frames, C condition width, T actions, A action width, Z latent, D width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from mgp.config import Sampling, TrainingConfig, not_negative, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.errors import ConfigError
from mgp.graph import graph
from mgp.model.postnorm import PostNorm
from mgp.policies.base import Chunk, Frame, Memory
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, LearnedMemory, LearnedPolicy, Stage

NEAR = 8  # actions that `training.auxiliary` regresses


@dataclass(frozen=True)
class ACTSampling(Sampling):
    execution_horizon: int = 1
    ensemble: bool = True  # a chunk at every step, all averaged; False: a chunk is run as it is
    decay: float = 0.01  # the i-th oldest chunk weighs exp(-decay i)

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "decay")
        if self.ensemble and self.execution_horizon != 1:
            raise ConfigError(
                f"ensemble = True averages a chunk a step, execution_horizon = {self.execution_horizon}: set it to 1,"
                " or ensemble to False"
            )


@dataclass(frozen=True)
class ACTConfig(PolicyConfig):
    name: ClassVar[str] = "act"
    chunk: int = 100  # actions written at once
    dim: int = 128  # 512 in the release
    heads: int = 4  # 8 in the release
    feedforward: int = 256  # width between the two layers of an MLP; 3200 in the release
    style_layers: int = 1  # of the encoder that sees the actions, in training only; 4 in the release
    encoder_layers: int = 4
    decoder_layers: int = 1  # the release builds 7 and uses the first
    latent: int = 32  # Z
    kl: float = 10.0  # weight of the latent's divergence from a normal
    dropout: float = 0.0  # 0.1 in the release
    sampling: ACTSampling = field(default_factory=ACTSampling)

    def __post_init__(self) -> None:
        sizes = ("chunk", "dim", "heads", "feedforward", "latent")
        positive(self, *sizes, "style_layers", "encoder_layers", "decoder_layers")
        not_negative(self, "kl", "dropout")
        if self.dim % self.heads:
            raise ConfigError(f"dim = {self.dim} is no multiple of heads = {self.heads}: change one")


@dataclass
class EnsembleMemory(LearnedMemory):
    average: np.ndarray = field(default_factory=lambda: np.empty(0))  # (B, T, A) of all chunks so far, from now on
    count: np.ndarray = field(default_factory=lambda: np.empty(0))  # (B, T) chunks in it
    moved: np.ndarray = field(default_factory=lambda: np.empty(0))  # (B,) episodes that did not hold since


def waves(length: int, dim: int) -> Tensor:
    """Sinusoidal places (length, dim)."""
    angle = torch.arange(length)[:, None] * torch.exp(torch.arange(0, dim, 2) * (-math.log(10_000.0) / dim))
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def blend(average: np.ndarray, count: np.ndarray, fresh: np.ndarray, decay: float) -> np.ndarray:
    """The average (..., T, A) of `count` (..., T) chunks and a fresh one; the i-th oldest weighs exp(-decay i)."""
    weight = np.exp(-decay * count)[..., None]
    # exp(-decay i) summed over i = 0 .. count - 1; all weigh alike without decay
    before = (count if decay == 0 else -np.expm1(-decay * count) / -np.expm1(-decay))[..., None]
    return ((before * average + weight * fresh) / (before + weight)).astype(np.float32)


class ACT(LearnedPolicy):
    """Kept: the latent of 32 (zero when acting), KL x 10, L1 where the episode goes on, 4 encoder layers and the one
    decoder layer that the release in fact uses, post-norm, chunks of 100, a new one at every step, all averaged by
    exp(-.01 i) with the oldest first; `ensemble = False` runs a chunk as it is.

    Smaller by default: width 128 (release: 512), 4 heads (8), MLPs 256 (3200), one layer for the style (4), no dropout
    (.1). Otherwise:
    what the style sees beside actions is the whole condition, not the joints; a frame is one token, not hundreds of
    patches; places are added once, not in every layer. A step without an observation holds; the average waits with it.
    """

    Config = ACTConfig
    places: Tensor  # (T + 2, D)

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        dim, self.window = options.dim, options.chunk
        sizes = (dim, options.heads, options.feedforward, options.dropout)
        self.encoder = self.make_encoder()
        self.register_buffer("places", waves(options.chunk + 2, dim), persistent=False)
        self.summary = nn.Parameter(0.02 * torch.randn(dim))
        self.style_condition = nn.Linear(self.condition_width, dim)
        self.style_action = nn.Linear(spec.action, dim)
        self.style = nn.ModuleList(PostNorm(*sizes) for _ in range(options.style_layers))
        self.style_out = nn.Linear(dim, 2 * options.latent)

        self.embed_latent, self.embed_condition = nn.Linear(options.latent, dim), nn.Linear(self.encoder.dim, dim)
        self.embed_place = nn.Parameter(0.02 * torch.randn(1 + config.encoder.frames, dim))
        self.layers = nn.ModuleList(PostNorm(*sizes) for _ in range(options.encoder_layers))
        self.queries = nn.Parameter(torch.randn(options.chunk, dim))
        self.decoder = nn.ModuleList(PostNorm(*sizes, source=True) for _ in range(options.decoder_layers))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, spec.action)
        self.auxiliary = self.make_auxiliary(min(NEAR, self.window))

    @property
    def options(self) -> ACTConfig:
        return cast(ACTConfig, self.config.policy)

    def posterior(self, condition: Tensor, actions: Tensor, inside: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the variance (B, Z) of the latent of normalised actions (B, T, A)."""
        known = self.style_condition(condition.flatten(1))[:, None]
        x = torch.cat([self.summary.expand_as(known), known, self.style_action(actions)], dim=1) + self.places
        allowed = torch.cat([inside.new_ones(len(inside), 2), inside], dim=1)
        for layer in self.style:
            x = layer(x, allowed=allowed)
        mean, logarithm = self.style_out(x[:, 0]).float().chunk(2, dim=-1)
        return mean, logarithm

    @graph
    def forward(self, condition: Tensor, latent: Tensor) -> Tensor:
        """The condition (B, H, C) and a latent (B, Z) to normalised actions (B, T, A)."""
        x = torch.cat([self.embed_latent(latent)[:, None], self.embed_condition(condition)], dim=1) + self.embed_place
        for layer in self.layers:
            x = layer(x)
        out = self.queries.expand(len(x), -1, -1)
        for layer in self.decoder:
            out = layer(out, x)
        return self.head(self.norm(out)).float()

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        condition, actions = self.condition(batch.looks, generator), self.normal_actions(batch.actions)
        mean, logarithm = self.posterior(condition, actions, batch.inside)
        noise = torch.randn(mean.shape, generator=generator).to(mean.device)
        error = self(condition, mean + (logarithm / 2).exp() * noise) - actions
        regression = (error.abs() * batch.inside[..., None]).mean()
        divergence = (mean.square() + logarithm.exp() - 1 - logarithm).sum(-1).mean() / 2
        auxiliary, more = self.auxiliary_loss(condition, batch.actions[:, :NEAR])
        loss = regression + self.options.kl * divergence + auxiliary
        return loss, {"l1": regression, "kl": divergence} | more

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return self.raw_actions(self(condition, condition.new_zeros(len(condition), self.options.latent)))

    def begin(self, seeds: Sequence[int]) -> EnsembleMemory:
        shape = (len(seeds), self.window)
        average, count = np.zeros((*shape, self.spec.action), np.float32), np.zeros(shape, int)
        return EnsembleMemory(**vars(super().begin(seeds)), average=average, count=count, moved=count[:, 0] > 0)

    def plan(
        self, observation: Frame, memory: Memory, observed: np.ndarray | None = None, executed: int | None = None
    ) -> Chunk:
        chunk = super().plan(observation, memory, observed, executed)
        if not self.options.sampling.ensemble:
            return chunk
        assert isinstance(memory, EnsembleMemory)
        fresh, since = chunk.actions, 1 if executed is None else executed
        seen = np.ones(len(fresh), dtype=bool) if observed is None else np.asarray(observed, dtype=bool)
        for kept in (memory.average, memory.count):  # what was planned for later is for now
            gone = np.zeros_like(kept[memory.moved, :since])
            kept[memory.moved] = np.concatenate([kept[memory.moved, since:], gone], axis=1)
        memory.average[seen] = blend(memory.average[seen], memory.count[seen], fresh[seen], self.options.sampling.decay)
        memory.count[seen] += 1
        memory.moved = seen
        return Chunk(np.where(seen[:, None, None], memory.average, fresh), chunk.run)


POLICY = ACT
METHODS = {
    # 8 minutes of one core
    "act": Method(
        ACTConfig(),
        ENCODER,
        AUGMENTATION,
        TrainingConfig(2000, 64, segment=4, early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    # 5 minutes of one core; chunks of a fifth of an episode, as in the release: assembly 40 of 40, those of 100 have 10
    "act-20": Method(
        ACTConfig(chunk=20),
        ENCODER,
        AUGMENTATION,
        TrainingConfig(early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    "paper-act": released(
        ACTConfig(dim=512, heads=8, feedforward=3200, style_layers=4, dropout=0.1),
        TrainingConfig(steps=100_000, batch=8, learning_rate=1e-5, warmup=0, weight_decay=1e-4),
        history=1,
    ),
}
