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
from mgp.graph import Out

PRODUCTS = ("MatMul", "Gemm")
CHOICES = ("ArgMax", "TopK")
LEAST = 4096  # numbers of a weight that is worth rounding
# pairs of numbers that a product of it must multiply: its input is rounded, too, and below this it gains a microsecond
LEAST_PAIRS = 1 << 17


class _Method(nn.Module):
    """A marked method as the forward of a module of its own, which is what can be exported."""

    def __init__(self, owner: nn.Module, method: str):
        super().__init__()
        self.owner, self.method = owner, method

    def forward(self, *inputs: Tensor) -> Out:
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
            custom_translation_table={torch.ops.aten.sort.stable: _stable_sort()},
        )
    fold_constants(path)


def fold_constants(path: Path) -> None:
    """Compute what depends on weights alone: a product is rounded to int8 only if its weight stands there as it is."""
    import onnx
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    graph = model.graph
    known, constant, rest = {one.name for one in graph.initializer}, [], []
    for node in graph.node:
        inputs = [name for name in node.input if name]
        if node.op_type == "Constant" or (inputs and known.issuperset(inputs)):
            constant.append(node)
            known.update(node.output)
        else:
            rest.append(node)
    asked = {name for node in rest for name in node.input} | {one.name for one in graph.output}
    made = sorted(name for node in constant for name in node.output if name in asked)
    if made:
        outputs = [helper.make_empty_tensor_value_info(name) for name in made]
        alone = helper.make_graph(constant, "constants", [], outputs, graph.initializer)
        found = ReferenceEvaluator(helper.make_model(alone, opset_imports=model.opset_import)).run(None, {})
        graph.initializer.extend(
            numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in zip(made, found, strict=True)
        )
    _keep(model, rest)
    onnx.save(model, path)


def _keep(model, nodes: list) -> None:
    """These nodes, and of the weights those that they use."""
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input} | {one.name for one in model.graph.output}
    kept = [one for one in model.graph.initializer if one.name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def _stable_sort():
    """torch's stable sort, which the exporter does not know, as TopK, whose ties go by place."""
    from onnxscript import opset18 as op

    def sort(x, stable=None, dim: int = -1, descending: bool = False):
        count = op.Gather(op.Shape(x), op.Constant(value_ints=[dim]))  # type: ignore[type-var]
        return op.TopK(x, count, axis=dim, largest=int(descending), sorted=1)

    return sort


def write_int8(source: Path, path: Path, dynamic: bool, logits: bool = False) -> None:
    """The weights of matrix products in int8; with `dynamic`, products are of integers, by ONNX Runtime's operators.

    `logits`: the graph gives such.
    """
    import onnx

    model = onnx.load(source)
    rounded = _worth_rounding(model.graph, logits)
    del model.graph.value_info[:]  # shapes of weights before they are turned over
    if dynamic:
        quantization = needed("onnxruntime.quantization", "engines", "int8")
        exact = [node.name for node in model.graph.node if node.name not in rounded]
        with _quiet():
            # convolutions of integers are slower than those of floats here
            quantization.quantize_dynamic(
                model,
                path,
                op_types_to_quantize=list(PRODUCTS),
                weight_type=quantization.QuantType.QInt8,
                nodes_to_exclude=[*exact, *(f"{name}_MatMul" for name in exact)],  # what it makes of a Gemm
            )
        return
    weights = {one.name: one for one in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        if node.name in rounded and len(weights[node.input[1]].dims) == 2:
            weight = weights[node.input[1]]
            turned = any(one.name == "transB" and one.i for one in node.attribute)
            nodes.append(_rounded(model, weight, 0 if turned else 1))
            node.input[1] = f"{weight.name}_rounded"
        nodes.append(node)
    _keep(model, nodes)
    onnx.save(model, path)


def _worth_rounding(graph, logits: bool) -> set[str]:
    """The products (their names) in which int8 saves time, but for those that a choice is made by.

    A codebook has near-duplicates, and eight bits of logits do not tell them apart: nearly all tokens that int8 changed
    were changed by this one product (docs/deploy.md). Errors of the others are evened out by what comes after them.
    """
    shapes = {one.name: one.type.tensor_type.shape.dim for one in (*graph.input, *graph.value_info)}
    weights = {one.name: int(np.prod(one.dims)) for one in graph.initializer}
    decide = {one.name for one in graph.output} if logits else set()
    worth, exact = {}, set()  # weights: one that several products have is rounded for all or for none
    for node in reversed(graph.node):  # whoever takes what a product gives comes after it
        if node.op_type in PRODUCTS and node.input[1] in weights:
            size, decides = weights[node.input[1]], not decide.isdisjoint(node.output)
            if decides or size < LEAST or size * _rows(shapes.get(node.input[0])) < LEAST_PAIRS:
                exact.add(node.input[1])
            worth[node.name] = node.input[1]
        elif node.op_type in CHOICES or (node.op_type not in PRODUCTS and not decide.isdisjoint(node.output)):
            decide.update(node.input)
    return {name for name, weight in worth.items() if weight not in exact}


def _rows(shape) -> float:
    """Of a product's input, for one robot: its first axis, if free, are the robots; others that are free may be any."""
    if shape is None:
        return np.inf
    sizes = [one.dim_value or (np.inf if axis else 1) for axis, one in enumerate(shape)]
    return float(np.prod(sizes[:-1]))


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
