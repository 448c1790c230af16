"""Which products of a graph are of int8: those in which it saves time, and never one that a choice is made by."""

from __future__ import annotations

import numpy as np
import pytest

from mgp.engines.onnx_files import LEAST_PAIRS, write_int8

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
WIDE, ROWS = 64, LEAST_PAIRS // 64**2  # of a product that is worth it


def written(folder, nodes, *weights: str, shape=(1, ROWS, WIDE), dynamic=True, **about) -> set[str]:
    """A graph of square weights from x to y, written in int8: which weights are whole numbers there."""
    numbers = np.random.default_rng(0)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(kind, takes.split(), [gives], name=f"to_{gives}") for kind, takes, gives in nodes],
        "graph",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(numbers.standard_normal((WIDE, WIDE)).astype(np.float32), w) for w in weights],
    )
    source, path = folder / "graph.onnx", folder / "graph.int8.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), source)
    write_int8(source, path, dynamic, **about)
    kept = {one.name for one in onnx.load(path).graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
    return set(weights) - kept


@pytest.mark.parametrize("dynamic", [True, False])
def test_what_is_chosen_from_is_exact(tmp_path, dynamic):
    nodes = [("MatMul", "x first", "a"), ("Relu", "a", "b"), ("MatMul", "b last", "c"), ("Softmax", "c", "d")]
    both = ("first", "last")
    assert written(tmp_path, [*nodes, ("Relu", "d", "y")], *both, dynamic=dynamic) == {"first", "last"}
    assert written(tmp_path, [*nodes, ("ArgMax", "d", "y")], *both, dynamic=dynamic) == {"first"}
    assert written(tmp_path, [*nodes, ("Relu", "d", "y")], *both, dynamic=dynamic, logits=True) == {"first"}


def test_a_weight_that_is_chosen_by_once_is_exact_wherever_it_is_used(tmp_path):
    """Or there would be the rounded one in both places, read back from int8 at every call."""
    nodes = [("MatMul", "x head", "scored"), ("Add", "x scored", "z"), ("MatMul", "z other", "again")]
    nodes += [("MatMul", "again head", "logits"), ("ArgMax", "logits", "y")]
    assert written(tmp_path, nodes, "head", "other") == {"other"}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(
    ("shape", "worth"),
    [
        ((1, 1, WIDE), False),
        ((1, ROWS - 1, WIDE), False),
        ((1, ROWS, WIDE), True),
        ((1, "tokens", WIDE), True),
        (("robots", ROWS, WIDE), True),
        (("robots", 1, WIDE), False),
        (("robots", WIDE), False),  # as in the head that corrects actions: a third of what it says would be noise
    ],
)
def test_a_product_that_would_not_be_faster_is_exact(tmp_path, shape, worth, dynamic):
    product = ("Gemm" if len(shape) == 2 else "MatMul", "x weight", "a")
    found = written(tmp_path, [product, ("Relu", "a", "y")], "weight", shape=shape, dynamic=dynamic)
    assert found == ({"weight"} if worth else set())
