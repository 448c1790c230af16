"""Where a run keeps its things, and how to load the policy it trained."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mgp.config import TaskConfig
from mgp.data.spec import DataSpec
from mgp.engines import AUTO
from mgp.engines.folder import with_engine
from mgp.errors import CheckpointError, ConfigError
from mgp.files import unseal, write_atomic
from mgp.policies.config import RunConfig
from mgp.policies.files import FORMAT, load_checkpoint
from mgp.policies.learned import LearnedPolicy
from mgp.training.checkpoint import newest

SUMMARY = "summary.json"  # of a finished training


def store_path(task: TaskConfig, root: Path = Path("data")) -> Path:
    """Where `mgp collect` puts demonstrations and `mgp train` looks for them."""
    named = [f"{key}={value}" for key, value in sorted(task.options.items())]
    parts = [task.name.replace("/", "-"), task.observation, *named, *([f"seed{task.seed}"] if task.seed else [])]
    return root / f"{'-'.join(parts)}.zarr"


def run_path(config: RunConfig, root: Path = Path("runs")) -> Path:
    name = config.task.name.removeprefix("metaworld/").replace("/", "-")
    return root / f"{name}-{config.method}-seed{config.seed}"


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    try:
        device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    except RuntimeError as error:
        raise ConfigError(f"device = {name!r} is none: choose auto, cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device = {name!r}, but torch sees no GPU here: choose cpu or auto")
    return device


@dataclass(frozen=True)
class Run:
    """A finished or interrupted training: `checkpoints/`, config.json, metrics.csv, evals.csv, eval/*.json."""

    folder: Path
    checkpoint: Path
    config: RunConfig
    meta: dict[str, Any]  # of the checkpoint

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        folder = Path(folder)
        found = newest(folder)
        if found is None:
            raise CheckpointError(f"{folder} holds no checkpoint: name a folder that `mgp train` wrote")
        return cls(folder, found[0], RunConfig.from_json(found[1]["config"]), found[1])

    @property
    def spec(self) -> DataSpec:
        return DataSpec.from_dict(self.meta["spec"])

    @property
    def data(self) -> Path:
        """The store it was trained from."""
        return Path(self.meta["data"])

    @property
    def demonstration_seeds(self) -> list[int]:
        return list(self.meta["demonstration_seeds"])

    @property
    def minutes(self) -> float:
        return round(self.meta["progress"]["seconds"] / 60, 2)

    @property
    def trained_at(self) -> str:
        """Commit of the code that finished the training; "" while it has not."""
        path = self.folder / SUMMARY
        return json.loads(path.read_text()).get("commit", "") if path.exists() else ""

    def loader(self, device: str = "cpu", engine: str = AUTO, **sampling: Any) -> partial[LearnedPolicy]:
        """A picklable function that loads the policy, for worker processes."""
        return partial(load_policy, self.policy_checkpoint, device=device, engine=engine, **sampling)

    @property
    def policy_checkpoint(self) -> Path:
        """The checkpoint, if there is a policy in it: an interrupted run may have its tokenizer only."""
        _check_policy(self.folder, self.checkpoint, self.meta)
        return self.checkpoint


def load_policy(folder: Path | str, device: str = "cpu", engine: str = AUTO, **sampling: Any) -> LearnedPolicy:
    """The policy of a checkpoint folder or of a run, sampled as asked: `load_policy("runs/x", temperature=0.5)`.

    `engine`: who computes; `auto` is the fastest that `mgp export` wrote, or torch. `policy.engine` says which it is.
    """
    folder = Path(folder)
    if (folder / "checkpoints").is_dir():
        folder = Run.open(folder).policy_checkpoint
    else:
        _check_policy(folder, folder, unseal(folder, FORMAT, only=()))  # `load_checkpoint` sums up the files
    policy = with_engine(load_checkpoint(folder, device), folder, engine)
    return policy.with_sampling(**sampling) if sampling else policy


def _check_policy(named: Path, checkpoint: Path, meta: dict[str, Any]) -> None:
    """Refuse the checkpoint of an earlier stage. What `save_policy` wrote is of no stage, and whole."""
    if not meta.get("acts", True):
        raise CheckpointError(
            f"{named} was interrupted before its policy was trained (newest: {checkpoint.name}):"
            " run `mgp train` again with the same options, it goes on from there"
        )


def write_summary(folder: Path, config: RunConfig, values: dict[str, Any]) -> None:
    write_atomic(folder / "config.json", config.to_json().encode())
    write_atomic(folder / SUMMARY, json.dumps(values, indent=2).encode())


def append_eval(folder: Path, row: dict[str, Any]) -> None:
    """One evaluation in the course of training, into evals.csv; a step evaluated again replaces its row."""
    rows = [old for old in read_evals(folder) if int(old["step"]) != row["step"]]
    rows.append({key: str(value) for key, value in row.items()})
    rows.sort(key=lambda one: int(one["step"]))
    lines = [",".join(row), *(",".join(r[key] for key in row) for r in rows)]
    write_atomic(folder / "evals.csv", ("\n".join(lines) + "\n").encode())


def read_evals(folder: Path) -> list[dict[str, str]]:
    """The rows of evals.csv, none if training has not evaluated."""
    path = folder / "evals.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
