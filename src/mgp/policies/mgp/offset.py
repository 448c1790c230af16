"""The offset head: tokens choose what is done, and what is seen then corrects by how much.

A code is chosen among a thousand, most of them learned from ten demonstrations, and where a scene lies between two of
these, the likeliest code is that of one of them. A regression has no such preference, but cannot choose. So it comes
after the choice: from the condition and the decoded actions to what is to be added to them. It is trained on actions of
codes drawn near the right ones, so that it learns to correct a wrong choice and not to trust it.

B windows, H frames, C condition width, T actions, A action width, N tokens, K codes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgp.graph import graph
from mgp.model.encoders.state import mlp
from mgp.tokenizer.codebook import code_distances

WEIGHT = 5.0  # of its error in the loss


class OffsetHead(nn.Module):
    def __init__(self, condition: int, actions: int, width: int):
        """`condition`: H * C numbers; T actions of a width."""
        super().__init__()
        self.layers = mlp((condition + actions * width, 256, actions * width))

    @graph
    def forward(self, condition: Tensor, guess: Tensor) -> Tensor:
        """What is to be added to normalised actions (B, T, A) under a condition (B, H, C)."""
        inputs = torch.cat([condition.flatten(1), guess.flatten(1).to(condition.dtype)], dim=1)
        return self.layers(inputs).float().view_as(guess)


def nearness(codes: Tensor, width: float) -> Tensor:
    """Probability of each code to be drawn for each (K, K), by squared distance; `width` in mean nearest ones."""
    return (-code_distances(codes) / width).softmax(1)


def ladder(probability: Tensor) -> Tensor:
    """Rows of probabilities (K, K) added up, row after row: (K K,), row k from k to k + 1."""
    steps = probability.cpu().double().cumsum(1)
    return (steps / steps[:, -1:] + torch.arange(len(steps))[:, None]).flatten()


def draw_near(tokens: Tensor, ladder: Tensor, generator: torch.Generator) -> Tensor:
    """For tokens (B, N) others near them.

    A search on the ladder for each: `torch.multinomial` draws a number for every code there is, which was a fifth of a
    training step of MGP-Long.
    """
    height = tokens.flatten().cpu() + torch.rand(tokens.numel(), generator=generator).double()  # exact: 24 bits each
    drawn = torch.searchsorted(ladder, height, right=True) % round(len(ladder) ** 0.5)
    return drawn.view_as(tokens).to(tokens.device)
