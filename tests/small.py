"""Synthetic demonstrations, tiny configurations and networks: everything here is made in milliseconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mgp.config import AugmentationConfig, EncoderConfig, TaskConfig, TrainingConfig
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.spec import DataSpec
from mgp.data.store import EpisodeStore
from mgp.model.transformer import TransformerConfig, at
from mgp.policies import methods, policy_class
from mgp.policies.config import RunConfig
from mgp.policies.learned import LearnedPolicy
from mgp.policies.mgp import MGP
from mgp.policies.mgp.config import MGPConfig
from mgp.sampling.config import SamplingConfig
from mgp.sampling.corruption import MaskingConfig
from mgp.tokenizer.vqvae import TokenizerConfig

ACTION = 3  # not Meta-World's 4, so that a hard-coded width is seen
STATE = {"state": 7, "cloud": 9}  # with clouds: the hand and two fingers
POINTS = 16
HORIZON = 24
HOLD = [0.0, 0.0, None]  # the last dimension is a gripper's: its last command goes on
LENGTHS = (24, 24, 20, 17, 24)
META = {"env": "mine/waves", "horizon": HORIZON, "hold_action": HOLD, "actions": "displacement"}


def demonstrations(observation: str = "state", lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> Demonstrations:
    """Smooth actions with a seeded phase, and observations that show it."""
    random = np.random.default_rng(seed)
    arrays: dict[str, list[np.ndarray]] = {"action": [], "state": []} | (
        {"cloud": []} if observation == "cloud" else {}
    )
    for length in lengths:
        time, phase = np.arange(length)[:, None] / 8, random.uniform(0, 6, (1, 1))
        wave = np.sin(time + phase + np.arange(STATE[observation]))
        arrays["action"].append(wave[:, :ACTION] + 0.05 * random.normal(size=(length, ACTION)))
        arrays["state"].append(0.3 * wave + 0.02 * random.normal(size=wave.shape))
        if observation == "cloud":
            arrays["cloud"].append(0.3 * wave[:, None, :3] + 0.1 * random.normal(size=(length, POINTS, 3)))
    tensors = {key: torch.from_numpy(np.concatenate(parts)).float() for key, parts in arrays.items()}
    return Demonstrations(tensors, torch.tensor(lengths).cumsum(0), tuple(range(len(lengths))), META)


def store(path: Path, observation: str = "state", **meta: Any) -> Path:
    """The demonstrations, on disk."""
    data = demonstrations(observation)
    lengths = data.lengths.tolist()
    parts = {key: [part.numpy() for part in array.split(lengths)] for key, array in data.arrays.items()}
    episodes = [{key: values[index] for key, values in parts.items()} for index in range(len(lengths))]
    said = {key: value for key, value in {**META, **meta}.items() if value is not None}  # None: not a word of it
    return EpisodeStore.write(path, episodes, list(data.seeds), said).path


def tiny(horizon: str = "short", observation: str = "state", **changes: Any) -> RunConfig:
    """MGP in a few milliseconds a step: `tiny("long", "cloud", **{"training.steps": 5})`"""
    long = horizon == "long"
    config = RunConfig(
        "tiny",
        0,
        TaskConfig("metaworld/reach", observation, demonstrations=len(LENGTHS)),  # type: ignore[arg-type]
        EncoderConfig(2, frame="hand" if observation == "cloud" else "world", hidden=(8, 16), dim=8),
        AugmentationConfig(points=8),
        TrainingConfig(steps=6, batch=8, segment=2, learning_rate=1e-3, warmup=2, checkpoint_every=1000, eval_every=0),
        MGPConfig(
            horizon=horizon,  # type: ignore[arg-type]
            tokenizer=TokenizerConfig(
                window=16 if long else 8, codes=16, code_dim=4, width=8, reset_after=3, steps=6, batch=8
            ),
            transformer=TransformerConfig(dim=16, heads=2, cross_layers=1, self_layers=1),
            masking=MaskingConfig(soft_labels=0.0, foreign_prefix=0.3, foreign_plan=0.3, prefix_weight=0.1),
            sampling=SamplingConfig(execution_horizon=4),
        ),
    )
    return config.changed(changes)


# What a test of all policies runs. `paper-*` are the same policies, only larger, simple-dp3 is dp3 with one block a
# stage (tests/model/test_unet.py), and act-20 is act with other chunks.
METHODS = [name for name in methods() if not name.startswith("paper-") and name not in ("simple-dp3", "act-20")]
# All tests of a method in one process, which trains it once.
every_method = pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in METHODS]
)


def tiny_of(method: str, observation: str = "state", **changes: Any) -> RunConfig:
    """Any registered method, with little data and few steps; its own sizes, unless `SMALLER` says otherwise."""
    task = TaskConfig("metaworld/reach", observation, demonstrations=len(LENGTHS))  # type: ignore[arg-type]
    frame = "hand" if observation == "cloud" else "world"
    config = methods()[method].config(method, task, "displacement")
    shared = {
        "encoder.frame": frame, "encoder.zoom": (), "encoder.hidden": (8, 16), "encoder.dim": 8,
        "augmentation.points": 8, "augmentation.rotation": 0.0, "augmentation.stretch": 0.0,
        "training.steps": 6, "training.batch": 8, "training.segment": 2, "training.warmup": 2,
        "training.eval_every": 0, "training.checkpoint_every": 1000,
    }  # fmt: skip
    return config.changed({**shared, **SMALLER.get(config.policy.name, {}), **changes})


_UNET = {
    "policy.horizon": 12, "policy.unet.widths": (8, 16), "policy.unet.groups": 4, "policy.unet.step_dim": 8,
    "policy.sampling.execution_horizon": 4,
}  # fmt: skip
# policy: what makes it small
SMALLER: dict[str, dict[str, Any]] = {
    "mgp": {
        "policy.tokenizer.codes": 16, "policy.tokenizer.code_dim": 4, "policy.tokenizer.width": 8,
        "policy.tokenizer.window": 16, "policy.tokenizer.steps": 6, "policy.tokenizer.batch": 8,
        "policy.transformer.dim": 16, "policy.transformer.heads": 2,
    },
    "bc": {"policy.hidden": (16,)},
    "diffusion": {**_UNET, "policy.sampling.steps": 3},
    "open-loop": {**_UNET, "policy.sampling.steps": 3},
    "consistency": {**_UNET, "policy.teacher_steps": 6},
    "flow": _UNET,
    "mean-flow": _UNET,
    "mip": _UNET,
    "act": {
        "policy.chunk": 8, "policy.dim": 16, "policy.heads": 2, "policy.feedforward": 16, "policy.style_layers": 1,
        "policy.encoder_layers": 1, "policy.latent": 4,
    },
    "quest": {
        "policy.chunk": 16, "policy.autoencoder.dim": 16, "policy.autoencoder.heads": 2, "policy.autoencoder.steps": 6,
        "policy.autoencoder.batch": 8, "policy.autoencoder.encoder_layers": 1, "policy.autoencoder.decoder_layers": 1,
        "policy.prior.dim": 16, "policy.prior.heads": 2, "policy.prior.layers": 2,
    },
    "vqbet": {
        "encoder.history": 3, "policy.chunk": 8, "policy.tokenizer.hidden": 16, "policy.tokenizer.latent": 16,
        "policy.tokenizer.steps": 6, "policy.tokenizer.batch": 8, "policy.gpt.dim": 12, "policy.gpt.heads": 2,
        "policy.gpt.layers": 1, "policy.hidden": 16,
    },
    "prise": {
        "policy.vocabulary": 24, "policy.frequency": 2, "policy.gpt.dim": 16, "policy.gpt.heads": 2,
        "policy.gpt.layers": 1, "policy.hidden": 16, "policy.steps": 6, "policy.batch": 8,
    },
    "resnet-t": {
        "encoder.history": 3, "policy.gpt.dim": 16, "policy.gpt.heads": 2, "policy.gpt.head": 8,
        "policy.gpt.layers": 1, "policy.hidden": 16,
    },
}  # fmt: skip


def spec(config: RunConfig) -> DataSpec:
    return DataSpec.of(demonstrations(config.task.observation))


def untrained(config: RunConfig) -> LearnedPolicy:
    """Fresh weights, and limits that fit the demonstrations."""
    return policy_class(config.policy.name).build(config, demonstrations(config.task.observation)).eval()


def policy(config: RunConfig, data: Demonstrations | None = None) -> MGP:
    """An untrained MGP, but with a codebook that the demonstrations use."""
    data = data or demonstrations(config.task.observation)
    made = MGP.build(config, data)
    window = made.options.tokenizer.window
    starts = torch.arange(len(data.arrays["action"]) - 1)
    windows = data.action_windows(starts, window, data.episode_of(starts))
    latents = made.tokenizer.latents(made.normalizer.normalize("action", windows)).detach()
    made.tokenizer.codebook.initialise(latents, keyed_generator(0))
    made.adopt_codebook()
    assert len(made.tokenize(windows).unique()) > made.options.tokenizer.codes // 2
    return made.eval()


def plant(policy: MGP, forward: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Let a function of tokens (B, N), condition and executed (B,) to logits (B, N, V) stand for the transformer."""

    def reading(condition: Callable[[], Tensor]):
        return lambda tokens, wanted, executed: at(forward(tokens, condition(), executed), wanted)

    policy.reading = reading  # type: ignore[method-assign]
    policy.whole = False  # which does without it


def frames(config: RunConfig, batch: int, history: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Observations (B, history, ...) as `plan` takes them."""
    random = np.random.default_rng(seed)
    shapes = spec(config).shapes
    return {key: random.normal(0, 0.3, (batch, history, *shape)).astype(np.float32) for key, shape in shapes.items()}


def resident() -> float:
    """Megabytes of memory that this process has in use now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
