"""Codes of single actions that mean something in a latent state, learned with the state's dynamics (stage 1 of PRISE).

B windows, K steps ahead, A action width, D latent width, N codes.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgp.model.encoders.state import mlp
from mgp.tokenizer.codebook import Codebook

COMMIT = 0.25  # weight of the actions' commitment to their codes


class StateCodes(nn.Module):
    def __init__(self, codes: int, dim: int, hidden: int, action: int):
        super().__init__()
        wide = (hidden, hidden)
        self.action_in, self.action_out = mlp((action, 64, 64, dim)), mlp((dim, *wide, dim))
        self.codebook = Codebook(codes, dim)
        self.decoder = mlp((dim, *wide, action))
        self.transition = mlp((dim, *wide, dim))
        self.project, self.predictor = mlp((dim, hidden, dim)), mlp((dim, hidden, dim))

    def latents(self, states: Tensor, actions: Tensor) -> Tensor:
        """Normalised actions (..., A) in states (..., D), not yet quantised; the state learns nothing from it."""
        return self.action_out(states.detach() + self.action_in(actions))

    def encode(self, states: Tensor, actions: Tensor) -> Tensor:
        return self.codebook.nearest(self.latents(states, actions))

    def decode(self, states: Tensor, codes: Tensor) -> Tensor:
        """Codes (...) in states (..., D) to normalised actions (..., A)."""
        return self.decoder(states + self.codebook.lookup(codes)).float()

    def errors(self, states: Tensor, actions: Tensor) -> Tensor:
        """How far each code, decoded in states (B, K, D), is from the actions (B, K, A), (B, K, N)."""
        decoded = self.decoder(states[:, :, None] + self.codebook.codes).float()
        return (decoded - actions[:, :, None]).abs().sum(-1)

    def loss(
        self, states: Tensor, actions: Tensor, inside: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Of states (B, K + 1, D), the actions between them (B, K, A) and which of them are real (B, K)."""
        latents = self.latents(states[:, :-1], actions)
        if not self.codebook.initialised:
            self.codebook.initialise(latents.detach(), generator)
        indices = self.codebook.nearest(latents.detach())
        codes = self.codebook.lookup(indices)
        commit = (latents - codes).square().mean()
        through = latents + (codes - latents).detach()
        used = torch.tensor(float(len(indices.unique())))
        self.codebook.update(latents.detach(), indices, generator)
        error = (self.decoder(states[:, :-1] + through) - actions).abs().mean(-1)
        decoded = (error * inside).sum() / inside.sum().clamp_min(1)
        # the codes must also tell where the state goes: predicted from itself, step by step
        goals, state, likeness = self.project(states[:, 1:]).detach(), states[:, 0], []
        for step in range(actions.shape[1]):
            state = self.transition(state + through[:, step])
            likeness.append(F.cosine_similarity(self.predictor(self.project(state)), goals[:, step], dim=-1))
        dynamics = -torch.stack(likeness).mean()
        figures = {"decoded": decoded, "dynamics": dynamics, "commit": commit, "codes": used}
        return dynamics + decoded + COMMIT * commit, figures
