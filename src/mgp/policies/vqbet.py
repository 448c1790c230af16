"""VQ-BeT (Lee et al. 2024): a chunk is two codes of a residual quantiser, guessed from a window of frames, and an
offset that makes it exact.

B windows, O episodes, H frames, C condition width, T actions, A action width, Q quantisers, K codes, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from mgp.config import Sampling, TrainingConfig, not_negative, positive
from mgp.data.spec import DataSpec
from mgp.data.windows import Batch
from mgp.extras import needed
from mgp.graph import graph
from mgp.model.encoders.state import mlp
from mgp.model.gpt import GPT, GPTConfig
from mgp.policies.config import ABSOLUTE, AUGMENTATION, ENCODER, Method, PolicyConfig, RunConfig, released
from mgp.policies.learned import Figures, Stage
from mgp.policies.tokens import TokenPolicy
from mgp.sampling.losses import focal_loss
from mgp.sampling.sampler import draw

SECOND = 0.5  # weight of every code after the first
FOCAL = 2.0  # gamma


@dataclass(frozen=True)
class ResidualConfig:
    hidden: int = 128  # width of the auto-encoder's two layers
    latent: int = 512
    quantizers: int = 2  # the second codes what the first leaves over
    codes: int = 16  # of each
    weight: float = 5.0  # of the quantisers' commitment
    steps: int = 1500
    batch: int = 256
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        positive(self, "hidden", "latent", "quantizers", "codes", "steps", "batch", "learning_rate")


@dataclass(frozen=True)
class VQBeTSampling(Sampling):
    temperature: float = 1.0  # of the codes; 0 = the likeliest

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(self, "temperature")


@dataclass(frozen=True)
class VQBeTConfig(PolicyConfig):
    name: ClassVar[str] = "vqbet"
    chunk: int = 5  # actions guessed at each frame
    tokenizer: ResidualConfig = field(default_factory=ResidualConfig)
    gpt: GPTConfig = field(default_factory=lambda: GPTConfig(120, 6, 6))
    hidden: int = 512  # width of the two layers of the heads; 1024 in the release
    offset: float = 100.0  # weight of the offset's error
    sampling: VQBeTSampling = field(default_factory=VQBeTSampling)

    def __post_init__(self) -> None:
        positive(self, "chunk", "hidden")
        not_negative(self, "offset")


class ResidualAutoencoder(nn.Module):
    """Normalised chunks to codes and back. The codebooks follow by moving averages, which are buffers."""

    def __init__(self, config: ResidualConfig, chunk: int, action: int):
        super().__init__()
        self.chunk = chunk
        wide = (config.hidden, config.hidden)
        self.encoder = mlp((chunk * action, *wide, config.latent))
        self.decoder = mlp((config.latent, *wide, chunk * action))
        residual = needed("vector_quantize_pytorch", "baselines", "VQ-BeT").ResidualVQ
        # k-means and the revival of dead codes draw from the default generator, which the trainer seeds at every step
        self.quantizer = residual(
            dim=config.latent,
            num_quantizers=config.quantizers,
            codebook_size=config.codes,
            kmeans_init=True,
            threshold_ema_dead_code=2,
            rotation_trick=False,  # younger than VQ-BeT
        )

    def reconstruct(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, T, A) to what is decoded of it, its codes (B, Q), and the commitment to them."""
        vectors, codes, commitment = self.quantizer(self.encoder(actions.flatten(1))[:, None])
        return self._unfold(self.decoder(vectors[:, 0])), codes[:, 0], commitment.sum()

    @torch.no_grad()
    def encode(self, actions: Tensor) -> Tensor:
        """(B, T, A) to codes (B, Q)."""
        return self.eval().reconstruct(actions)[1]

    def decode(self, codes: Tensor) -> Tensor:
        """Codes (B, Q) to actions (B, T, A), by the sum of their vectors."""
        return self._unfold(self.decoder(self.quantizer.get_output_from_indices(codes[:, None])[:, 0]))

    def _unfold(self, flat: Tensor) -> Tensor:
        return flat.unflatten(1, (self.chunk, -1))


