"""A trained network as a folder: config.json, policy.safetensors, meta.json. Nothing is ever unpickled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file
from torch import Tensor

from mgp.config import Config, SamplingConfig
from mgp.errors import CheckpointError
from mgp.files import new_folder, seal, unseal
from mgp.model.network import MGPNetwork

FORMAT = 1


def describe(network: MGPNetwork, shapes: dict[str, tuple[int, ...]], hold: np.ndarray) -> dict[str, Any]:
    """What meta.json says of a network."""
    return {
        "format": FORMAT,
        "tokenizer": network.tokenizer.fingerprint(),
        "widths": {key: getattr(network.normalizer, f"{key}_scale").numel() for key in network.normalizer.keys},
        "observation_shapes": {key: list(shape) for key, shape in shapes.items()},
        "hold": [None if np.isnan(value) else float(value) for value in hold],
    }


def write_network(network: MGPNetwork, folder: Path, state: dict[str, Tensor] | None = None) -> None:
    """config.json and policy.safetensors into an open folder; `state` stands for the network's own (e.g. averaged)."""
    (folder / "config.json").write_text(network.config.to_json())
    tensors = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in (state or network.state_dict()).items()
    }
    save_file(tensors, folder / "policy.safetensors")


def save_network(
    network: MGPNetwork,
    folder: Path,
    shapes: dict[str, tuple[int, ...]],
    hold: np.ndarray,
    sampling: SamplingConfig,
) -> None:
    """`sampling` may differ from what the network was trained with, which config.json says."""
    with new_folder(Path(folder)) as temporary:
        write_network(network, temporary)
        seal(temporary, {**describe(network, shapes, hold), "sampling": asdict(sampling)})


def load_network(folder: Path) -> tuple[MGPNetwork, dict[str, tuple[int, ...]], np.ndarray, SamplingConfig]:
    """Strict: every tensor must be there, in its shape, and the tokenizer must be the one trained with."""
    folder = Path(folder)
    meta = unseal(folder, FORMAT, only=("config.json", "policy.safetensors"))
    config = Config.from_json((folder / "config.json").read_text())
    network = MGPNetwork(config, meta["widths"])
    try:
        network.load_state_dict(load_file(folder / "policy.safetensors"), strict=True)
    except Exception as error:
        raise CheckpointError(f"{folder}/policy.safetensors does not fit its config.json: {error}") from error
    network.tokenizer.requires_grad_(False)
    if network.tokenizer.fingerprint() != meta["tokenizer"]:
        raise CheckpointError(f"{folder}: the tokenizer is not the one this policy was trained with (hash differs)")
    shapes = {key: tuple(shape) for key, shape in meta["observation_shapes"].items()}
    hold = np.array([np.nan if value is None else value for value in meta["hold"]], dtype=np.float32)
    sampling = SamplingConfig(**meta["sampling"]) if "sampling" in meta else config.sampling
    return network, shapes, hold, sampling
