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
    compiled = torch.compile(lambda *inputs: function(module, *inputs), dynamic=True)

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        with torch.no_grad():
            return [one.numpy() for one in outputs_of(compiled(*(torch.from_numpy(one) for one in inputs)))]

    return run
