"""torch.compile. It writes no files and compiles anew in every process, for tens of seconds: used only when named."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from mgp.engines import Session
from mgp.graph import outputs_of

COMPILERS = ("g++", "clang++", "c++")


def available() -> bool:
    return any(shutil.which(name) for name in COMPILERS)


def open_method(module: nn.Module, method: str) -> Session:
    """The marked method, compiled for any size of the axes that vary."""
    function = getattr(type(module), method).__wrapped__  # without its mark: nobody stands in for the stand-in
    # the function itself: torch counts how often a piece of code is compiled, and leaves it as it is after eight times,
    # which one lambda for all graphs of a policy was soon
    compiled = torch.compile(function, dynamic=True)

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        with torch.no_grad():
            return [one.numpy() for one in outputs_of(compiled(module, *map(torch.from_numpy, inputs)))]

    return run
