"""1-D convolution stack of the tokenizer: actions (B, A, T) to latents (B, D, N) and back."""

from __future__ import annotations

from torch import Tensor, nn


class ResidualBlock(nn.Module):
    """Pre-activation: dilated Conv3, then Conv1."""

    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
            nn.Conv1d(width, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


def _residual(width: int, blocks: int, growth: int) -> list[nn.Module]:
    return [ResidualBlock(width, growth**i) for i in range(blocks)]


def encoder(action_dim: int, width: int, out: int, stages: int, blocks: int, growth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv1d(action_dim, width, 3, padding=1), nn.ReLU()]
    for _ in range(stages):
        layers += [nn.Conv1d(width, width, 4, stride=2, padding=1), *_residual(width, blocks, growth)]
    return nn.Sequential(*layers, nn.Conv1d(width, out, 3, padding=1))


def decoder(action_dim: int, width: int, inner: int, stages: int, blocks: int, growth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv1d(inner, width, 3, padding=1), nn.ReLU()]
    for _ in range(stages):
        layers += [
            *reversed(_residual(width, blocks, growth)),
            nn.Upsample(scale_factor=2, mode="nearest"),
            nn.Conv1d(width, width, 3, padding=1),
        ]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv1d(width, action_dim, 3, padding=1))
