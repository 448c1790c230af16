"""ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from mgp.engines import Session

# Rewritings of a graph that are slower here: a product of tokens and its bias become one operator between two that
# reshape, and a sum before a layer norm one that takes three times as long as both
SLOWER = ["MatMulAddFusion", "SkipLayerNormFusion"]


def open_graph(path: Path, precision: str) -> Session:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(path, options, providers=providers, disabled_optimizers=SLOWER)
    names = [one.name for one in session.get_inputs()]

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return session.run(None, dict(zip(names, inputs, strict=True)))

    return run
