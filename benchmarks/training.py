"""Training shortcuts against the plain way, interleaved in one run: `python -m benchmarks.training`."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from vector_quantize_pytorch import VectorQuantize

import mgp  # noqa: F401  sets OpenMP's waiting policy
from mgp.config import EncoderConfig
from mgp.model.encoders import ConditionEncoder
from mgp.tokenizer.codebook import Codebook


def interleaved(ways: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Median CPU milliseconds of each way; they take turns, so that a noisy machine hits all alike."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 2):
        for name, way in ways.items():
            start = time.process_time()
            way()
            spent[name].append(1000 * (time.process_time() - start))
    return {name: median(times[2:]) for name, times in spent.items()}


def table(title: str, peer: str, figures: dict[str, float]) -> None:
    print(f"{title} (peer: {peer})")
    for name, value in figures.items():
        print(f"  {name:<34}{value:9.2f} CPU-ms   {value / figures[peer]:6.2f} x")


def run() -> None:
    generator = torch.Generator().manual_seed(0)

    # windows of four frames: each distinct frame once, against every window on its own
    encoder = ConditionEncoder(EncoderConfig(history=4), 10, cloud=True)
    segments, length, history, points = 8, 8, 4, 256
    frames = torch.randn(segments * (length + history - 1), points, 3, generator=generator)
    start = torch.arange(segments)[:, None] * (length + history - 1) + torch.arange(length)
    index = (start.flatten()[:, None] + torch.arange(history)).clamp_max(len(frames) - 1)
    state = torch.randn(segments * length, history, 10, generator=generator)

    def shared() -> None:
        encoder(state, frames, index).square().mean().backward()

    def scattered() -> None:
        encoder(state, frames[index]).square().mean().backward()

    figures = interleaved({"every window on its own": scattered, "each distinct frame once": shared}, 7)
    table("encoding 64 windows of 4 frames", "every window on its own", figures)

    # the codebook, against vector-quantize-pytorch
    latents = torch.randn(8, 128, 16, generator=generator)
    ours = Codebook(1024, 16)
    ours.initialise(latents, generator)
    theirs = VectorQuantize(dim=16, codebook_size=1024, decay=0.99, kmeans_init=False).train()

    def step() -> None:
        ours.update(latents, ours.nearest(latents), generator)

    figures = interleaved({"vector-quantize-pytorch": lambda: theirs(latents), "mgp": step})
    table("codebook step, 1024 latents, 1024 codes", "vector-quantize-pytorch", figures)


if __name__ == "__main__":
    run()
