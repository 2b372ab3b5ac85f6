"""Operators are what NumPy and SciPy say; views are algebra on strides and definitions alike; anybody can add one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import special

import tensorlang as tl
from tensorlang import graph
from tensorlang.graph import Axis, Builder, Pair, Strided, operators as tables
from tests.graph import test_operators_data, test_operators_windows, test_winograd
from tests.graph.graphs import array, positive

X, Y, P = array(3, 4), array(3, 4, seed=1), positive(3, 4)
I = np.array([[5, -7, 0, 3], [2, 2, -1, 9], [8, 1, 6, -4]])
B = X > 0


def run(operator: str, *operands: np.ndarray, **attributes) -> np.ndarray:
    """The result of one node, by the evaluator, which is what its kernel gives too."""
    b = Builder()
    values = [None if one is None else b.input(one.shape, tl.dtype(one.dtype)) for one in operands]
    g = b.finish(b(operator, *values, **attributes))
    (found,) = g.run(*(one for one in operands if one is not None))
    (compiled,) = g.compile()(*(one for one in operands if one is not None))
    np.testing.assert_allclose(compiled, found, rtol=1e-5, atol=1e-6)
    return found


UNARY = {
    "neg": np.negative, "abs": np.abs, "square": np.square, "reciprocal": np.reciprocal, "sign": np.sign, "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round, "trunc": np.trunc, "isnan": np.isnan, "isinf": np.isinf, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": special.erf, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": special.expit, "silu": lambda x: x * special.expit(x),
    "gelu": lambda x: x * special.ndtr(x), "relu6": lambda x: np.clip(x, 0, 6), "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))), "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)), "softplus": lambda x: np.log1p(np.exp(x)), "asin": np.arcsin, "acos": np.arccos,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum, "eq": np.equal,
    "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
REST = {
    "logical_not": (np.logical_not, (B,)), "bitwise_not": (np.invert, (I,)), "pow": (np.power, (P, Y)),
    "floor_divide": (np.floor_divide, (I, np.full((3, 4), 3))), "remainder": (np.remainder, (I, np.full((3, 4), 3))),
    "logical_and": (np.logical_and, (B, ~B)), "logical_or": (np.logical_or, (B, ~B)), "logical_xor": (np.logical_xor, (B, B)),
    "bitwise_and": (np.bitwise_and, (I, I + 1)), "bitwise_or": (np.bitwise_or, (I, I + 1)), "bitwise_xor": (np.bitwise_xor, (I, I + 1)),
    "where": (np.where, (B, X, Y)),
}  # fmt: skip
REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min, "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip
TESTED = {
    *UNARY, *BINARY, *REST, *REDUCTIONS, "any", "all", "var", "clamp", "to", "reshape", "permute", "expand", "slice", "cat", "pad",
    "embedding",
    "gather", "index_select", "flip", "cumsum", "linear", "matmul", "conv1d", "conv2d", "conv_transpose2d", "batch_norm", "softmax",
    "log_softmax", "layer_norm", "rms_norm", "group_norm", "max_pool2d", "avg_pool2d", "interpolate", "prelu",
    "scaled_dot_product_attention", "conv2d_channels_last", "max_pool2d_channels_last", "avg_pool2d_channels_last",
}  # fmt: skip


def test_every_operator_is_tested_here_or_against_torch() -> None:
    assert {
        name for name in tables() if "." not in name
    } == TESTED | test_operators_data.TESTED | test_operators_windows.TESTED | test_winograd.TESTED


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name: str) -> None:
    operand = P - 0.2 if name in ("asin", "acos") else P if name.startswith(("log", "sqrt", "rsqrt")) else X
    operand = np.minimum(operand, 1) if name in ("asin", "acos") else operand
    np.testing.assert_allclose(run(name, operand), UNARY[name](operand), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 4), (3, 1), ()], ids=str)
def test_functions_of_two_elements_repeat_what_is_short(name: str, shape: tuple[int, ...]) -> None:
    other = positive(*shape, seed=4)
    np.testing.assert_allclose(run(name, X, other), BINARY[name](X, other), rtol=1e-6)


@pytest.mark.parametrize("name", REST)
def test_functions_of_integers_and_of_truth(name: str) -> None:
    function, operands = REST[name]
    np.testing.assert_allclose(run(name, *operands), function(*operands), rtol=1e-5)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", [0, -1], ids=str)
@pytest.mark.parametrize("keepdim", [False, True], ids=["dropped", "kept"])
def test_reductions_along_an_axis(name: str, dim: int, keepdim: bool) -> None:
    np.testing.assert_allclose(
        run(name, X, dim=dim, keepdim=keepdim), REDUCTIONS[name](X, axis=dim, keepdims=keepdim), rtol=1e-5, atol=1e-6
    )


def test_reductions_along_several_axes_and_all() -> None:
    x = array(2, 3, 4)
    np.testing.assert_allclose(run("sum", x, dim=(0, -1)), x.sum((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(run("mean", x), x.mean(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run("var", x, dim=1), x.var(1, ddof=1), rtol=1e-5)
    assert np.isposinf(run("var", x, dim=1, correction=x.shape[1] + 2)).all()  # as torch has it, not below 0
    np.testing.assert_allclose(run("var", x, dim=(0, 2), correction=0, keepdim=True), x.var((0, 2), keepdims=True), rtol=1e-5)
    assert run("any", B, dim=0).tolist() == B.any(0).tolist() and run("all", B).tolist() == B.all()
    assert run("sum", I.astype("int32")).dtype == np.int64


def test_operators_that_move_elements() -> None:
    np.testing.assert_array_equal(run("cat", X, Y, X, dim=-1), np.concatenate([X, Y, X], -1))
    np.testing.assert_array_equal(run("pad", X, pad=((1, 0), (0, 2)), value=3.0), np.pad(X, ((1, 0), (0, 2)), constant_values=3))
    np.testing.assert_array_equal(run("flip", X, dims=(0, -1)), X[::-1, ::-1])
    np.testing.assert_allclose(run("cumsum", X, dim=0), np.cumsum(X, 0), rtol=1e-5, atol=1e-6)
    rows = np.array([2, 0, 2, 1])
    np.testing.assert_array_equal(run("index_select", X, rows, dim=0), X[rows])
    np.testing.assert_array_equal(run("embedding", rows, X), X[rows])
    places = np.array([[1, 0, 2, 2]])
    np.testing.assert_array_equal(run("gather", X, places, dim=0), np.take_along_axis(X, places, 0))
    np.testing.assert_array_equal(run("clamp", X, min=-0.5, max=0.25), np.clip(X, -0.5, 0.25))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64"])
def test_conversion(dtype: str) -> None:
    found = run("to", X * 3, dtype=dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, (X * 3).astype(dtype))


PRODUCTS = [
    ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 5)), ((2, 3, 4), (4,)),
    ((4,), (4,)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", PRODUCTS, ids=str)
def test_products_repeat_leading_axes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    left, right = array(*shapes[0]), array(*shapes[1], seed=1)
    np.testing.assert_allclose(run("matmul", left, right), np.matmul(left, right), rtol=1e-5, atol=1e-6)


def test_rows_by_a_dim_are_flattened_and_parted_again() -> None:
    """Also where the number of rows is no dim, and in a kernel that reads the elements in their new places."""
    b = Builder()
    flat = b("reshape", b.input((7, tl.dim("batch"), 4)), shape=(-1, 4))
    turned = b("flip", flat, dims=(0,))
    g = b.finish(turned, b("reshape", turned, shape=(7, tl.dim("batch"), 4)))
    x = array(7, 3, 4)
    for one, other in zip(g.run(x), g.compile()(x), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(g.run(x)[1], x.reshape(21, 4)[::-1].reshape(7, 3, 4))


# Views ------------------------------------------------------------------------------------------------------------------


@st.composite
def views(draw: st.DrawFn) -> tuple[str, tuple[int, ...], dict[str, Any]]:
    """A view of a shape."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    kind = draw(st.sampled_from(["reshape", "permute", "expand", "slice"]))
    if kind == "permute":
        return kind, shape, {"dims": tuple(draw(st.permutations(range(len(shape)))))}
    if kind == "expand":
        new = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
        return kind, shape, {"shape": (*new, *(draw(st.integers(1, 4)) if extent == 1 else extent for extent in shape))}
    if kind == "slice":
        dim = draw(st.integers(0, len(shape) - 1))
        start = draw(st.integers(0, shape[dim]))
        return kind, shape, {"dim": dim, "start": start, "end": draw(st.integers(start, shape[dim])), "step": draw(st.integers(1, 3))}
    left, wanted = math.prod(shape), []
    while left > 1:
        wanted.append(draw(st.sampled_from([divisor for divisor in range(2, left + 1) if left % divisor == 0])))
        left //= wanted[-1]
    wanted.insert(draw(st.integers(0, len(wanted))), 1)
    return kind, shape, {"shape": tuple(wanted)}


