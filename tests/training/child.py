"""What the tests of crashes and of several processes run in processes of their own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

import mgp.files
import mgp.training.checkpoint as checkpoint
import small
from mgp.policies.config import RunConfig
from mgp.policies.files import load_checkpoint
from mgp.training.loop import Trainer

torch.set_num_threads(1)


def trainer(config: RunConfig, run: Path, **options: Any) -> Trainer:
    return Trainer(config, small.demonstrations(config.task.observation), run, quiet=True, **options)


def train(config: RunConfig, run: Path) -> None:
    trainer(config, run).train()


def train_with_slow_saves(config: RunConfig, run: Path, seconds: float) -> None:
    """Half of a file, a pause, the other half: most instants are in the middle of a save."""

    def slow(tensors: dict, path: Path) -> None:
        content = save(tensors)
        with open(path, "wb") as file:
            for part in (content[: len(content) // 2], content[len(content) // 2 :]):
                file.write(part)
                file.flush()
                time.sleep(seconds)

    checkpoint.save_file = slow
    train(config, run)


def train_and_die(config: RunConfig, run: Path, where: str, save_number: int) -> None:
    """Killed at one point of the n-th save: half a file written, before or after the rename, ..."""
    saves = 0
    module, name = {
        "half a file": (checkpoint, "save_file"),
        "before the description": (checkpoint, "seal"),
        "before the rename": (mgp.files.os, "replace"),
        "after the rename": (mgp.files.os, "replace"),
        "before removing the old": (checkpoint.shutil, "rmtree"),
    }[where]
    original = getattr(module, name)

    def deadly(*args: Any, **options: Any) -> Any:
        nonlocal saves
        if name == "rmtree" and options.get("ignore_errors"):
            return original(*args, **options)
        saves += 1
        if saves == save_number:
            if where == "half a file":
                content = save(args[0])
                Path(args[1]).write_bytes(content[: len(content) // 2])
            elif where == "after the rename":
                original(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    setattr(module, name, deadly)
    train(config, run)


def die_at_every_point(config: RunConfig, run: Path, points: dict[str, int]) -> None:
    """One killed process after the other, each going on where the one before it died; all must leave a policy.

    They are forked from this one, which never trains: a process from the server takes a second to come and go.
    """
    for where, save_number in points.items():
        pid = os.fork()
        if pid == 0:
            train_and_die(config, run, where, save_number)
            os._exit(1)  # it was to be killed
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), where
        assert os.WTERMSIG(status) == signal.SIGKILL, where
        path, _ = checkpoint.newest(run)  # raises if what is left is broken
        load_checkpoint(path)


def train_as_rank(rank: int, world: int, port: int, config: RunConfig, run: Path, data: Path, out: Path) -> None:
    """`mgp train` as torchrun starts it; writes down the weights this rank ends with."""
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }  # fmt: skip
    from mgp.workflows import train as workflow

    class Watched(Trainer):
        def train(self) -> Path:
            last = super().train()
            tensors = {name: tensor.contiguous().clone() for name, tensor in self.policy.state_dict().items()}
            (out / f"rank-{rank}.safetensors").write_bytes(save(tensors))
            return last

    workflow.Trainer = Watched  # type: ignore[misc]
    workflow.train(config, run, data, device="cpu")
