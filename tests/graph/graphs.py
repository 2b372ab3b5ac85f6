"""Random graphs of small tensors, and the few that several files speak of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

import tensorlang as tl
from tensorlang.graph import Builder, Graph, Value
from tensorlang.graph.fusion import deciding

UNARY = ("relu", "tanh", "sigmoid", "neg", "abs", "gelu", "square")
BINARY = ("add", "sub", "mul", "maximum")


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape, np.float32) + np.float32(0.5)


def run_all(operator: str, *operands: np.ndarray, **attributes: object) -> tuple[np.ndarray, ...]:
    """The results of one node by the evaluator, which its kernel gives too."""
    b = Builder()
    values = [b.input(one.shape, tl.dtype(one.dtype)) for one in operands]
    g = b.finish(*b.node(operator, values, attributes))
    found = g.run(*operands)
    for one, other in zip(g.compile()(*operands), found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    return found


def run(operator: str, *operands: np.ndarray, **attributes: object) -> np.ndarray:
    """The only result of one node, as `run_all`."""
    (found,) = run_all(operator, *operands, **attributes)
    return found


def views(draw: st.DrawFn, b: Builder, value: Value) -> Value:
    """A view of a value, drawn."""
    rank = len(value.shape)
    kind = draw(st.sampled_from(["permute", "flatten", "split", "slice", "expand", "unsqueeze"]))
    if kind == "permute":
        return b("permute", value, dims=tuple(draw(st.permutations(range(rank)))))
    if kind == "flatten":
        return b("reshape", value, shape=(-1,))
    if kind == "split" and rank and value.shape[0] % 2 == 0:
        return b("reshape", value, shape=(2, value.shape[0] // 2, *value.shape[1:]))
    if kind == "slice" and rank:
        dim = draw(st.integers(0, rank - 1))
        start = draw(st.integers(0, value.shape[dim] - 1))
        return b("slice", value, dim=dim, start=start, end=value.shape[dim], step=draw(st.integers(1, 2)))
    if kind == "expand" and rank < 4:
        return b("expand", value, shape=(2, *value.shape))
    return b("reshape", value, shape=(1, *value.shape)) if rank < 4 else value


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of pointwise nodes, views, reductions and products, over two inputs and some constants, with one or two outputs."""
    b = Builder("random")
    shape = draw(st.sampled_from([(4,), (2, 6), (3, 4), (2, 3, 4)]))
    values = [b.input(shape, name="x"), b.input(shape, name="y"), b.constant(array(*shape, seed=draw(st.integers(0, 9))), "w")]
    for _ in range(draw(st.integers(1, 8))):
        value = draw(st.sampled_from(values))
        kind = draw(st.sampled_from(["unary", "binary", "number", "view", "view", "reduce", "product", "softmax"]))
        if kind == "unary":
            values.append(b(draw(st.sampled_from(UNARY)), value))
        elif kind == "binary":
            same = [other for other in values if other.shape == value.shape]
            values.append(b(draw(st.sampled_from(BINARY)), value, draw(st.sampled_from(same))))
        elif kind == "number":
            values.append(b(draw(st.sampled_from(BINARY)), value, draw(st.sampled_from([0.5, 2.0]))))
        elif kind == "view":
            values.append(views(draw, b, value))
        elif value.shape and kind == "reduce":
            values.append(
                b(draw(st.sampled_from(["sum", "mean", "amax"])), value, dim=draw(st.integers(0, len(value.shape) - 1)), keepdim=True)
            )
        elif value.shape and kind == "product":
            values.append(b("linear", value, array(3, value.shape[-1]), draw(st.sampled_from([None, array(3)]))))
        elif value.shape:
            values.append(b("softmax", value, dim=-1))
    outputs = [values[-1], *draw(st.lists(st.sampled_from(values), max_size=1))]
    return b.finish(*outputs)


