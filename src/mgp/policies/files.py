"""A learned policy as a folder: config.json, policy.safetensors, meta.json. Nothing is ever unpickled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from mgp.config import from_dict
from mgp.data.normalizer import Normalizer
from mgp.data.spec import DataSpec
from mgp.errors import CheckpointError, ConfigError
from mgp.files import new_folder, seal, unseal
from mgp.policies import policy_class
from mgp.policies.config import RunConfig
from mgp.policies.learned import LearnedPolicy

FORMAT = 2  # 1: before policies had settings of their own


def describe(policy: LearnedPolicy) -> dict[str, Any]:
    """What meta.json says of a policy."""
    return {
        "format": FORMAT,
        "frozen": policy.frozen(),
        "widths": policy.normalizer.widths,
        "spec": policy.spec.to_dict(),
        "sampling": asdict(policy.sampling),  # may differ from what config.json says it was trained with
    }


def write_weights(policy: LearnedPolicy, folder: Path, state: dict[str, Tensor] | None = None) -> None:
    """config.json and policy.safetensors into an open folder; `state` stands for the policy's own (e.g. averaged)."""
    (folder / "config.json").write_text(policy.config.to_json())
    tensors = {
        name: tensor.detach().cpu().contiguous().clone() for name, tensor in (state or policy.state_dict()).items()
    }
    save_file(tensors, folder / "policy.safetensors")


def save_policy(policy: LearnedPolicy, folder: Path) -> None:
    """As it is sampled now, so that `load_checkpoint` gives the same actions."""
    with new_folder(Path(folder)) as temporary:
        write_weights(policy, temporary)
        seal(temporary, describe(policy))


def load_checkpoint(folder: Path, device: str = "cpu") -> LearnedPolicy:
    """Strict: every tensor must be there, in its shape, and frozen parts must be those trained with."""
    folder = Path(folder)
    meta = unseal(folder, FORMAT, only=("config.json", "policy.safetensors"))
    try:
        config = RunConfig.from_json((folder / "config.json").read_text())
    except ConfigError as error:
        raise CheckpointError(f"{folder}/config.json: {error}") from error
    policy = policy_class(config.policy.name)(config, DataSpec.from_dict(meta["spec"]))
    policy.normalizer = Normalizer(meta["widths"])
    try:
        policy.load_state_dict(load_file(folder / "policy.safetensors"), strict=True)
    except Exception as error:
        raise CheckpointError(f"{folder}/policy.safetensors does not fit its config.json: {error}") from error
    for name, fingerprint in policy.frozen().items():
        if meta["frozen"].get(name) != fingerprint:
            raise CheckpointError(f"{folder}: the {name} is not the one this policy was trained with (hash differs)")
    sampling = from_dict(type(policy.sampling), meta["sampling"])
    return policy.with_sampling(**asdict(sampling)).eval().to(device)
