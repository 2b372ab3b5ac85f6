"""Permutations sink through a graph and cancel; what is left is read as it lies, by patterns and by values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tensorlang.graph import Builder, Graph, Value, passes, pattern as pm
from tensorlang.graph.fusion.group import Group
from tests.graph.graphs import arguments, array, layered_graphs, positive, random_graphs

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@pytest.mark.parametrize("graphs", [random_graphs, layered_graphs], ids=lambda one: one.__name__)
def test_sinking_keeps_what_a_graph_computes(graphs) -> None:
    @given(g=graphs())
    @settings(max_examples=60)
    def law(g: Graph) -> None:
        made, x = passes.apply(g, passes.sink_permutes), arguments(g)
        for found, wanted in zip(made.run(*x), g.run(*x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        assert passes.sink_permutes(made) == made

    law()


THROUGH = {
    "a number": lambda b, x: b("mul", x, 2.0),
    "a constant": lambda b, x: b("add", x, array(4)),
    "itself": lambda b, x: b("mul", b("sigmoid", x), x),
    "softmax": lambda b, x: b("softmax", x, dim=1),
    "a reduction that keeps axes": lambda b, x: b("mean", x, dim=(0, 2), keepdim=True),
    "a reduction": lambda b, x: b("reshape", b("sum", x, dim=0), shape=(1, 3, 4)),
    "cat": lambda b, x: b("slice", b("cat", x, b("neg", x), dim=1), dim=1, start=0, end=3),
}


@pytest.mark.parametrize("name", THROUGH)
def test_a_permutation_goes_through(name: str) -> None:
    b = Builder()
    y = b.input((3, 4, 2), name="y")
    g = b.finish(THROUGH[name](b, b("permute", y, dims=(2, 0, 1))))
    after = passes.apply(g, passes.sink_permutes, passes.fold_constants)
    assert after.users(y) and all(node.operator != "permute" for node in after.users(y))
    given = arguments(g)
    for found, wanted in zip(after.run(*given), g.run(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def channels_last(b: Builder, x: Value, out: int, *, stride: int = 1) -> Value:
    """A convolution, a norm and an activation of a model whose images have channels last."""
    size = x.shape[-1]
    y = b("conv2d", b("permute", x, dims=FIRST), array(out, size, 3, 3) * np.float32(0.2), padding=1, stride=stride)
    return b("permute", b("batch_norm", y, array(out), positive(out), positive(out), array(out)), dims=LAST)


def residual_network() -> Graph:
    """Like a ResNet: a stem, two blocks with a residual sum each, one of them with a projection, pooling, a linear layer."""
    b = Builder("resnet")
    x = b("relu", channels_last(b, b.input((1, 8, 8, 3), name="image"), 8))
    x = b("relu", b("add", channels_last(b, b("relu", channels_last(b, x, 8)), 8), x))
    y = channels_last(b, b("relu", channels_last(b, x, 16, stride=2)), 16)
    x = b("relu", b("add", y, channels_last(b, x, 16, stride=2)))
    return b.finish(b("linear", b("mean", x, dim=(1, 2)), array(10, 16), array(10)))


def test_a_residual_network_with_channels_last_has_at_most_two_transposes() -> None:
    g = residual_network()
    made = pm.assert_pass(
        passes.Pipeline((passes.fold_batch_norm, passes.sink_permutes)),
        g,
        before=lambda pm: pm.Op("conv2d", args=(pm.Op("permute", args=(pm.Op("relu").shared(),)), ...)),
        after=pm.Op("conv2d", args=(pm.Op("permute", args=(pm.Tensor(shape=(1, 8, 8, 3)),)), ...)),
        inputs=arguments(g),
    )
    assert len(g.by_operator["permute"]) == 12 and len(made.by_operator["permute"]) <= 2


def test_a_permutation_that_others_need_is_done_for_them_alone() -> None:
    b = Builder()
    turned = b("permute", b.input((3, 4), name="x"), dims=(1, 0))
    g = b.finish(b("relu", turned), b("linear", turned, array(2, 3)), turned)
    made = passes.sink_permutes(g)
    assert made.producer(made.by_operator["relu"][0].read[0]) is None
    given = arguments(g)
    for found, wanted in zip(made.run(*given), g.run(*given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_operands_that_lie_differently_keep_their_permutation() -> None:
    b = Builder()
    g = b.finish(b("add", b("permute", b.input((3, 4), name="x"), dims=(1, 0)), b.input((4, 3), name="y")))
    assert passes.sink_permutes(g) == g


# Channels last ----------------------------------------------------------------------------------------------------------------


def images(seed: int = 0) -> Graph:
    """Convolutions with groups, strides and dilation, a depthwise one, pooling of both kinds, a residual sum, a mean."""
    b = Builder("images")
    x = b.input((1, 4, 12, 12), name="image")
    y = b("relu", b("conv2d", x, array(8, 4, 3, 3, seed=seed), array(8), padding=1))
    y = b("max_pool2d", y, kernel_size=3, stride=2, padding=1)
    z = b("conv2d", y, array(8, 1, 3, 3, seed=seed + 1), None, padding=1, groups=8)
    z = b("conv2d", z, array(8, 4, 3, 3, seed=seed + 2), array(8), padding=2, dilation=2, groups=2)
    y = b("avg_pool2d", b("relu", b("add", z, y)), kernel_size=2, padding=1, count_include_pad=False)
    return b.finish(b("linear", b("mean", y, dim=(2, 3)), array(5, 8), array(5)))


def decided(monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
    """Layers with channels last cost so much, others 1, permutations little."""

    def seconds(group: Group, _: str) -> float:
        (node,) = group.nodes
        return cost if node.operator.endswith("_channels_last") else 0.01 if node.operator == "permute" else 1.0

    monkeypatch.setattr(passes.images, "seconds", seconds)


@pytest.mark.usefixtures("node_by_node")
def test_images_have_channels_last_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, 0.5)
    g = images()
    made = pm.assert_pass(
        passes.channels_last,
        g,
        before=pm.Op(("conv2d", "max_pool2d", "avg_pool2d")),
        after=pm.Op("conv2d_channels_last"),
        inputs=arguments(g),
    )
    assert len(made.by_operator["permute"]) == 1 and all(constant.value.type.static for constant in made.constants)
    (found,), (wanted,) = made.compile()(*arguments(g)), g.run(*arguments(g))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_images_stay_where_channels_last_are_slower_or_weights_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    decided(monkeypatch, 1.5)
    assert passes.channels_last(images()) == images()
    decided(monkeypatch, 0.5)
    b = Builder()
    g = b.finish(b("conv2d", b.input((1, 4, 8, 8), name="x"), b.input((4, 4, 3, 3), name="weight")))
    assert passes.channels_last(g) is g


def test_the_estimates_of_both_orders_decide() -> None:
    for g in (images(), residual_network()):
        made = passes.channels_last(passes.fold_batch_norm(g))
        for found, wanted in zip(made.run(*arguments(g)), g.run(*arguments(g)), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
