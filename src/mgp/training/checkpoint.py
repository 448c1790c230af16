"""Training state on disk. A checkpoint is a sealed folder; the newest one that is whole counts."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from mgp.errors import CheckpointError
from mgp.files import new_folder, seal, unseal
from mgp.policies.files import FORMAT, describe, write_weights
from mgp.policies.learned import LearnedPolicy

KEEP = 2  # newest checkpoints kept in a run
_NAME = re.compile(r"\d-[\w-]+-\d{8}")  # stage, its name, step


@dataclass
class Progress:
    """How far a run has come. Batches and noise depend on (seed, stage, step) only, so no generator state is needed."""

    stage: int = 0
    step: int = 0  # steps done in this stage
    seconds: float = 0.0  # of training, evaluations left out
    totals: dict[str, int] = field(default_factory=dict)  # steps of each stage, once known


def folder_of(run: Path, progress: Progress, name: str) -> Path:
    return run / "checkpoints" / f"{progress.stage}-{name}-{progress.step:08d}"


def checkpoints(run: Path) -> list[Path]:
    """Oldest first. Folders still being written have other names."""
    found = (run / "checkpoints").glob("*") if (run / "checkpoints").is_dir() else []
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def save_checkpoint(
    run: Path,
    name: str,
    policy: LearnedPolicy,
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor],
    progress: Progress,
    about: dict[str, Any],
) -> Path:
    """`average` holds the averaged weights: policy.safetensors acts with them, training.safetensors goes on without."""
    training = {f"model.{key}": tensor for key, tensor in policy.state_dict().items()}
    training |= {f"average.{key}": tensor for key, tensor in average.items()}
    for index, state in optimizer.state_dict()["state"].items():
        training |= {f"optimizer.{index}.{key}": torch.as_tensor(value) for key, value in state.items()}
    path = folder_of(run, progress, name)
    with new_folder(path) as temporary:
        write_weights(policy, temporary, {**policy.state_dict(), **average})
        tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in training.items()}
        save_file(tensors, temporary / "training.safetensors")
        seal(temporary, {**describe(policy), "progress": vars(progress), **about})
    for old in checkpoints(run)[:-KEEP]:
        shutil.rmtree(old)
    return path


def newest(run: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that is whole, and its meta; damaged ones are passed over unless none is left."""
    failures = []
    for path in reversed(checkpoints(run)):
        try:
            return path, unseal(path, FORMAT)
        except CheckpointError as error:
            failures.append(str(error))
    if failures:
        raise CheckpointError(f"no checkpoint of {run} can be read; " + "; ".join(failures))
    return None


def restore(path: Path, policy: LearnedPolicy, optimizer: torch.optim.Optimizer | None = None) -> dict[str, Tensor]:
    """Weights and statistics, strictly, and the optimizer's moments; returns the averaged weights."""
    try:
        tensors = load_file(path / "training.safetensors")
    except Exception as error:  # safetensors raises what it likes
        raise CheckpointError(f"{path}/training.safetensors cannot be read: {error}") from error
    part = lambda prefix: {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}  # noqa: E731
    try:
        policy.load_state_dict(part("model."), strict=True)
    except RuntimeError as error:
        raise CheckpointError(f"{path} does not fit the configuration of this run: {error}") from error
    weights = dict(policy.named_parameters())
    average = {name: tensor.to(weights[name].device) for name, tensor in part("average.").items()}
    if optimizer is None:
        return average
    moments: dict[int, dict[str, Tensor]] = {}
    for key, tensor in part("optimizer.").items():
        index, name = key.split(".", 1)
        moments.setdefault(int(index), {})[name] = tensor
    if moments:
        optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    return average
