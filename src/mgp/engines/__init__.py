"""Engines: who computes the `@graph` functions of a policy that acts. torch itself is the reference, called "torch".

A new one is one file and one line in `ENGINES`. All compute on one thread: networks this small are slower on two.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import nn

from mgp.errors import UnknownNameError
from mgp.extras import needed

REFERENCE, AUTO = "torch", "auto"
# how a graph is written: as it is; with the weights of matrix products in int8; with int8 products, the other factor
# rounded when it comes. An engine that compiles torch's own code ("own") needs no file.
SUFFIX = {"fp32": ".onnx", "int8": ".int8.onnx", "dynamic": ".dynamic.onnx"}

Session = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]  # inputs of a graph to its outputs


@dataclass(frozen=True)
class Engine:
    name: str
    module: str  # with `open_graph(path, precision) -> Session`
    library: str
    precision: str = "fp32"
    weights: str = "fp32"  # which of the files it reads

    @property
    def available(self) -> bool:
        """Whether it can compute on this machine."""
        if self.weights == "own":
            return importlib.import_module(self.module).available()
        return importlib.util.find_spec(self.library) is not None

    def open(self, folder: Path, graph: str, module: nn.Module, method: str) -> Session:
        """A graph of the folder, which was written from the method of the module."""
        needed(self.library, "engines", f"engine {self.name!r}")
        home = importlib.import_module(self.module)
        if self.weights == "own":
            return home.open_method(module, method)
        return home.open_graph(folder / f"{graph}{SUFFIX[self.weights]}", self.precision)


ENGINES = {
    one.name: one
    for one in (
        Engine("onnxruntime", "mgp.engines.ort", "onnxruntime"),
        Engine("onnxruntime-int8", "mgp.engines.ort", "onnxruntime", weights="dynamic"),
        Engine("openvino", "mgp.engines.vino", "openvino"),
        Engine("openvino-bf16", "mgp.engines.vino", "openvino", "bf16"),
        Engine("openvino-int8", "mgp.engines.vino", "openvino", "bf16", weights="int8"),
        Engine("torch-compiled", "mgp.engines.compiled", "torch", weights="own"),
    )
}


def find_engine(name: str) -> Engine:
    if name not in ENGINES:
        raise UnknownNameError("engine", name, [AUTO, REFERENCE, *ENGINES])
    return ENGINES[name]
