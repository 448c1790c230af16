"""Everything a policy has learned, in one module: normaliser, frozen tokenizer, encoder, transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgp.config import Config
from mgp.data.normalizer import Normalizer
from mgp.model.encoders import ConditionEncoder, mlp
from mgp.model.frames import cloud_to_hand, state_to_hand, with_motion
from mgp.model.transformer import MaskedTransformer
from mgp.tokenizer.vqvae import ActionTokenizer


class MGPNetwork(nn.Module):
    """`widths` are of the normalised arrays: action, state and, with clouds, cloud."""

    def __init__(self, config: Config, widths: dict[str, int]):
        super().__init__()
        self.config = config
        self.normalizer = Normalizer(widths)
        self.tokenizer = ActionTokenizer(config.tokenizer, widths["action"])
        self.encoder = ConditionEncoder(config.encoder, widths["state"], widths.get("cloud", 0))
        codebook = self.tokenizer.codebook.codes
        self.transformer = MaskedTransformer(config.transformer, codebook, self.encoder.dim, config.encoder.frames)
        self.near = config.near
        wide = (config.encoder.frames * self.encoder.dim, 256, self.near * widths["action"])
        self.auxiliary = mlp(wide) if config.training.auxiliary else None

    def adopt_codebook(self) -> None:
        """After stage 1: the transformer embeds the tokenizer's code vectors, frozen from here on."""
        codes = self.tokenizer.codebook.codes
        self.transformer.code_vectors.copy_(codes)
        self.transformer.code_scale.copy_(codes.std().clamp_min(1e-6))
        self.tokenizer.requires_grad_(False)

    def trainable(self) -> dict[str, nn.Parameter]:
        """Parameters of stage 2: the transformer *and* the observation encoder."""
        return {name: p for name, p in self.named_parameters() if not name.startswith("tokenizer.")}

    def relative(self, state: Tensor, cloud: Tensor | None, cloud_state: Tensor) -> tuple[Tensor, Tensor | None]:
        """Raw state (B, H, S) and clouds (..., P, 3+) with the state of their own frames, in the chosen frame."""
        hand = self.config.encoder.frame == "hand"
        if hand or self.config.encoder.motion:
            moving = state_to_hand if hand else with_motion
            # motion is that of the newest frames; the first of the episode lies too far back to be one of them
            parts = (state[:, :1], state[:, 1:]) if self.config.encoder.first else (state,)
            state = torch.cat([moving(part) for part in parts], dim=1)
        return state, cloud_to_hand(cloud, cloud_state) if hand and cloud is not None else cloud

    def condition(
        self,
        state: Tensor,
        cloud: Tensor | None,
        cloud_state: Tensor,
        index: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """Raw observation to the condition (B, H, C); `noise` is added to the normalised state."""
        state, cloud = self.relative(state, cloud, cloud_state)
        state = self.normalizer.normalize("state", state)
        if noise is not None:
            state = state + noise
        if cloud is not None:
            cloud = self.normalizer.normalize("cloud", cloud)
        return self.encoder(state, cloud, index)

    @torch.no_grad()
    def decoded(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N) to normalised actions (B, T, A), inside the demonstrated limits of -1 and 1."""
        return self.tokenizer.decode(tokens).clamp(-1, 1)

    @torch.no_grad()
    def actions(self, tokens: Tensor) -> Tensor:
        """Tokens (B, N) to actions (B, T, A) in the environment's units, inside the demonstrated limits."""
        return self.normalizer.denormalize("action", self.decoded(tokens))
