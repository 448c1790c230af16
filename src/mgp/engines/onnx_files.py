"""Graphs as ONNX files, which every engine reads; and the same with weights in int8."""

from __future__ import annotations

import logging
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mgp.engines.calls import Graph
from mgp.extras import needed

LEAST = 4096  # numbers of a weight that is worth rounding


class _Method(nn.Module):
    """A marked method as the forward of a module of its own, which is what can be exported."""

    def __init__(self, owner: nn.Module, method: str):
        super().__init__()
        self.owner, self.method = owner, method

    def forward(self, *inputs: Tensor) -> Tensor:
        return getattr(self.owner, self.method)(*inputs)


def write_graph(policy: nn.Module, graph: Graph, path: Path) -> None:
    for library in ("onnx", "onnxscript"):
        needed(library, "engines", "`mgp export`")
    dynamic = torch.export.Dim.DYNAMIC
    free = tuple({axis: dynamic for axis, size in enumerate(shape) if size is None} for shape in graph.shapes)
    inputs = tuple(one.clone() for one in graph.example.inputs)
    with torch.no_grad(), _quiet():
        torch.onnx.export(
            _Method(policy.get_submodule(graph.owner), graph.method).eval(),
            inputs,
            path,
            dynamo=True,
            verbose=False,
            external_data=False,
            dynamic_shapes=(free,),
        )


def write_int8(source: Path, path: Path, dynamic: bool) -> None:
    """The weights of matrix products in int8; with `dynamic`, products are of integers, by ONNX Runtime's operators."""
    import onnx

    model = onnx.load(source)
    del model.graph.value_info[:]  # shapes of weights before they are turned over
    if dynamic:
        quantization = needed("onnxruntime.quantization", "engines", "int8")
        with _quiet():
            # convolutions of integers are slower than those of floats here
            products, kind = ["MatMul", "Gemm"], quantization.QuantType.QInt8
            quantization.quantize_dynamic(model, path, op_types_to_quantize=products, weight_type=kind)
        return
    weights = {one.name: one for one in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        weight = weights.get(node.input[1]) if node.op_type in ("MatMul", "Gemm") else None
        if weight is not None and len(weight.dims) == 2 and np.prod(weight.dims) >= LEAST:
            turned = any(one.name == "transB" and one.i for one in node.attribute)
            nodes.append(_rounded(model, weight, 0 if turned else 1))
            node.input[1] = f"{weight.name}_rounded"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [one for one in model.graph.initializer if one.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, path)


def _rounded(model, weight, axis: int):
    """A node that gives the weight back from int8, one scale for each of its outputs."""
    from onnx import helper, numpy_helper

    values = numpy_helper.to_array(weight)
    scale = np.maximum(np.abs(values).max(1 - axis, keepdims=True) / 127, 1e-12)
    model.graph.initializer.extend(
        [
            numpy_helper.from_array(np.round(values / scale).astype(np.int8), f"{weight.name}_int8"),
            numpy_helper.from_array(scale.reshape(-1).astype(np.float32), f"{weight.name}_scale"),
        ]
    )
    names = [f"{weight.name}_int8", f"{weight.name}_scale"]
    return helper.make_node("DequantizeLinear", names, [f"{weight.name}_rounded"], axis=axis)


@contextmanager
def _quiet():
    """The exporter tells much that nobody asked for."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
