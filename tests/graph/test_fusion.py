"""Fusion: chains of real models are one kernel each, joined by estimate; whatever is joined, kernels compute what the graph means."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings

import tensorlang as tl
from tensorlang.graph import Builder, Graph, Value
from tensorlang.graph.execution.grouping import Group, Part, groups, parts
from tensorlang.graph.fusion import deciding, weighing
from tests.graph.graphs import apart, arguments, array, layered_graphs, positive
from tests.thinned import few

VIEWS = ("reshape", "permute", "expand", "slice")
Chain = Callable[[Builder], Value | tuple[Value, ...]]


def conv(b: Builder, x: Value, out: int, size: int = 3, *, norm: bool = True) -> Value:
    """A convolution that keeps the extents, and a batch norm."""
    y = b("conv2d", x, array(out, x.shape[1], size, size) * np.float32(0.2), padding=size // 2)
    return b("batch_norm", y, array(out), positive(out), positive(out), array(out, seed=1)) if norm else y


def linear(b: Builder, x: Value, out: int, seed: int = 0) -> Value:
    return b("linear", x, array(out, x.shape[-1], seed=seed) * np.float32(0.2), array(out, seed=seed))


def image(b: Builder, channels: int = 8) -> Value:
    return b.input((1, channels, 14, 14), name="x")


def conv_activation(operator: str) -> Chain:
    return lambda b: b(operator, conv(b, image(b), 16))


def conv_residual(b: Builder) -> Value:
    x = image(b)
    return b("relu", b("add", conv(b, x, 8), x))


def bottleneck(b: Builder) -> Value:
    x = image(b)
    return b("add", conv(b, x, 8, size=1), x)


def gate(operator: str) -> Chain:
    """Squeeze and excitation: a factor for each channel, by a convolution of one element."""

    def chain(b: Builder) -> Value:
        x = image(b)
        squeezed = b.input((1, 4, 1, 1), name="squeezed")
        return b("mul", b(operator, conv(b, squeezed, 8, size=1, norm=False)), x)

    return chain


def feed_forward(b: Builder) -> Value:
    return linear(b, b("gelu", linear(b, b.input((64, 16)), 32)), 16)


def tanh_gelu(b: Builder) -> Value:
    """GPT-2's spelling: pow, mul, add, tanh."""
    h = linear(b, b.input((64, 16)), 32)
    inner = b("mul", b("add", h, b("mul", b("pow", h, 3.0), 0.044715)), 0.7978845)
    return linear(b, b("mul", b("mul", h, 0.5), b("add", b("tanh", inner), 1.0)), 16)


def add_norm(b: Builder) -> tuple[Value, ...]:
    """The sum is read by the norm, and by the next sum."""
    x = b.input((16, 32), name="x")
    total = b("add", linear(b, x, 32), x)
    return total, b("layer_norm", total, positive(32), array(32), normalized_shape=(32,))


def attention(b: Builder) -> Value:
    query, key, value = (b.input((2, 16, 8), name=name) for name in ("query", "key", "value"))
    mask = b.input((16, 16), name="mask")
    scores = b("add", b("mul", b("matmul", query, b("permute", key, dims=(0, 2, 1))), 0.35), mask)
    return b("matmul", b("softmax", scores, dim=-1), value)


def split_heads(b: Builder) -> Value:
    x, key = b.input((16, 32), name="x"), b.input((4, 8, 16), name="key")
    heads = b("permute", b("reshape", linear(b, x, 32), shape=(16, 4, 8)), dims=(1, 0, 2))
    return b("matmul", heads, key)


def merged_heads(b: Builder) -> Value:
    weights, value = b.input((4, 16, 16), name="weights"), b.input((4, 16, 8), name="value")
    merged = b("reshape", b("permute", b("matmul", weights, value), dims=(1, 0, 2)), shape=(16, 32))
    return linear(b, merged, 32)


def gated(b: Builder) -> Value:
    """SwiGLU: two layers of one input, one of which gates the other."""
    x = b.input((32, 16))
    return linear(b, b("mul", b("silu", linear(b, x, 24)), linear(b, x, 24, seed=1)), 16)


def patches(b: Builder) -> Value:
    x = b.input((1, 3, 16, 16))
    y = b("conv2d", x, array(12, 3, 4, 4), array(12), stride=4)
    return b("cat", array(1, 1, 12), b("permute", b("reshape", y, shape=(1, 12, 16)), dims=(0, 2, 1)), dim=1)


def skip(b: Builder) -> Value:
    """U-Net: results of convolutions beside each other."""
    x, y = image(b), b.input((1, 4, 14, 14), name="y")
    return b("cat", b("relu", conv(b, x, 8)), b("relu", conv(b, y, 8)), dim=1)


