"""ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from mgp.engines import Session


def open_graph(path: Path, precision: str) -> Session:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return session.run(None, dict(zip(names, inputs, strict=True)))

    return run
