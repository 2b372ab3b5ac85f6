"""Convolutions in Winograd's way: the numbers of the plain ones, and taken only where they fit and gain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.graph import Builder, Graph, passes, pattern as pm
from tensorlang.graph.passes import convolutions
from tests.graph.graphs import arguments, array

TESTED = {"conv2d_winograd", "winograd_weight"}


def layers(shape: tuple[int, ...], outputs: int, *, bias: bool = True, padding: object = 1, seed: int = 0, **attributes: object) -> Graph:
    """A convolution with channels last, and what reads it: a residual sum where it has the shape for that."""
    b = Builder("layers")
    x = b.input(shape, name="x")
    weight = array(3, 3, shape[3] // int(attributes.get("groups", 1)), outputs, seed=seed)
    y = b("conv2d_channels_last", x, weight, array(outputs, seed=seed + 1) if bias else None, padding=padding, **attributes)
    return b.finish(b("relu", b("add", y, x) if y.type == x.type else y))


def exact(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, padding: tuple[int, int]) -> np.ndarray:
    """The convolution in 64 bits, tap by tap."""
    wide = np.pad(x.astype("f8"), ((0, 0), *((side, side) for side in padding), (0, 0)))
    rows, columns = wide.shape[1] - 2, wide.shape[2] - 2
    taps = (wide[:, r : r + rows, s : s + columns] @ weight[r, s].astype("f8") for r in range(3) for s in range(3))
    made: np.ndarray = sum(taps) + (0 if bias is None else bias)
    return made


def winograd(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, padding: object) -> Graph:
    b = Builder()
    return b.finish(b("conv2d_winograd", b.input(x.shape, name="x"), b("winograd_weight", weight), bias, padding=padding))


@given(
    images=st.integers(1, 2),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    channels=st.integers(1, 20),
    outputs=st.integers(1, 20),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    bias=st.booleans(),
)
@settings(max_examples=60)
def test_results_are_as_near_as_those_of_a_plain_sum(images, size, channels, outputs, padding, bias) -> None:
    if any(extent + 2 * side < 3 for extent, side in zip(size, padding, strict=True)):
        return
    x, weight = array(images, *size, channels), array(3, 3, channels, outputs, seed=1)
    offset = array(outputs, seed=2) if bias else None
    wanted = exact(x, weight, offset, padding)
    (found,) = winograd(x, weight, offset, padding).run(x)
    most = exact(abs(x), abs(weight), None, padding).max()
    np.testing.assert_allclose(found, wanted, atol=4 * np.finfo("f4").eps * most)


@pytest.fixture
def gaining(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's way takes half of the time, of whatever it may take up."""
    monkeypatch.setattr(
        convolutions, "_seconds", lambda layer, _: 0.5 if len(layer.operands[1].shape) == 4 == layer.operands[1].shape[0] else 1.0
    )


@pytest.mark.usefixtures("gaining")
@pytest.mark.parametrize("shape", [(1, 14, 14, 32), (2, 7, 9, 16), (1, 4, 4, 48)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_kernels_compute_what_the_evaluator_does(shape: tuple[int, ...], bias: bool) -> None:
    g = layers(shape, shape[3], bias=bias)
    made = pm.assert_pass(passes.winograd, g, before=pm.Op("conv2d_channels_last"), after=pm.Op("conv2d_winograd"), inputs=arguments(g))
    assert len(made.constants) == len(g.constants) and "winograd_weight" not in made.by_operator
    compiled = made.compile()
    assert len(compiled.kernels) == 1
    (found,), (wanted,) = compiled(*arguments(g)), g.run(*arguments(g))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("gaining")
@pytest.mark.parametrize(
    "attributes", [{"stride": 2}, {"dilation": 2, "padding": 2}, {"groups": 2}, {"stride": (1, 2)}], ids=lambda one: next(iter(one))
)
def test_other_windows_stay(attributes: dict[str, object]) -> None:
    g = layers((1, 8, 8, 16), 8, **attributes)
    assert passes.winograd(g) is g


@pytest.mark.usefixtures("gaining")
def test_weights_that_are_not_known_stay() -> None:
    b = Builder()
    g = b.finish(b("conv2d_channels_last", b.input((1, 8, 8, 4), name="x"), b.input((3, 3, 4, 4), name="weight")))
    assert passes.winograd(g) is g


def test_what_does_not_gain_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    g = layers((1, 8, 8, 16), 16)
    monkeypatch.setattr(convolutions, "_seconds", lambda *_: 1.0)
    assert passes.winograd(g) is g


@pytest.mark.parametrize("target", ["znver4", "znver3", "cascadelake"])
def test_layers_of_many_channels_gain_by_the_model_and_few_do_not(target: str) -> None:
    (node,) = passes.winograd(layers((1, 28, 28, 128), 128), target).by_operator["conv2d_winograd"]
    assert node.results[0].shape == (1, 28, 28, 128)
    g = layers((1, 28, 28, 2), 64)
    assert passes.winograd(g, target) is g


def test_wrong_operands_are_refused_by_name() -> None:
    b = Builder()
    x = b.input((1, 8, 8, 4), name="x")
    with pytest.raises(
        tl.GraphError, match=r"conv2d_winograd: conv2d_winograd takes a weight of \(4, 4, 4, O\), as winograd_weight makes it"
    ):
        b("conv2d_winograd", x, array(3, 3, 4, 4))
    with pytest.raises(tl.GraphError, match=r"winograd_weight takes a weight of \(3, 3, C, O\)"):
        b("winograd_weight", array(5, 5, 4, 4))
    with pytest.raises(tl.BuildError, match="nonsense"):
        passes.winograd(layers((1, 8, 8, 4), 4), "nonsense")
