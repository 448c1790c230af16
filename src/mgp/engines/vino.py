"""OpenVINO, on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino

from mgp.engines import Session

HINTS = {"fp32": "f32", "bf16": "bf16"}  # bf16 is ignored by processors that have no such unit


@cache
def _core() -> Any:
    return openvino.Core()


def open_graph(path: Path, precision: str) -> Session:
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": HINTS[precision],
    }
    model = _core().compile_model(path, "CPU", settings)
    request, outputs = model.create_infer_request(), range(len(model.outputs))
    lock = threading.Lock()  # a request holds one call's inputs

    def run(inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        with lock:
            for place, array in enumerate(inputs):
                request.set_input_tensor(place, openvino.Tensor(array, shared_memory=True))
            request.infer()
            return [request.get_output_tensor(place).data.copy() for place in outputs]

    return run