def stride_rule(kind: str) -> Any:
    """How the result of a view lies."""
    rule = graph.operator(kind).view
    assert rule is not None
    return rule


@given(views(), st.data())
def test_a_view_is_the_same_by_its_definition_and_by_its_strides(
    view: tuple[str, tuple[int, ...], dict[str, Any]], data: st.DataObject
) -> None:
    """Also of an operand that lies otherwise, unless the rule says that its elements have to be moved."""
    kind, shape, attributes = view
    order = data.draw(st.permutations(range(len(shape))))
    memory = np.arange(math.prod(shape), dtype="int32").reshape([shape[axis] for axis in order])
    operand = memory.transpose(np.argsort(order))
    b = Builder()
    g = b.finish(b(kind, b.input(shape, "int32"), **attributes))
    (wanted,) = g.run(operand)
    lying = Strided.contiguous(memory.shape).permute(tuple(np.argsort(order)))
    seen = stride_rule(kind)(lying, **dict(g.nodes[0].attributes))
    if seen is None:
        assert kind == "reshape" and not lying.is_contiguous
    else:
        np.testing.assert_array_equal(seen.of(memory), wanted)
    np.testing.assert_array_equal(g.compile()(operand)[0], wanted)


@given(views())
def test_contiguous_is_what_numpy_calls_contiguous(view: tuple[str, tuple[int, ...], dict[str, Any]]) -> None:
    kind, shape, attributes = view
    memory = np.zeros(shape, "int8")
    b = Builder()
    g = b.finish(b(kind, b.input(shape, "int8"), **attributes))
    seen = stride_rule(kind)(Strided.contiguous(shape), **dict(g.nodes[0].attributes))
    assert seen.is_contiguous == seen.of(memory).flags.c_contiguous


