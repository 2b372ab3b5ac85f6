"""Models of ONNX: its own node tests are the oracle, shape plumbing vanishes, what has no translation is named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph

onnx = pytest.importorskip("onnx")
helper: Any = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def arrays(values: Any) -> list[np.ndarray]:
    return [onnx.numpy_helper.to_array(one) if isinstance(one, onnx.TensorProto) else np.asarray(one) for one in values]


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any], opset: int = 20) -> Any:
    given = [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    held = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_model(helper.make_graph(nodes, "net", given, made, held), opset_imports=[helper.make_opsetid("", opset)])


def test_what_is_translated_computes_what_the_node_tests_of_onnx_say() -> None:
    """A case is right or refused, and many are right."""
    from onnx.backend.test.case.node import collect_testcases

    right, wrong = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        try:
            g = graph.from_onnx(case.model)
        except tl.GraphError:
            continue
        for inputs, outputs in case.data_sets:
            try:
                for found, wanted in zip(g.run(*arrays(inputs)), arrays(outputs), strict=True):
                    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                    np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=case.rtol, atol=case.atol)
                right += 1
            except AssertionError as error:
                wrong.append((case.name, str(error)))
    assert not wrong
    assert right >= 400


def test_a_backend_prepares_and_runs_models_and_nodes() -> None:
    from tensorlang.bridges.onnx import Backend

    w, b, x = (np.random.default_rng(seed).standard_normal(shape).astype("f4") for seed, shape in enumerate([(5, 4), (5,), (3, 4)]))
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["y"])]
    made = model(nodes, {"x": (3, 4)}, ["y"], {"w": w, "b": b})
    wanted = np.maximum(x @ w.T + b, 0)
    for (found,) in (Backend.prepare(made).run([x]), Backend.run_model(made, [x])):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(Backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])[0], np.maximum(x, 0))
    assert Backend.is_compatible(made) and Backend.supports_device("CPU") and not Backend.supports_device("CUDA")
    assert not Backend.is_compatible(model([helper.make_node("NonZero", ["x"], ["y"])], {"x": (3, 4)}, ["y"], {}))
    with pytest.raises(tl.BuildError, match="kernels run on the device 'CPU', not on 'CUDA'"):
        Backend.prepare(made, "CUDA")


def test_what_is_said_about_shapes_is_computed_while_it_is_read() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "axes"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    held = {"zero": np.int64(0), "axes": np.array([0]), "rest": np.array([2, -1])}
    g = graph.from_onnx(model(nodes, {"x": (3, 4)}, ["y"], held))
    assert [node.operator for node in g.nodes] == ["reshape"] and g.outputs[0].shape == (3, 2, 2)


def test_a_named_dim_is_any_size() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Flatten", ["h"], ["y"])]
    w = np.random.default_rng(0).standard_normal((4, 5)).astype("f4")
    g = graph.from_onnx(model(nodes, {"x": ("batch", 2, 4)}, ["y"], {"w": w}))
    compiled = g.compile()
    for size in (1, 6):
        x = np.ones((size, 2, 4), "f4")
        np.testing.assert_allclose(compiled(x)[0], (x @ w).reshape(size, 10), rtol=1e-5)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda: model([helper.make_node("Reluu", ["x"], ["y"])], {"x": (3,)}, ["y"], {}),
            "Reluu y: Reluu has no translation; did you mean 'Relu'",
        ),
        (lambda: model([helper.make_node("Foo", ["x"], ["y"], domain="acme")], {"x": (3,)}, ["y"], {}), "acme.Foo has no translation"),
        (
            lambda: model([helper.make_node("Relu", ["z"], ["y"], name="n")], {"x": (3,)}, ["y"], {}),
            "Relu n: the operand 'z' is made by no node",
        ),
        (lambda: model([], {"x": (3,)}, ["y"], {}), "the output 'y' of the model is made by no node"),
        (lambda: model([], {"x": (3,)}, ["x"], {}, opset=9), "of opset 9, and at least 13 is needed"),
        (lambda: model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": (3,)}, ["y"], {"w": np.ones(2, "f4")}), "Add y: .*do not fit"),
        (lambda: model([helper.make_node("Reshape", ["x", "x"], ["y"])], {"x": (3,)}, ["y"], {}), "has to be constant"),
        (lambda: "model.onnx", "takes an onnx.ModelProto, as onnx.load gives it, not a str"),
    ],
)
def test_what_has_no_translation_is_refused_with_its_node(made: Any, message: str) -> None:
    with pytest.raises(tl.GraphError, match=message):
        graph.from_onnx(made())
