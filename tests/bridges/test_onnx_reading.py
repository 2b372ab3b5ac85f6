"""What the importer of ONNX does besides rows: shapes, functions, loops, lists of faults; and models whose bytes were changed."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import graph
from tests.bridges.onnx_models import FLOAT, INT64, helper, model, onnx

pytestmark = pytest.mark.extras("onnx")


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


def proto(node: Any) -> list[str]:
    """The canonical operators of a model."""
    return [one.operator for one in node.nodes]


def test_inputs_that_are_shapes_become_constants_by_their_values() -> None:
    made = model([helper.make_node("Reshape", ["x", "shape"], ["y"])], {"x": (3, 4)}, ["y"], {})
    made.graph.input.append(helper.make_tensor_value_info("shape", INT64, (2,)))
    with pytest.raises(tl.GraphError, match=r"operand 1 .* has to be constant: .*; from_onnx\(model, values=\{'shape': ...\}\) gives it"):
        graph.from_onnx(made)
    g = graph.from_onnx(made, {"shape": np.array([2, -1])})
    assert g.outputs[0].shape == (2, 6) and [value.name for value in g.inputs] == ["x"]
    for wrong in (np.array([2, -1, 1]), np.array([2.0, 6.0])):
        with pytest.raises(tl.GraphError, match="the value of the input 'shape', .* is of another type than the model says"):
            graph.from_onnx(made, {"shape": wrong})
    with pytest.raises(tl.GraphError, match="values= names 'shpae', which is no input; did you mean 'shape'"):
        graph.from_onnx(made, {"shpae": np.array([2, -1])})


def test_a_prepared_model_meets_shapes_at_its_calls_and_keeps_what_it_compiled() -> None:
    from tensorlang.bridges.onnx import Backend

    made = model([helper.make_node("Reshape", ["x", "shape"], ["y"])], {"x": (3, 4)}, ["y"], {})
    made.graph.input.append(helper.make_tensor_value_info("shape", INT64, (2,)))
    prepared, x = Backend.prepare(made), np.arange(12, dtype="f4").reshape(3, 4)
    for shape in ((2, 6), (4, 3), (2, 6)):
        np.testing.assert_array_equal(prepared.run([x, np.array(shape)])[0], x.reshape(shape))
    assert len(prepared._made) == 2 and list(prepared.deciding) == ["shape"]
    with pytest.raises(tl.CallError, match=r"the model takes 2 inputs \(x, shape\), not 1"):
        prepared.run([x])


def test_a_function_of_the_model_is_read_in_place_of_its_call() -> None:
    inner = [helper.make_node("Mul", ["a", "a"], ["m"]), helper.make_node("LeakyRelu", ["m"], ["b"])]
    inner[1].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    own = helper.make_function("acme", "Squash", ["a"], ["b"], inner, [helper.make_opsetid("", 20)], ["slope"])
    net = model([helper.make_node("Squash", ["x"], ["y"], domain="acme", slope=0.5)], {"x": (3,)}, ["y"], {})
    net.functions.append(own)
    net.opset_import.append(helper.make_opsetid("acme", 1))
    g = graph.from_onnx(net)
    assert proto(g) == ["mul", "leaky_relu"] and g.nodes[1]["negative_slope"] == 0.5
    net.functions[0].node.append(helper.make_node("Squash", ["b"], ["c"], domain="acme"))
    with pytest.raises(tl.GraphError, match="functions stand more than 32 deep in each other"):
        graph.from_onnx(net)


def test_what_has_no_row_is_read_by_the_function_of_its_schema() -> None:
    g = graph.from_onnx(model([helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=2.0)], {"x": (3,)}, ["y"], {}))
    np.testing.assert_array_equal(g.run(np.array([1, 2, 3], "f4"))[0], [0, 0, 3])


def test_loops_of_a_known_number_of_steps_are_unrolled_and_others_refused() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "x"], ["t"]),
            helper.make_node("Identity", ["c"], ["d"]),
            helper.make_node("Identity", ["t"], ["o"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (("i", INT64, ()), ("c", 9, ()), ("s", FLOAT, (3,)))],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (("d", 9, ()), ("t", FLOAT, (3,)), ("o", FLOAT, (3,)))],
    )
    made = model([helper.make_node("Loop", ["n", "", "x"], ["y", "z"], body=body)], {"x": (3,)}, ["y", "z"], {"n": np.int64(3)})
    x = np.array([1, 2, 3], "f4")
    last, all_ = graph.from_onnx(made).run(x)
    np.testing.assert_array_equal(last, 4 * x)
    np.testing.assert_array_equal(all_, np.outer([2, 3, 4], x))
    made.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.int64(1 << 40), "n"))
    with pytest.raises(tl.GraphError, match="a loop of more than 1024 steps has no translation"):
        graph.from_onnx(made)


def test_an_attribute_that_no_row_asks_for_is_refused_or_left_to_the_function() -> None:
    w, r = (np.ones((1, 20, 5), "f4") for _ in range(2))
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=5, activation_alpha=[0.5])
    with pytest.raises(tl.GraphError, match="LSTM y: the attribute 'activation_alpha' has no translation"):
        graph.from_onnx(model([node], {"x": (3, 2, 5)}, ["y"], {"w": w, "r": r}))
    heads = dict.fromkeys("qkv", (1, 2, 3, 4))
    plain = graph.from_onnx(model([helper.make_node("Attention", ["q", "k", "v"], ["y"])], heads, ["y"], {}, opset=24))
    assert proto(plain) == ["scaled_dot_product_attention"]
    exact = helper.make_node("Attention", ["q", "k", "v"], ["y"], softmax_precision=onnx.TensorProto.DOUBLE)
    assert "scaled_dot_product_attention" not in proto(graph.from_onnx(model([exact], heads, ["y"], {}, opset=24)))


def test_partial_lists_all_that_has_no_translation_at_once() -> None:
    nodes = [
        helper.make_node("Foo", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Unique", ["b"], ["c"]),
        helper.make_node("Add", ["x", "w"], ["d"]),
    ]  # fmt: skip
    made = model(nodes, {"x": (3,)}, ["c", "d"], {"w": np.ones(2, "f4")})
    with pytest.raises(tl.GraphError, match="^Foo a: ") as refusal:
        graph.from_onnx(made)
    assert "\n" not in str(refusal.value)
    with pytest.raises(tl.GraphError) as refusal:
        graph.from_onnx(made, partial=True)
    first, *listed = str(refusal.value).splitlines()
    assert first == "3 nodes of the model have no translation:"
    assert [line.split(":")[0] for line in listed] == ["  Foo a", "  Unique c", "  Add d"]


def test_older_opsets_say_by_attributes_what_newer_ones_say_by_operands() -> None:
    x = np.arange(6, dtype="f4").reshape(1, 2, 3)
    for name, attributes, wanted in (
        ("Squeeze", {"axes": [0]}, x[0]), ("ReduceSum", {"axes": [2], "keepdims": 0}, x.sum(2)),
        ("Slice", {"starts": [1], "ends": [3], "axes": [2]}, x[:, :, 1:]), ("Clip", {"min": 1.0, "max": 4.0}, x.clip(1, 4)),
        ("Pad", {"pads": [0, 0, 1, 0, 0, 0]}, np.pad(x, ((0, 0), (0, 0), (1, 0)))),
        ("Softmax", {"axis": 1}, np.exp(x) / np.exp(x).sum()),
    ):  # fmt: skip
        made = model([helper.make_node(name, ["x"], ["y"], **attributes)], {"x": x.shape}, ["y"], {}, opset=9)
        np.testing.assert_allclose(graph.from_onnx(made).run(x)[0], wanted, rtol=1e-5)


def test_a_recurrent_layer_serves_any_number_of_rows() -> None:
    w, r = (np.random.default_rng(seed).standard_normal((1, 20, 5)).astype("f4") for seed in (0, 1))
    g = graph.from_onnx(
        model([helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=5)], {"x": (3, "rows", 5)}, ["y", "h"], {"w": w, "r": r})
    )
    compiled = g.compile()
    x = np.random.default_rng(2).standard_normal((3, 4, 5)).astype("f4")
    y, h = compiled(x)
    assert y.shape == (3, 1, 4, 5) and np.array_equal(y[-1], h)
    for row in range(4):
        np.testing.assert_allclose(compiled(x[:, row : row + 1])[0][:, :, 0], y[:, :, row], rtol=1e-5, atol=1e-6)
    with pytest.raises(tl.GraphError, match="a recurrent layer of steps steps has no translation; the number of rows may be a dim"):
        graph.from_onnx(
            model([helper.make_node("LSTM", ["x", "w", "r"], ["y", "h"], hidden_size=5)], {"x": ("steps", 3, 5)}, ["h"], {"w": w, "r": r})
        )


def test_shapes_with_dims_pass_through_what_exporters_compute_of_them() -> None:
    """One graph for every batch and length: taken apart, multiplied, put together, and handed to Reshape, Expand and ConstantOfShape."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["b"]), node("Gather", ["s", "one"], ["t"]),
        node("Mul", ["b", "t"], ["bt"]), node("Unsqueeze", ["bt", "axes"], ["bt1"]), node("Slice", ["s", "zeros", "two"], ["lead"]),
        node("Concat", ["bt1", "rest"], ["flat"], axis=0), node("Reshape", ["x", "flat"], ["f"]), node("Gemm", ["f", "w"], ["g"]),
        node("Concat", ["lead", "heads"], ["shape"], axis=0), node("Reshape", ["g", "shape"], ["h"]),
        node("Transpose", ["h"], ["y"], perm=[0, 2, 1, 3]), node("ConstantOfShape", ["lead"], ["z"]),
        node("Equal", ["lead", "rest"], ["free"]), node("Where", ["free", "two", "lead"], ["wide"]), node("Expand", ["row", "wide"], ["e"]),
    ]  # fmt: skip
    w = np.random.default_rng(0).standard_normal((6, 8)).astype("f4")
    held = {
        "zero": np.int64(0), "one": np.int64(1), "axes": np.array([0]), "zeros": np.array([0]), "two": np.array([2]), "w": w,
        "rest": np.array([-1]), "heads": np.array([2, 4]), "row": np.ones((1, 1), "f4"),
    }  # fmt: skip
    g = graph.from_onnx(model(nodes, {"x": ("batch", "time", 6)}, ["y", "z", "e"], held))
    compiled = g.compile()
    for batch, time in ((2, 3), (1, 5)):
        x = np.random.default_rng(1).standard_normal((batch, time, 6)).astype("f4")
        y, z, e = compiled(x)
        np.testing.assert_allclose(y, (x @ w).reshape(batch, time, 2, 4).transpose(0, 2, 1, 3), rtol=1e-4, atol=1e-5)
        assert z.shape == e.shape == (batch, time) and not z.any() and e.all()
    with pytest.raises(tl.GraphError, match=r"Cast f: extents as floating-point numbers have no translation"):
        graph.from_onnx(model([nodes[0], node("Cast", ["s"], ["f"], to=FLOAT)], {"x": ("batch", 6)}, ["f"], {}))
    with pytest.raises(tl.GraphError, match=r"an output of the model is a shape with a dim, \(batch, 6\), which no graph has"):
        graph.from_onnx(model([nodes[0]], {"x": ("batch", 6)}, ["s"], {}))


