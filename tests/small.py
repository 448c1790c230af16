"""Synthetic demonstrations, tiny configurations and networks: everything here is made in milliseconds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mgp.config import (
    Config,
    EncoderConfig,
    EnvConfig,
    MaskingConfig,
    SamplingConfig,
    TokenizerConfig,
    TrainingConfig,
    TransformerConfig,
)
from mgp.data.demonstrations import Demonstrations, keyed_generator
from mgp.data.store import EpisodeStore
from mgp.model.network import MGPNetwork
from mgp.policies.mgp import MGP
from mgp.training.batches import tokenize
from mgp.training.build import build_network

ACTION = 3  # not Meta-World's 4, so that a hard-coded width is seen
STATE = {"state": 7, "cloud": 9}  # with clouds: the hand and two fingers
POINTS = 16
HORIZON = 24
HOLD = np.array([0, 0, np.nan], np.float32)  # the last dimension is a gripper's: its last command goes on
LENGTHS = (24, 24, 20, 17, 24)


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
    return Demonstrations(tensors, torch.tensor(lengths).cumsum(0), tuple(range(len(lengths))))


def store(path: Path) -> Path:
    """The demonstrations of states, on disk."""
    data = demonstrations()
    lengths = data.lengths.tolist()
    parts = {key: [part.numpy() for part in array.split(lengths)] for key, array in data.arrays.items()}
    episodes = [{key: values[index] for key, values in parts.items()} for index in range(len(lengths))]
    return EpisodeStore.write(path, episodes, list(data.seeds), {}).path


def change(config: Config, changes: dict[str, Any]) -> Config:
    """`change(config, {"seed": 1, "training.steps": 5})`"""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        section, _, field = name.rpartition(".")
        sections.setdefault(section, {})[field] = value
    own = sections.pop("", {})
    inner = {name: dataclasses.replace(getattr(config, name), **values) for name, values in sections.items()}
    return dataclasses.replace(config, **inner, **own)


def tiny(policy: str = "short", observation: str = "state", **changes: Any) -> Config:
    """`tiny("long", "cloud", **{"training.steps": 5})`"""
    long = policy == "long"
    config = Config(
        preset="tiny",
        policy=policy,  # type: ignore[arg-type]
        env=EnvConfig("metaworld/reach", observation, POINTS, len(LENGTHS), 0, HORIZON),  # type: ignore[arg-type]
        tokenizer=TokenizerConfig(
            window=16 if long else 8, codes=16, code_dim=4, width=8, residual_blocks=1, reset_after=3, steps=6, batch=8
        ),
        encoder=EncoderConfig(
            history=2, frame="hand" if observation == "cloud" else "world", hidden=(8, 16), cloud_dim=8,
            state_hidden=(8,), state_dim=8,
        ),
        transformer=TransformerConfig(dim=16, heads=2, cross_layers=1, self_layers=1, block_size=8),
        masking=MaskingConfig(foreign_prefix=0.3, foreign_plan=0.3),
        sampling=SamplingConfig(execution_horizon=4),
        training=TrainingConfig(steps=6, batch=8, segment=2, warmup=2, checkpoint_every=1000, train_points=8),
    )  # fmt: skip
    return change(config, changes)


def network(config: Config, data: Demonstrations | None = None) -> MGPNetwork:
    """Untrained, but with a codebook that the demonstrations use and limits that fit them."""
    data = data or demonstrations(config.env.observation)
    net = build_network(config, data)
    window = config.tokenizer.window
    starts = torch.arange(len(data.arrays["action"]) - 1)
    windows = data.action_windows(starts, window, data.episode_of(starts))
    latents = net.tokenizer.latents(net.normalizer.normalize("action", windows)).detach()
    net.tokenizer.codebook.initialise(latents, keyed_generator(0))
    net.adopt_codebook()
    assert len(tokenize(net, windows).unique()) > config.tokenizer.codes // 2
    return net


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {"state": (STATE[config.env.observation],)}
    return out | ({"cloud": (config.env.points, 3)} if config.env.observation == "cloud" else {})


def policy(config: Config) -> MGP:
    return MGP(network(config), shapes(config), HOLD)


def frames(config: Config, batch: int, history: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Observations (B, history, ...) as `plan` takes them."""
    random = np.random.default_rng(seed)
    return {
        key: random.normal(0, 0.3, (batch, history, *shape)).astype(np.float32) for key, shape in shapes(config).items()
    }
