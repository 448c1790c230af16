"""The folder `engines/` of a checkpoint: graphs as files, and how well each engine agreed with torch on them.

meta.json (sealed, as a checkpoint's) says of which weights the graphs are, with which versions they were made, the
inputs of each, and for each engine that may be used its agreement and the milliseconds of a replan where it was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgp.engines import AUTO, REFERENCE, Session, find_engine
from mgp.engines.calls import Graph, Shape
from mgp.errors import CheckpointError, ConfigError
from mgp.files import unseal
from mgp.graph import Out, dismiss, stand_in
from mgp.policies.files import FORMAT as CHECKPOINT_FORMAT
from mgp.policies.learned import LearnedPolicy

FOLDER, FORMAT = "engines", 1


@dataclass(frozen=True)
class StandIn:
    """A session in place of a marked method, for the shapes that it was written for."""

    shapes: tuple[Shape, ...]
    session: Session

    def __call__(self, *inputs: Tensor) -> Out | None:
        if len(inputs) != len(self.shapes) or not all(map(_fits, inputs, self.shapes)):
            return None
        found = self.session([np.ascontiguousarray(one.numpy()) for one in inputs])
        return torch.from_numpy(found[0]) if len(found) == 1 else tuple(map(torch.from_numpy, found))


def _fits(one: Tensor, shape: Shape) -> bool:
    if not one.is_cpu or one.ndim != len(shape):
        return False
    return all(known is None or size == known for size, known in zip(one.shape, shape, strict=True))


def describe(graph: Graph) -> dict[str, Any]:
    return {"owner": graph.owner, "method": graph.method, "shapes": graph.shapes}


def weights_sum(checkpoint: Path) -> str:
    """What tells the weights of a checkpoint from others."""
    return unseal(checkpoint, CHECKPOINT_FORMAT, only=())["sha256"]["policy.safetensors"]


def exported(checkpoint: Path) -> dict[str, Any] | None:
    """meta.json of the engines of a checkpoint, None if there are none; damaged and foreign files are refused."""
    folder = checkpoint / FOLDER
    if not folder.is_dir():
        return None
    remedy = f"run `mgp export` again, delete {folder}, or choose engine = {REFERENCE!r}"
    try:
        meta = unseal(folder, FORMAT)
    except CheckpointError as error:
        raise CheckpointError(f"{folder} cannot be used: {remedy} ({error})") from error
    if meta["weights"] != weights_sum(checkpoint):
        raise CheckpointError(f"{folder} was exported from other weights than those of {checkpoint.name}: {remedy}")
    return meta


def choose(checkpoint: Path, engine: str = AUTO) -> str:
    """The engine that will compute: the one asked for, or the fastest of those exported that can be imported here."""
    if engine == REFERENCE:
        return engine
    if engine != AUTO:
        find_engine(engine)
    meta = exported(checkpoint)
    found = {} if meta is None else meta["engines"]
    if engine == AUTO:
        usable = [name for name in found if name == REFERENCE or _ready(name)]
        return min(usable, key=lambda name: found[name]["milliseconds"], default=REFERENCE)
    if engine not in found:
        there = f"it has {', '.join(found)}" if found else "nothing was exported"
        raise ConfigError(f"{checkpoint} has no engine {engine!r} ({there}): run `mgp export RUN --engine {engine}`")
    return engine


def _ready(name: str) -> bool:
    """Whether an engine can begin at once."""
    engine = find_engine(name)
    return engine.weights != "own" and engine.available


def adopt(policy: LearnedPolicy, folder: Path, meta: dict[str, Any], engine: str) -> LearnedPolicy:
    """Let an engine compute for the policy, and for all that share its networks."""
    dismiss(policy)
    kind = find_engine(engine)
    for name, graph in meta["graphs"].items():
        shapes = tuple(tuple(shape) for shape in graph["shapes"])
        module = policy.get_submodule(graph["owner"])
        session = kind.open(folder, name, module, graph["method"])
        stand_in(module, graph["method"], StandIn(shapes, session))
    policy.engine = engine
    return policy


def with_engine(policy: LearnedPolicy, checkpoint: Path, engine: str = AUTO) -> LearnedPolicy:
    """The policy of a checkpoint, computed by an engine; `auto` never moves one away from a GPU."""
    if policy.device.type != "cpu":
        if engine not in (AUTO, REFERENCE):
            raise ConfigError(f"engine {engine!r} computes on the CPU, the policy is on {policy.device}: choose one")
        return policy
    chosen = choose(checkpoint, engine)
    meta = None if chosen == REFERENCE else exported(checkpoint)
    return policy if meta is None else adopt(policy, checkpoint / FOLDER, meta, chosen)