NARROW = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]


@pytest.mark.parametrize("kind", NARROW)
def test_types_of_fewer_bits_are_rounded_as_ml_dtypes_rounds_them(kind: str) -> None:
    """Every number of the type, those beside and between them, and what is beyond: as codes, there and back."""
    from tensorlang.bridges.onnx import Backend

    to = getattr(onnx.TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(to)
    all_ = np.arange(256 if "8" in kind else 16, dtype="u1").view(dtype).astype("f4")
    all_ = np.sort(all_[np.isfinite(all_)])
    middle = ((all_[1:].astype("f8") + all_[:-1]) / 2).astype("f4")
    x = np.concatenate([all_, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)), [np.nan]]).astype("f4")
    nodes = [helper.make_node("Cast", ["x"], ["q"], to=to), helper.make_node("Cast", ["q"], ["y"], to=FLOAT)]
    made = model(nodes, {"x": x.shape}, ["q", "y"], {}, opset=25)
    codes, back = Backend.prepare(made).run([x])
    assert codes.dtype == dtype
    np.testing.assert_array_equal(back, x.astype(dtype).astype("f4"))
    np.testing.assert_array_equal(codes.astype("f4"), back)
    if "8" in kind:
        far = np.array([1e9, -1e9], "f4")
        largest = Backend.prepare(model(nodes, {"x": (2,)}, ["y"], {}, opset=25)).run([far])[0]
        np.testing.assert_array_equal(largest, [all_[-1], all_[0]])


