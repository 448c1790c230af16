"""QueST (Mete et al. 2024): a chunk becomes a few tokens by causal convolutions and finite scalar quantisation, and a
causal transformer writes them one after another.

B windows, O episodes, H frames, C condition width, T actions, A action width, N tokens, D width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.config import Sampling, TrainingConfig, not_negative, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.errors import ConfigError
from mgp.extras import needed
from mgp.graph import graph
from mgp.model.gpt import GPT, Cache, GPTConfig
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, Stage
from mgp.policies.tokens import TokenPolicy
from mgp.sampling.sampler import draw
from mgp.tokenizer.conv import CausalConv

NEAR = 8  # actions that `training.auxiliary` regresses: those that are run


@dataclass(frozen=True)
class AutoencoderConfig:
    dim: int = 64  # 256 in the release
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 4
    kernels: tuple[int, ...] = (5, 3, 3)  # of the causal convolutions
    strides: tuple[int, ...] = (2, 2, 1)  # their product is the actions a token stands for
    levels: tuple[int, ...] = (8, 5, 5, 5)  # of finite scalar quantisation; their product is the number of codes
    dropout: float = 0.0
    steps: int = 3000
    batch: int = 64
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        positive(self, "dim", "heads", "encoder_layers", "decoder_layers", "steps", "batch", "learning_rate")
        if not self.strides or len(self.kernels) != len(self.strides):
            raise ConfigError(f"{len(self.kernels)} kernels and {len(self.strides)} strides: give one of each a layer")


@dataclass(frozen=True)
class QueSTSampling(Sampling):
    execution_horizon: int = 8
    temperature: float = 1.0  # 0 = the likeliest token
    top: int = 5  # tokens to draw from, the likeliest; 0 = all

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "temperature", "top")


@dataclass(frozen=True)
class QueSTConfig(PolicyConfig):
    name: ClassVar[str] = "quest"
    chunk: int = 32  # actions of a window
    autoencoder: AutoencoderConfig = field(default_factory=AutoencoderConfig)
    prior: GPTConfig = field(default_factory=GPTConfig)
    sampling: QueSTSampling = field(default_factory=QueSTSampling)

    def __post_init__(self) -> None:
        positive(self, "chunk")
        per = math.prod(self.autoencoder.strides)
        if self.chunk % per:
            raise ConfigError(f"chunk = {self.chunk} is no multiple of {per}, the product of autoencoder.strides")


class Autoencoder(nn.Module):
    """Normalised actions to tokens and back."""

    def __init__(self, config: AutoencoderConfig, chunk: int, action: int):
        super().__init__()
        self.chunk, self.tokens = chunk, chunk // math.prod(config.strides)
        self.codes = math.prod(config.levels)
        self.embed, self.head = nn.Linear(action, config.dim), nn.Linear(config.dim, action)
        layers = zip(config.kernels, config.strides, strict=True)
        self.convs = nn.Sequential(*(CausalConv(config.dim, kernel, stride) for kernel, stride in layers))
        layer = GPTConfig(config.dim, config.heads, config.encoder_layers, dropout=config.dropout)
        self.encoder = GPT(layer, self.tokens)
        self.decoder = GPT(replace(layer, layers=config.decoder_layers), chunk, source=True)
        fsq = needed("vector_quantize_pytorch", "baselines", "QueST").FSQ
        self.quantizer = fsq(list(config.levels), dim=config.dim)

    def quantized(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, A) to quantised vectors (B, N, D) and tokens (B, N)."""
        vectors, tokens = self.quantizer(self.encoder(self.convs(self.embed(actions))))
        return vectors, tokens.long()

    @graph
    def decoded(self, vectors: Tensor) -> Tensor:
        """Quantised vectors (B, N, D) to actions (B, T, A): places without content ask them."""
        places = vectors.new_zeros(len(vectors), self.chunk, vectors.shape[-1])
        return self.head(self.decoder(places, source=vectors))

    @torch.no_grad()
    def encode(self, actions: Tensor) -> Tensor:
        return self.eval().quantized(actions)[1]

    def decode(self, tokens: Tensor) -> Tensor:
        return self.decoded(self.quantizer.indices_to_codes(tokens))


