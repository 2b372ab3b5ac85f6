"""Models of ONNX that contradict themselves are refused, with the node or the name and what is wrong, and not by what Python raised."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph
from tests.bridges.onnx_models import FLOAT, INT64, helper, model, onnx

pytestmark = pytest.mark.extras("onnx")


def of_one(operator: str, constants: dict[str, Any] | None = None, opset: int = 20, **attributes: Any) -> Any:
    """A model of one node that reads `x` of 2 by 3 and constants."""
    held = constants or {}
    return model([helper.make_node(operator, ["x", *held], ["y"], **attributes)], {"x": (2, 3)}, ["y"], held, opset)


def declared(dtype: int, shape: Any) -> Any:
    """A model whose output is float32[2, 3], and is declared as this."""
    made = of_one("Relu")
    made.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", dtype, shape))
    return made


def with_a_type_of_no_onnx() -> Any:
    made = of_one("Add")
    made.graph.node[0].input.append("w")
    made.graph.initializer.append(onnx.TensorProto(name="w", data_type=99, dims=[3], raw_data=b"1234"))
    return made


def steps(count: int) -> Any:
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["y"])]
    return model(nodes, {}, ["y"], {"a": np.int64(0), "b": np.int64(5), "c": np.int64(count)})


def twice(*outputs: str) -> Any:
    return model([helper.make_node("Relu", ["x"], [name]) for name in outputs], {"x": (2, 3)}, [outputs[-1]], {})


REFUSED: dict[str, tuple[Any, str]] = {
    "a type to cast to": (of_one("Cast", to=77), "Cast y: the attribute 'to' is of the element type 77, which onnx"),
    "a type of elements": (with_a_type_of_no_onnx(), "the tensor 'w' is of the element type 99, which onnx"),
    "a range without an end": (steps(0), "Range y: a range by steps of 0 has no end"),
    "repeats below none": (of_one("Tile", {"r": np.array([-1, 1])}), "Tile y: the repeats [-1, 1] are not all 0 or more"),
    "a step of nothing": (
        of_one("Slice", {"a": np.array([0]), "b": np.array([2]), "c": np.array([1]), "d": np.array([0])}),
        "Slice y: a step of 0 along axis 1 of x: float32[2, 3] names no elements",
    ),
    "an opset of the future": (of_one("Relu", opset=99), "the model is of opset 99, and onnx "),
    "a name of two nodes": (twice("y", "y"), "Relu y: 'y' stands for something already"),
    "a name of an input": (twice("x"), "Relu x: 'x' stands for something already"),
    "another type": (declared(INT64, None), "the output 'y' of the model is declared as int64, and its nodes make float32"),
    "another shape": (declared(FLOAT, (2, 4)), "the output 'y' of the model is declared with the shape [2, 4], and its nodes make [2, 3]"),
    "another number of axes": (declared(FLOAT, ("n",)), "is declared with the shape [n], and its nodes make [2, 3]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_contradicts_itself_is_refused(case: str) -> None:
    wrong, message = REFUSED[case]
    with pytest.raises(tl.GraphError, match=re.escape(message)):
        graph.from_onnx(wrong)


def test_a_declaration_may_leave_open_what_the_nodes_make() -> None:
    for shape in (None, (2, "n"), ("m", 3), (2, None)):
        assert graph.from_onnx(declared(FLOAT, shape)).outputs[0].shape == (2, 3)


def test_a_backend_prepares_models_alone() -> None:
    from tensorlang.bridges.onnx import Backend

    with pytest.raises(tl.GraphError, match=r"Backend.prepare takes an onnx.ModelProto, as onnx.load gives it, not a NoneType"):
        Backend.prepare(None)
    assert not Backend.is_compatible(None)
