"""Action tokenizer (paper, section "Action Tokenizer"): a 1-D convolutional VQ-VAE.

B batch, T actions, A action width, N tokens = T / actions_per_token, D code width, K codes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from mgp.config import fraction, not_negative, positive
from mgp.errors import ConfigError, DataError
from mgp.tokenizer.codebook import Codebook
from mgp.tokenizer.conv import Decoder, Encoder


@dataclass(frozen=True)
class TokenizerConfig:
    window: int = 8  # actions in a training window; 8 Short, 128 Long
    actions_per_token: int = 4  # 2, 4 or 8: one stride-2 stage each doubling
    codes: int = 1024  # size of the codebook
    code_dim: int = 16
    width: int = 32  # channels of the convolutions
    linear_path: bool = True  # beside the convolutions a linear map of each token's own actions; not in the paper
    commit_weight: float = 0.02  # beta of equation 1
    ema_decay: float = 0.99  # of the codebook statistics
    reset_after: int = 40  # training steps without use until a code is dead and re-seeded
    steps: int = 2000
    batch: int = 256
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        positive(self, "window", "codes", "code_dim", "width", "reset_after", "steps", "batch", "learning_rate")
        not_negative(self, "commit_weight")
        fraction(self, "ema_decay")
        if self.actions_per_token not in (2, 4, 8):
            raise ConfigError(f"actions_per_token = {self.actions_per_token}: choose 2, 4 or 8 (stride-2 stages)")
        if self.window % self.actions_per_token:
            raise ConfigError(
                f"tokenizer.window = {self.window} is no multiple of actions_per_token = {self.actions_per_token}:"
                f" choose {self.window // self.actions_per_token * self.actions_per_token or self.actions_per_token}"
            )


class TokenizerLoss(NamedTuple):
    total: Tensor
    reconstruction: Tensor
    commit: Tensor
    resets: int


class ActionTokenizer(nn.Module):
    """Works on normalised actions in [-1, 1]."""

    def __init__(self, config: TokenizerConfig, action_dim: int):
        super().__init__()
        self.config, self.action_dim = config, action_dim
        stages = config.actions_per_token.bit_length() - 1
        shape = (action_dim, config.width, config.code_dim, stages, config.linear_path)
        self.encoder, self.decoder = Encoder(*shape), Decoder(*shape)
        if self.encoder.patch is not None and self.decoder.patch is not None:
            with torch.no_grad():  # the linear paths start as each other's inverse
                self.decoder.patch.weight.copy_(self.encoder.patch.weight)
        self.codebook = Codebook(config.codes, config.code_dim, config.ema_decay, config.reset_after)

    def latents(self, actions: Tensor) -> Tensor:
        """(B, T, A) to (B, N, D), not yet quantised."""
        if actions.shape[-1] != self.action_dim or actions.shape[-2] % self.config.actions_per_token:
            raise DataError(
                f"actions of shape {tuple(actions.shape)}: need width {self.action_dim} and a length that is a"
                f" multiple of {self.config.actions_per_token}"
            )
        return self.encoder(actions.transpose(1, 2)).transpose(1, 2)

    def encode(self, actions: Tensor) -> Tensor:
        """(B, T, A) to token indices (B, N)."""
        return self.codebook.nearest(self.latents(actions))

    def decode(self, tokens: Tensor) -> Tensor:
        """Token indices (B, N) to actions (B, T, A). Specials are no codes and are refused."""
        if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) >= self.config.codes):
            raise DataError(
                f"token {int(tokens.max())} is no code (0 to {self.config.codes - 1}): never decode specials"
            )
        return self.decode_vectors(self.codebook.lookup(tokens))

    def decode_from(self, tokens: Tensor, first: int) -> Tensor:
        """The actions of tokens (B, N) from the one at `first` on, as `decode` gives them, without decoding all."""
        start = self.decoding_from(first, tokens.shape[1])
        return self.decode(tokens[:, start:])[:, (first - start) * self.config.actions_per_token :]

    def decoding_from(self, first: int, size: int) -> int:
        """Of N = `size` tokens the one to decode from, where actions from the token `first` on are wanted."""
        # as few lengths as can be: an engine prepares itself for each
        return max(min(first, size) - self.decoder.reach, 0) // 8 * 8

    def decode_vectors(self, vectors: Tensor) -> Tensor:
        """Code vectors (B, N, D) to actions (B, T, A)."""
        return self.decoder(vectors.transpose(1, 2)).transpose(1, 2)

    def reconstruct(self, actions: Tensor) -> Tensor:
        return self.decode(self.encode(actions))

    def training_loss(self, actions: Tensor, generator: torch.Generator) -> TokenizerLoss:
        """Equation 1: L1 reconstruction plus commitment; the codebook follows by moving averages."""
        latents = self.latents(actions)
        if not self.codebook.initialised:
            self.codebook.initialise(latents.detach(), generator)
        indices = self.codebook.nearest(latents.detach())
        codes = self.codebook.lookup(indices)
        commit = (latents - codes).square().mean()
        straight_through = latents + (codes - latents).detach()
        reconstruction = (self.decode_vectors(straight_through) - actions).abs().mean()
        total = reconstruction + self.config.commit_weight * commit
        resets = self.codebook.update(latents.detach(), indices, generator)
        return TokenizerLoss(total, reconstruction, commit, resets)

    def fingerprint(self) -> str:
        return fingerprint(self)


def fingerprint(module: nn.Module) -> str:
    """Hash of all weights and codes: a policy is bound to the tokenizer it was trained with."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