class VQBeT(TokenPolicy):
    """Kept: the auto-encoder (128, latent 512), 2 x 16 codes, L1 + 5 x commitment; the transformer (6 layers, 6 heads,
    120) over a window of frames, each of which guesses its chunk; focal loss, the second code x .5, the offset's L1
    x 100, of codes drawn in training and in acting alike.

    Smaller by default: heads of width 512 (release: 1024), 5 frames (10), no dropout (.1). An
    instruction stands in every frame instead of before them.
    """

    Config = VQBeTConfig
    tokenizer: ResidualAutoencoder

    def __init__(self, config: RunConfig, spec: DataSpec):
        super().__init__(config, spec)
        options = self.options
        self.past = config.encoder.history - 1
        self.window = self.past + options.chunk
        self.schedule = options.tokenizer
        self.tokenizer = ResidualAutoencoder(options.tokenizer, options.chunk, spec.action)
        self.encoder = self.make_encoder()
        self.embed = nn.Linear(self.encoder.dim, options.gpt.dim)
        self.gpt = GPT(options.gpt, config.encoder.frames)
        self.shape = (options.tokenizer.quantizers, options.tokenizer.codes)
        choices, wide = self.shape[0] * self.shape[1], (options.gpt.dim, options.hidden, options.hidden)
        self.code_head = mlp((*wide, choices))
        self.offset_head = mlp((*wide, choices * options.chunk * spec.action))
        self.auxiliary = self.make_auxiliary(options.chunk)

    @property
    def options(self) -> VQBeTConfig:
        return cast(VQBeTConfig, self.config.policy)

    def chunks(self, actions: Tensor) -> Tensor:
        """Windows (B, past + T, ...) to the chunk of each frame (B, frames, T, ...)."""
        return torch.stack([actions[:, at : at + self.options.chunk] for at in range(self.past + 1)], dim=1)

    @graph
    def features(self, condition: Tensor) -> Tensor:
        """The condition (B, H, C) to a feature of each newest frame (B, history, D)."""
        return self.gpt(self.embed(condition))[:, -self.history :]

    def actions(self, features: Tensor, codes: Tensor) -> Tensor:
        """Features (B, D) and codes (B, Q) to normalised actions (B, T, A): what they decode to, and the offset."""
        offsets = self.offset_head(features).float().unflatten(-1, (*self.shape, self.options.chunk, -1))
        chosen = codes[..., None, None, None].expand(-1, -1, 1, *offsets.shape[-2:])
        with torch.no_grad(), torch.autocast(features.device.type, enabled=False):
            decoded = self.tokenizer.decode(codes)
        return decoded + offsets.gather(2, chosen).squeeze(2).sum(1)

    @graph
    def logits(self, features: Tensor) -> Tensor:
        """(B, D) to (B, Q, K)."""
        return self.code_head(features).float().unflatten(-1, self.shape)

    def loss(self, stage: Stage, batch: Batch, generator: torch.Generator) -> tuple[Tensor, Figures]:
        chunks = self.chunks(self.normal_actions(batch.actions)).flatten(0, 1)  # (B frames, T, A)
        if stage.name == "tokenizer":
            again, codes, commitment = self.tokenizer.reconstruct(chunks)
            error = (again - chunks).abs().mean()
            used = torch.tensor([float(len(column.unique())) for column in codes.T]).mean()
            loss = error + self.options.tokenizer.weight * commitment
            return loss, {"reconstruction": error, "codes": used}
        with torch.autocast(chunks.device.type, enabled=False):
            codes = self.tokenizer.encode(chunks)
        condition = self.condition(batch.looks, generator)
        features = self.features(condition).flatten(0, 1)
        logits = self.logits(features)
        inside = self.chunks(batch.inside).flatten(0, 1).float()  # (B frames, T)
        weight = inside[:, 0] / inside[:, 0].sum().clamp_min(1)  # a frame before the episode says nothing
        focal = [weight @ focal_loss(logits[:, index], codes[:, index], FOCAL) for index in range(self.shape[0])]
        drawn = draw(logits.detach()[None], 1.0, [generator])[0]
        error = ((self.actions(features, drawn) - chunks).abs().mean(-1) * inside).sum() / inside.sum().clamp_min(1)
        auxiliary, more = self.auxiliary_loss(condition, batch.actions[:, self.past :])
        loss = focal[0] + SECOND * sum(focal[1:]) + self.options.offset * error + auxiliary
        accuracy = (logits.argmax(-1) == codes).all(-1).float().mean()
        return loss, {"focal": focal[0], "offset": error, "accuracy": accuracy} | more

    def predict(self, condition: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        features = self.features(condition)[:, -1]
        codes = draw(self.logits(features), self.options.sampling.temperature, generators)
        return self.raw_actions(self.actions(features, codes))


POLICY = VQBeT
METHODS = {
    # 7 minutes of one core, one of them for the tokenizer; a window's frames are a segment already
    "vqbet": Method(
        VQBeTConfig(),
        replace(ENCODER, history=5, causal=True),
        AUGMENTATION,
        TrainingConfig(3000, 32, segment=1, early=2.0, auxiliary=5.0, learning_rate=1e-3),
        ABSOLUTE,
    ),
    "paper-vqbet": released(
        VQBeTConfig(tokenizer=ResidualConfig(steps=100_000), gpt=GPTConfig(120, 6, 6, dropout=0.1), hidden=1024),
        TrainingConfig(steps=100_000, batch=256, learning_rate=5.5e-5),
        history=10,
    ),
}