# Operators of others ----------------------------------------------------------------------------------------------------


def scaled(x: tl.Tensor, factor: float = 2.0, window: Pair = (1, 1), axis: Axis = -1) -> tl.Tensor:
    """An operator of somebody else."""
    made: tl.Tensor = tl.compute(x.shape, lambda *at: x[at] * factor + window[0] * axis, name="scaled")
    return made


def test_an_operator_of_somebody_else_has_types_runs_is_fused_and_printed() -> None:
    graph.register("acme.scaled", scaled)
    graph.register("acme.scaled", scaled)  # twice is once
    b = Builder()
    x = b.input((3, 4), name="x")
    g = b.finish(b("acme.scaled", b("linear", x, b.constant(array(5, 4), "w")), factor=3, window=2))
    assert "acme.scaled(linear, factor=3, window=(2, 2))" in g.to_let()
    assert graph.from_let(g.to_let(), {"w": array(5, 4)}) == g
    compiled = g.compile()
    assert len(compiled.kernels) == 1
    np.testing.assert_allclose(compiled(X)[0], X @ array(5, 4).T * 3 + 2, rtol=1e-5, atol=1e-5)
    (match,) = graph.pattern.match_all(g, lambda pm: pm.Op("acme.scaled", args=(pm.Op("linear"),), window=2, axis=-1))
    assert match.root == g.outputs[0]


def test_names_that_are_taken_and_functions_without_annotations_are_refused() -> None:
    with pytest.raises(tl.GraphError, match="there is an operator 'relu' already"):
        graph.register("relu", scaled)
    with pytest.raises(tl.GraphError, match="named by words joined by dots"):
        graph.register("acme scaled", scaled)
    with pytest.raises(tl.GraphError, match="a function whose parameters are annotated"):
        graph.register("acme.max", max)
    with pytest.raises(tl.GraphError, match="takes no tensor"):
        graph.register("acme.none", lambda x: x)


def test_one_attribute_has_one_spelling() -> None:
    b = Builder()
    image = b.input((1, 2, 8, 8))
    first = b("max_pool2d", image, kernel_size=2, stride=np.int64(2), padding=[0, 0])
    second = b("max_pool2d", image, kernel_size=(2, 2), stride=(2, 2))
    g = b.finish(first, second)
    assert g.nodes[0].attributes == g.nodes[1].attributes
    assert graph.passes.common_subexpressions(g).nodes == g.nodes[:1]


LAST = {
    "conv2d": ((array(6, 4, 3, 3), array(6)), {"stride": 2, "padding": (1, 2)}),
    "conv2d of groups": ((array(6, 2, 3, 3), None), {"groups": 2, "dilation": 2}),
    "conv2d of channels": ((array(8, 1, 3, 3), array(8)), {"groups": 4, "padding": 1}),
    "max_pool2d": ((), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "avg_pool2d": ((), {"kernel_size": (2, 3), "count_include_pad": False, "padding": 1}),
}


@pytest.mark.parametrize("name", LAST)
def test_layers_with_channels_last_are_the_others_turned(name: str) -> None:
    (operands, attributes), operator, x = LAST[name], name.split(maxsplit=1)[0], array(2, 4, 9, 8)
    turned = [one if one is None or one.ndim < 4 else one.transpose(2, 3, 1, 0) for one in operands]
    found = run(f"{operator}_channels_last", x.transpose(0, 2, 3, 1), *turned, **attributes)
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), run(operator, x, *operands, **attributes), rtol=1e-4, atol=1e-5)


def test_a_definition_is_kept_for_its_ranges_alone() -> None:
    """Dims of one name are equal whatever their ranges, and a graph has one range for each."""
    for dim in (tl.dim("n"), tl.dim("n", 1, 8), tl.dim("n", 2, 5)):
        b = Builder()
        g = b.finish(b("relu", b("linear", b.input((dim, 4)), array(5, 4))))
        assert {extent.dims["n"] for value in g.values.values() for extent in value.shape if isinstance(extent, tl.Dim)} == {dim.dims["n"]}
