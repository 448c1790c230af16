"""Training shortcuts against the plain way, interleaved in one run: `python -m benchmarks.training`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from unittest.mock import patch

import torch
from vector_quantize_pytorch import VectorQuantize

from mgp.config import EncoderConfig
from mgp.data.demonstrations import Demonstrations
from mgp.data.normalizer import Normalizer
from mgp.data.spec import DataSpec
from mgp.data.windows import Looks
from mgp.model.encoders import cloud
from mgp.model.observation import ObservationEncoder
from mgp.policies.mgp import network as mgp_networks
from mgp.presets import get_config
from mgp.tokenizer.codebook import Codebook
from mgp.training.loop import Trainer
from mgp.training.memory import keep_freed_memory

METHODS = ("mgp-short", "mgp-long", "bc", "dp3")
WIDTHS = (64, 128, 256)  # of the layers on each point, DP3's
EPISODES, STEPS, POINTS = 10, 200, 512


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


def run(rounds: int = 15, segments: int = 8, points: int = 256, methods: Sequence[str] = METHODS) -> None:
    encoding(rounds // 2 + 1, segments, points)
    codebook(rounds)
    keep_freed_memory()  # as `mgp train` does
    for method in methods:
        steps(method, rounds)


def steps(method: str, rounds: int) -> None:
    """Whole training steps of the policy, against those in which every point has a gradient and no size comes again."""
    plain, short = policy_step(method), policy_step(method)

    def plainly() -> None:
        with patch.object(cloud, "FEW", 2**31), patch.object(mgp_networks, "ROWS", 1):
            plain()

    peer = "every point has a gradient"
    figures = interleaved({peer: plainly, "only points of a maximum": short}, rounds)
    table(f"a step of {method}, {WIDTHS} on each point", peer, figures)


def policy_step(method: str) -> Callable[[], None]:
    """A step of the recipe's last stage, after a few of the stages before."""
    generator = torch.Generator().manual_seed(0)
    arrays = {
        "action": torch.randn(EPISODES * STEPS, 4, generator=generator).clamp(-1, 1),
        "state": torch.randn(EPISODES * STEPS, 9, generator=generator),
        "cloud": torch.randn(EPISODES * STEPS, POINTS, 3, generator=generator),
    }
    ends = STEPS * torch.arange(1, EPISODES + 1)
    meta = {"actions": "displacement", "horizon": STEPS, "hold_action": [0.0] * 4, "points": 3}
    demonstrations = Demonstrations(arrays, ends, tuple(range(EPISODES)), meta)
    config = get_config(method).changed({"encoder.hidden": WIDTHS})
    trainer = Trainer(config, demonstrations, Path(tempfile.gettempdir()), quiet=True)  # which nothing is written to
    *before, last = (partial(stage_step, trainer, number) for number in range(len(trainer.policy.stages())))
    for earlier in before:
        step = earlier()
        for _ in range(3):
            step()
    return last()


def stage_step(trainer: Trainer, number: int) -> Callable[[], None]:
    stage = trainer.policy.stages()[number]
    parameters, source, optimizer = trainer._begin(stage)
    trainer.progress.step, trainer.average = 0, {}

    def step() -> None:
        trainer._update(number, stage, source, parameters, optimizer, stage.steps)
        trainer.progress.step += 1

    return step


def encoding(rounds: int, segments: int, points: int) -> None:
    """Windows of four frames: each distinct frame once, against every window on its own."""
    generator = torch.Generator().manual_seed(0)
    length, history, width = 8, 4, 9
    spec = DataSpec({"state": (width,), "cloud": (points, 3)}, 4, 200, "displacement", (None,) * 4)
    encoder = ObservationEncoder(EncoderConfig(history=history), spec)
    normalizer = Normalizer({"state": width + 1, "cloud": 3})  # the hand's frame adds its height
    frames = torch.randn(segments * (length + history - 1), points, 3, generator=generator)
    hand = torch.randn(len(frames), 3, generator=generator)
    start = torch.arange(segments)[:, None] * (length + history - 1) + torch.arange(length)
    which = start.flatten()[:, None] + torch.arange(history)  # (B, H)
    state = torch.randn(segments * length, history, width, generator=generator)
    looks = Looks(state, {"cloud": frames}, which, hand)
    apart = Looks(
        state, {"cloud": frames[which.flatten()]}, torch.arange(which.numel()).view_as(which), hand[which.flatten()]
    )
    ways = {
        "every window on its own": lambda: encoder(apart, normalizer).square().mean().backward(),
        "each distinct frame once": lambda: encoder(looks, normalizer).square().mean().backward(),
    }
    torch.testing.assert_close(encoder(apart, normalizer), encoder(looks, normalizer))
    title = f"encoding {len(state)} windows of {history} frames"
    table(title, "every window on its own", interleaved(ways, rounds))


def codebook(rounds: int) -> None:
    """A training step of the codebook, against vector-quantize-pytorch."""
    generator = torch.Generator().manual_seed(0)
    latents = torch.randn(8, 128, 16, generator=generator)
    ours = Codebook(1024, 16)
    ours.initialise(latents, generator)
    theirs = VectorQuantize(dim=16, codebook_size=1024, decay=0.99, kmeans_init=False).train()

    def step() -> None:
        ours.update(latents, ours.nearest(latents), generator)

    figures = interleaved({"vector-quantize-pytorch": lambda: theirs(latents), "mgp": step}, rounds)
    table("codebook step, 1024 latents, 1024 codes", "vector-quantize-pytorch", figures)


if __name__ == "__main__":
    run()