# Hostile models ---------------------------------------------------------------------------------------------------------


def small_models() -> list[bytes]:
    """Models whose bytes are changed: layers, shapes, windows, quantised numbers."""
    w = np.ones((4, 5), "f4")
    layers = [helper.make_node("Gemm", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=1)]
    shapes = [
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["z"]),
        helper.make_node("Tile", ["z", "t"], ["u"]), helper.make_node("Pad", ["u", "p"], ["v"]),
        helper.make_node("Slice", ["v", "a", "b"], ["y"]),
    ]  # fmt: skip
    held = {"t": np.array([2, 1]), "p": np.array([0, 1, 1, 0]), "a": np.array([0, 1]), "b": np.array([2, 9])}
    windows = [
        helper.make_node("Conv", ["i", "k"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["c"], ["y"], kernel_shape=[2, 2], ceil_mode=1),
    ]  # fmt: skip
    quantised = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "f", "o"]),
        helper.make_node("DequantizeLinear", ["q", "f", "o"], ["y"]),
    ]
    return [
        model(layers, {"x": (3, 4)}, ["y"], {"w": w}).SerializeToString(), model(shapes, {"x": (3, 4)}, ["y"], held).SerializeToString(),
        model(windows, {"i": (1, 2, 5, 5)}, ["y"], {"k": np.ones((3, 2, 3, 3), "f4")}).SerializeToString(),
        model(quantised, {"x": (3, 4)}, ["y"], {}).SerializeToString(),
    ]  # fmt: skip