def rms_norm(b: Builder) -> Value:
    x = b.input((16, 32))
    mean = b("mean", b("pow", x, 2.0), dim=-1, keepdim=True)
    return b("mul", b("mul", x, b("rsqrt", b("add", mean, 1e-6))), positive(32))


def projections(b: Builder) -> tuple[Value, ...]:
    x = b.input((16, 16))
    return tuple(linear(b, x, 16, seed=seed) for seed in range(3))


def angles(b: Builder) -> tuple[Value, ...]:
    x = b.input((16, 16))
    return b("sin", x), b("cos", x)


CHAINS: dict[str, Chain] = {
    "conv, norm, relu": conv_activation("relu"),
    "conv, norm, add, relu": conv_residual,
    "conv, norm, silu": conv_activation("silu"),
    "conv, norm, hardswish": conv_activation("hardswish"),
    "conv, norm, add": bottleneck,
    "conv, sigmoid, mul": gate("sigmoid"),
    "conv, hardsigmoid, mul": gate("hardsigmoid"),
    "linear, gelu, linear": feed_forward,
    "linear, gelu by tanh, linear": tanh_gelu,
    "linear, add, layer norm": add_norm,
    "attention": attention,
    "linear, heads, matmul": split_heads,
    "matmul, heads, linear": merged_heads,
    "gated linear": gated,
    "conv, view, cat": patches,
    "cat of convs": skip,
    "rms norm": rms_norm,
    "query, key, value": projections,
    "sine and cosine": angles,
}


def built(chain: Chain) -> Graph:
    b = Builder("chain")
    made = chain(b)
    return b.finish(*(made if isinstance(made, tuple) else (made,)))