class QueST(TokenPolicy):
    """Kept: 32 actions in 8 tokens, kernels, strides, levels, causal encoder, cross-attending decoder, L1; a prior that
    writes the tokens one by one, drawn from the 5 likeliest at temperature 1; 8 actions are run.

    Smaller by default: widths 64 and 128 (release: 256, prior 384), a prior of 4 layers with 4 heads (6 of 6).
    Otherwise: convolutions are normalised place by place, so that they are causal; the prefix is a token a frame, in
    which an instruction stands; positions are learned.
    """

    Config = QueSTConfig
    tokenizer: Autoencoder

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        self.window = options.chunk
        self.schedule = options.autoencoder
        self.tokenizer = Autoencoder(options.autoencoder, options.chunk, spec.action)
        self.encoder = self.make_encoder()
        dim, codes = options.prior.dim, self.tokenizer.codes
        self.embed_condition, self.embed_token = nn.Linear(self.encoder.dim, dim), nn.Embedding(codes, dim)
        self.start = nn.Parameter(0.02 * torch.randn(dim))
        self.prior = GPT(options.prior, config.encoder.frames + self.tokenizer.tokens)
        self.head = nn.Linear(dim, codes)
        self.auxiliary = self.make_auxiliary(min(NEAR, self.window))

    @property
    def options(self) -> QueSTConfig:
        return cast(QueSTConfig, self.config.policy)

    def prefix(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) and the start, embedded (B, H + 1, D)."""
        return torch.cat([self.embed_condition(condition), self.start.expand(len(condition), 1, -1)], dim=1)

    def logits(self, tokens: Tensor, condition: Tensor) -> Tensor:
        """Teacher forcing: tokens (B, N) to the logits of each from those before it (B, N, V)."""
        places = torch.cat([self.prefix(condition), self.embed_token(tokens[:, :-1])], dim=1)
        return self.head(self.prior(places)[:, -tokens.shape[1] :]).float()

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        actions = self.normal_actions(batch.actions)
        if stage.name == "tokenizer":
            vectors, tokens = self.tokenizer.quantized(actions)
            loss = (self.tokenizer.decoded(vectors) - actions).abs().mean()
            return loss, {"codes": torch.tensor(float(len(tokens.unique())))}
        with torch.autocast(actions.device.type, enabled=False):  # the very tokens that acting decodes
            tokens = self.tokenizer.encode(actions)
        condition = self.condition(batch.looks, generator)
        logits = self.logits(tokens, condition)
        figures = {"accuracy": (logits.argmax(-1) == tokens).float().mean()}
        auxiliary, more = self.auxiliary_loss(condition, batch.actions[:, :NEAR])
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten()) + auxiliary, figures | more

    def write(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Tokens (O, N), one after another."""
        cache, places, tokens = Cache(), self.prefix(condition), []
        for _ in range(self.tokenizer.tokens):
            logits = self.head(self.prior(places, cache)[:, -1])
            tokens.append(draw(logits, self.options.sampling.temperature, generators, self.options.sampling.top))
            places = self.embed_token(tokens[-1])[:, None]
        return torch.stack(tokens, dim=1)

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        return self.raw_actions(self.tokenizer.decode(self.write(condition, generators)))


POLICY = QueST
METHODS = {
    # 14 minutes of one core, 6 of them for the tokenizer
    "quest": Method(
        QueSTConfig(),
        ENCODER,
        AUGMENTATION,
        TrainingConfig(4000, 64, segment=4, early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    "paper-quest": released(
        QueSTConfig(
            autoencoder=AutoencoderConfig(256, dropout=0.1, steps=100_000, batch=256, learning_rate=1e-4),
            prior=GPTConfig(384, 6, 6, dropout=0.1),
        ),
        TrainingConfig(steps=100_000, batch=256, learning_rate=1e-4),
        history=1,
    ),
}