@pytest.mark.parametrize("which", range(4))
def test_changed_bytes_are_refused_or_read(which: int) -> None:
    """Whatever protobuf still reads becomes a graph or a TensorlangError, listed or not; truncated files too."""
    text, random = small_models()[which], np.random.default_rng(which)
    read = 0
    for trial in range(300):
        changed = bytearray(text)
        for place in random.integers(0, len(text), random.integers(1, 4)):
            changed[place] = random.integers(0, 256) if trial % 3 else changed[place] ^ (1 << int(random.integers(8)))
        if trial % 5 == 0:
            changed = changed[: random.integers(0, len(text))]
        made = onnx.ModelProto()
        try:
            made.ParseFromString(bytes(changed))
        except Exception:  # noqa: BLE001, S112 - protobuf's own refusal
            continue
        read += 1
        with contextlib.suppress(tl.TensorlangError):
            graph.from_onnx(made, partial=bool(trial % 2))
    assert read > 20


INDEXED: dict[str, tuple[str, dict[str, Any], list[Any], list[Any]]] = {
    "rows": ("Gather", {"axis": 0}, [0, 1, -2], [0, 2]),
    "rows from the back": ("Gather", {"axis": 0}, [-1], [-3]),
    "tuples": ("GatherND", {}, [[1, 2], [0, -3]], [[1, 3]]),
    "elements": ("GatherElements", {"axis": 1}, [[0, 2], [-1, -3]], [[0, 3], [0, 0]]),
    "stored rows": ("ScatterND", {}, [[1]], [[2]]),
    "stored elements": ("ScatterElements", {"axis": 0}, [[0, -2, 1]], [[0, -3, 1]]),
}


@pytest.mark.parametrize("case", INDEXED)
def test_indices_that_a_model_holds_have_to_be_inside(case: str) -> None:
    """They were clamped, so that the last row was read, or written, for any that is beyond it."""
    operator, attributes, good, wrong = INDEXED[case]

    def made(index: list[Any]) -> Any:
        held = {"i": np.array(index), "u": np.ones((1, 3), "f4")}
        operands = ["x", "i", "u"] if operator.startswith("Scatter") else ["x", "i"]
        return model(
            [helper.make_node(operator, operands, ["y"], **attributes)], {"x": (2, 3)}, ["y"], {name: held[name] for name in operands[1:]}
        )

    assert graph.from_onnx(made(good)).outputs
    with pytest.raises(tl.GraphError, match=rf"\(in {operator} .*\): the index -?\d that the model holds is outside axis \d of x: float32"):
        graph.from_onnx(made(wrong))
