"""Train a small policy on a toy set, and see how well it acts there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

import small
from mgp.policies.files import load_checkpoint
from mgp.policies.learned import LearnedPolicy
from mgp.training.loop import Trainer


def trained(method: str, folder: Path, **changes: Any) -> LearnedPolicy:
    """Of a tiny configuration with these changes, as its last checkpoint has it."""
    config = small.tiny_of(method, **{"training.precision": "fp32", **changes})
    return load_checkpoint(Trainer(config, small.demonstrations(), folder, quiet=True).train())


def error(policy: LearnedPolicy, actions: int = 1) -> float:
    """Mean distance of the next actions from the demonstrated ones, normalised; always guessing the mean: about .6."""
    data = small.demonstrations()
    time = torch.arange(len(data.arrays["action"]))
    times = data.history(time, policy.history, policy.first)
    frames = {key: data.arrays[key][times].numpy() for key in policy.observation_shapes}
    chunk = policy.plan(frames, policy.begin(range(len(time)))).actions[:, :actions]
    wanted = data.action_windows(time, actions, data.episode_of(time)).numpy()
    scale = policy.normalizer.action_scale.numpy()
    return float(np.abs((chunk - wanted) * scale).mean())