def _layer(draw: st.DrawFn, b: Builder, values: list[Value]) -> Value:
    """A node of a layer, a norm, a product of two values, or one that moves elements, drawn."""
    value = draw(st.sampled_from(values))
    kind = draw(st.sampled_from(["linear", "matmul", "norm", "softmax", "reduce", "cat", "where", "broadcast", "channels", "flip"]))
    rank = len(value.shape)
    if kind == "linear":
        return b("linear", value, array(4, value.shape[-1]) * np.float32(0.3), draw(st.sampled_from([None, array(4)])))
    if kind == "matmul":
        fitting = [other for other in values if len(other.shape) == rank >= 2 and other.shape[:-2] == value.shape[:-2]]
        fitting = [other for other in fitting if other.shape[-1] == value.shape[-1]]
        if fitting:
            dims = (*range(rank - 2), rank - 1, rank - 2)
            return b("matmul", value, b("permute", draw(st.sampled_from(fitting)), dims=dims))
    if kind == "norm":
        return b("layer_norm", value, positive(value.shape[-1]), normalized_shape=value.shape[-1:])
    if kind == "softmax":
        return b("softmax", value, dim=draw(st.integers(0, rank - 1)))
    if kind == "reduce":
        return b(draw(st.sampled_from(["sum", "mean", "amax"])), value, dim=draw(st.integers(0, rank - 1)), keepdim=True)
    if kind == "where":
        return b("where", b("gt", value, 0.0), value, b("tanh", value))
    if kind == "channels" and rank >= 2:
        return b("batch_norm", value, array(value.shape[1]), positive(value.shape[1]))
    if kind == "flip":
        return b("flip", value, dims=(rank - 1,))
    if kind == "broadcast":
        return b("add", value, b("mean", value, dim=-1, keepdim=True))
    return b("cat", value, b("relu", value), dim=draw(st.integers(0, rank - 1)))


@st.composite
def layered_graphs(draw: st.DrawFn, longest: int = 10) -> Graph:
    """Graphs in which much may be one kernel: layers, norms, products and pointwise nodes, read again and again, one to three outputs."""
    b = Builder("layered")
    shape = draw(st.sampled_from([(4,), (3, 4), (2, 3, 4), (1, 4)]))
    values = [b.input(shape, name="x"), b.input(shape, name="y")]
    for _ in range(draw(st.integers(2, longest))):
        recent = values[-4:]
        value = draw(st.sampled_from(recent))
        kind = draw(st.sampled_from(["unary", "binary", "binary", "view", "layer", "layer"]))
        if kind == "unary":
            made = b(draw(st.sampled_from(UNARY)), value)
        elif kind == "binary":
            made = b(draw(st.sampled_from(BINARY)), value, draw(st.sampled_from([one for one in values if one.shape == value.shape])))
        elif kind == "view" or not value.shape:
            made = views(draw, b, value)
        else:
            made = _layer(draw, b, [one for one in recent if one.shape] or values[:2])
        if all(extent > 0 for extent in made.shape) and np.prod(made.shape) <= 256:
            values.append(made)
    return b.finish(values[-1], *draw(st.lists(st.sampled_from(values), max_size=2)))


def arguments(g: Graph, seed: int = 1) -> list[np.ndarray]:
    """Arrays for the inputs of a graph of floating point."""
    return [array(*value.shape, seed=seed + place) for place, value in enumerate(g.inputs)]


def normalised(*middle: str, bias: bool = True) -> Graph:
    """A linear layer, other nodes, a batch norm of constants."""
    b = Builder("normalised")
    value = b("linear", b.input((3, 4)), b.constant(array(5, 4), "weight"), array(5, seed=1) if bias else None)
    for operator in middle:
        value = b(operator, value)
    return b.finish(b("batch_norm", value, array(5, seed=2), positive(5, seed=3), positive(5, seed=4), array(5, seed=5)))


def apart(patch: pytest.MonkeyPatch) -> None:
    """Let estimates say that kernels are faster apart, for who counts kernels: pointwise nodes in place are joined alone."""
    patch.setattr(deciding, "seconds", lambda group, _: float(len(group.nodes) ** 2))


def constants_of(g: Graph) -> dict[str, np.ndarray]:
    return {constant.value.name: constant.array for constant in g.constants}


def batched() -> Graph:
    """A layer for any batch from 1 to 8."""
    b = Builder("batched")
    x = b.input((tl.dim("n", 1, 8), 4), name="x")
    h = b("relu", b("linear", x, array(6, 4)))
    return b.finish(b("reshape", h, shape=(-1,)), b("permute", h, dims=(1, 0)))