@pytest.mark.parametrize("name", few(CHAINS, 7))
def test_a_chain_of_a_real_model_is_one_kernel(name: str) -> None:
    g = built(CHAINS[name])
    compiled = g.compile(threads=1)
    assert len(compiled.kernels) == 1, str(compiled)
    x = arguments(g)
    for found, wanted in zip(compiled(*x), g.run(*x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


# What is joined, whatever estimates say -------------------------------------------------------------------------------------


def composed(g: Graph, order: list[Part], x: list[np.ndarray]) -> list[np.ndarray]:
    """What kernels and views compute one after the other, each by its definition."""
    values = dict(zip((value.name for value in g.inputs), x, strict=True))
    values |= {constant.value.name: constant.array for constant in g.constants}
    for part in order:
        if isinstance(part, Group):
            operands, results = part.define()
            made = tl.evaluate(results, {one: values[value.name] for one, value in zip(operands, part.inputs, strict=True)})
            values |= zip((value.name for value in part.results), made, strict=True)
        else:
            b = Builder()
            looked = b.input(part.read[0].shape, part.read[0].dtype)
            (values[part.results[0].name],) = b.finish(b(part.operator, looked, **dict(part.attributes))).run(values[part.read[0].name])
    return [values[value.name] for value in g.outputs]


@pytest.mark.parametrize("odds", [0, 1, 2, 3])
@given(g=layered_graphs())
@settings(max_examples=25)
def test_whatever_is_joined_kernels_in_their_order_compute_what_the_graph_means(odds: int, g: Graph) -> None:
    """Estimates that say nothing sensible: all is joined that may be, nothing, or what a hash says."""

    def nonsense(group: Group, _: str) -> float:
        if odds < 2:
            return float(len(group.nodes) ** (2 * odds))
        return crc32(repr((odds, weighing.structure(group))).encode()) % 97 / len(group.nodes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "seconds", nonsense)
        order = parts(g)
    x = arguments(g)
    for found, wanted in zip(composed(g, order, x), g.run(*x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    inside = [node.results[0].name for part in order if isinstance(part, Group) for node in part.nodes if node.operator not in VIEWS]
    assert len(inside) == len(set(inside))


@given(g=layered_graphs(longest=8))
@settings(max_examples=3)
def test_kernels_of_joined_layers_compute_what_the_graph_means(g: Graph) -> None:
    x = arguments(g)
    for found, wanted in zip(g.compile(threads=1)(*x), g.run(*x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@given(g=layered_graphs())
@settings(max_examples=10)
def test_the_same_graph_has_the_same_kernels_in_every_run(g: Graph) -> None:
    weighing.forget()
    first = [(group.nodes, group.results) for group in groups(g)]
    weighing.forget()
    assert [(group.nodes, group.results) for group in groups(g)] == first


@given(g=layered_graphs())
@settings(max_examples=10)
def test_no_kernel_is_estimated_slower_than_its_nodes_apart(g: Graph) -> None:
    """Joining at once (pointwise nodes in place) and asking never add up to more than the parts joined at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "_with_copies", lambda *_: None)
        patch.setattr(deciding, "_along", lambda *_: False)
        patch.setattr(deciding, "_beside", lambda *_: False)
        before = sum(weighing.seconds(group, "native") for group in groups(g))
    assert sum(weighing.seconds(group, "native") for group in groups(g)) <= before * (1 + 1e-9)


def test_what_estimates_find_slower_stays_apart() -> None:
    g = built(add_norm)
    assert len(groups(g)) == 1
    with pytest.MonkeyPatch.context() as patch:
        apart(patch)
        assert [str(group) for group in groups(g)] == ["linear + add", "layer_norm"]


def test_products_with_weights_larger_than_what_is_between_are_not_asked_about() -> None:
    asked: list[str] = []
    b = Builder()
    g = b.finish(linear(b, b("gelu", linear(b, b.input((1, 512)), 512)), 512))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "seconds", lambda group, _: asked.append(str(group)) or 1.0)
        assert [str(group) for group in groups(g)] == ["linear + gelu", "linear"]
    assert not asked


def test_the_copies_of_a_value_are_asked_about_together() -> None:
    """Queries, keys and values, each a slice that moves: a kernel that makes one of them may lose where one that makes all gains."""
    asked: list[list[str]] = []

    def estimated(group: Group, _: str) -> float:
        asked.append([node.operator for node in group.nodes if node.operator != "slice"])
        return 3.0 if 1 < len(asked[-1]) < 4 else 1.0

    b = Builder()
    x = linear(b, b.input((8, 4, 6)), 24)
    thirds = (b("slice", x, dim=2, start=at, end=at + 8, step=1) for at in (0, 8, 16))
    g = b.finish(*(b("reshape", b("permute", third, dims=(1, 0, 2)), shape=(4, 64)) for third in thirds))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "seconds", estimated)
        (group,) = groups(g)
    assert len(group.results) == 3
    assert len(asked) == 5


def test_large_products_of_one_operand_stay_apart() -> None:
    b = Builder()
    x = b.input((256, 256), name="x")
    found = groups(b.finish(*(linear(b, x, 256, seed=seed) for seed in range(3))))
    assert [str(group) for group in found] == ["linear"] * 3


def test_an_inner_value_with_users_outside_is_a_second_result() -> None:
    (group,) = groups(built(add_norm))
    assert [value.name for value in group.results] == ["add", "layer_norm"]


def test_nodes_with_another_kernel_between_them_are_not_joined() -> None:
    """A sum of what goes through a kernel of its own and what goes around it: joining both ends alone would make a cycle."""
    b = Builder()
    x = b.input((4, 4))
    first = b("relu", b("add", x, 1.0))
    middle = b("softmax", b("linear", first, array(4, 4)), dim=-1)
    g = b.finish(b("add", first, middle))

    def apart(group: Group, _: str) -> float:
        operators = {node.operator for node in group.nodes}
        return 100.0 if "linear" in operators and len(operators) > 1 else 1.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "seconds", apart)
        found = groups(g)
    given = array(4, 4)
    np.testing.assert_allclose(composed(g, parts(g), [given])[0], g.run(given)[0], rtol=1e-5)
    assert all({"add", "linear"} - {node.operator for node in group.nodes} for group in found)


def test_layers_that_read_different_operands_are_apart() -> None:
    b = Builder()
    g = b.finish(linear(b, b.input((8, 8), name="x"), 8), linear(b, b.input((8, 8), name="y"), 8))
    assert len(groups(g)) == 2


def test_a_view_of_an_inner_value_that_the_caller_wants_stands_outside_too() -> None:
    b = Builder()
    h = b("relu", b.input((4, 6)))
    turned = b("permute", h, dims=(1, 0))
    g = b.finish(b("softmax", turned, dim=-1), turned)
    order = parts(g)
    assert [part.operator for part in order if not isinstance(part, Group)] == ["permute"]
    x = array(4, 6)
    for found, wanted in zip(g.compile()(x), g.run(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_what_reaches_no_output_is_no_kernel() -> None:
    b = Builder()
    x = b.input((3,))
    b("tanh", x)
    assert [str(group) for group in groups(b.finish(b("relu", x)))] == ["relu"]


def test_layers_of_any_batch_are_joined_too() -> None:
    b = Builder()
    x = b.input((tl.dim("n", 1, 16), 8), name="x")
    total = b("add", linear(b, x, 8), x)
    g = b.finish(total, b("layer_norm", total, positive(8), array(8), normalized_shape=(8,)))
    compiled = g.compile(threads=1)
    assert len(compiled.kernels) == 1
    for size in (1, 5, 16):
        given = array(size, 8)
        for found, wanted in zip(compiled(given), g.run(given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_an_unknown_target_is_refused_not_taken_for_a_group_without_a_kernel():
    b = Builder()
    group = groups(b.finish(conv(b, image(b), 16)))[0]
    with pytest.raises(tl.BuildError, match="no-such-cpu"):
        weighing.seconds(group, "no-such-cpu")
