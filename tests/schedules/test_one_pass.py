"""Results that go through the same rows are computed in one pass over them where the model says so; results stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES


def gradients(*shape: Any, width: int, dtype: str = "float32") -> tuple[tl.Tensor, tl.Tensor]:
    """Those of a normalisation by the root of the mean square: of each row, and of the weights, a sum over all rows."""
    x, dy = (tl.placeholder((*shape, width), dtype, name=name) for name in ("x", "dy"))
    g = tl.placeholder((width,), dtype, name="g")
    k, rows = tl.reduce_axis(width, name="k"), [tl.reduce_axis(extent, name=f"r{place}") for place, extent in enumerate(shape)]
    inv = tl.compute(shape, lambda *i: tl.rsqrt(tl.sum(x[*i, k] ** 2, axis=k) / width + 1e-6), name="inv")
    h = tl.compute((*shape, width), lambda *i: x[i] * inv[i[:-1]], name="h")
    dot = tl.compute(shape, lambda *i: tl.sum(dy[*i, k] * g[k] * h[*i, k], axis=k) / width, name="dot")
    dx = tl.compute((*shape, width), lambda *i: inv[i[:-1]] * (dy[i] * g[i[-1]] - h[i] * dot[i[:-1]]), name="dx")
    dg = tl.compute((width,), lambda c: tl.sum(dy[*rows, c] * h[*rows, c], axis=tuple(rows)), name="dg")
    return dx, dg


def expected(x: Any, dy: Any, g: Any) -> tuple[Any, Any]:
    """The same by NumPy."""
    x, dy, g = (each.astype("float64") for each in (x, dy, g))
    inv = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    h = x * inv
    return inv * (dy * g - h * (dy * g * h).mean(-1, keepdims=True)), (dy * h).sum(tuple(range(x.ndim - 1)))


def operands(*shape: int, dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(sum(shape))
    return [rng.random(extents).astype(dtype) for extents in (shape, shape, shape[-1:])]


@pytest.mark.parametrize("machine", MACHINES)
def test_gradients_of_rows_and_weights_are_one_pass(machine: str) -> None:
    strategy = choose(gradients(2000, width=768), target(machine), 1)
    assert strategy.default["results"] == "in_one_pass"
    s = strategy.schedule(strategy.default)
    assert "[2000" not in str(s).partition("for ")[0].partition("\n")[2], "intermediates are kept whole"
    apart = strategy.schedule({**strategy.usual.strategy.default, "results": "apart"})  # type: ignore[attr-defined]
    assert s.estimate(target(machine)).bytes["memory"] < 0.8 * apart.estimate(target(machine)).bytes["memory"]


def test_rows_of_a_batch_are_those_that_stay_near() -> None:
    """An element of the batch is 1.5 MB: what is kept of it would leave the near caches."""
    strategy = choose(gradients(8, 512, width=768), target("znver4"), 1)
    assert strategy.default["results"] == "in_one_pass"
    assert "inv: float32[1, 1]" in str(strategy.schedule(strategy.default))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (37, 1), (37, 33), (3, 5, 40), (2, 3, 4, 18)])
def test_every_choice_gives_the_gradients_of_numpy(shape: tuple[int, ...], threads: int) -> None:
    strategy, given = choose(gradients(*shape[:-1], width=shape[-1]), target(), threads), operands(*shape)
    for config in (strategy.default, *strategy.space.sample(np.random.default_rng(threads), 6)):
        for made, wanted in zip(tl.build(strategy.schedule(config))(*given), expected(*given), strict=True):
            np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_extents_that_a_call_tells_are_no_hindrance(rows: int, dtype: str) -> None:
    given = operands(rows, 24, dtype=dtype)
    with np.errstate(all="ignore"):
        wanted = expected(*given)
    for made, each in zip(tl.build(gradients(tl.dim("rows"), width=24, dtype=dtype))(*given), wanted, strict=True):
        np.testing.assert_allclose(made, each, rtol=1e-4, atol=1e-5)


def scaled(size: int) -> tuple[tl.Tensor, tl.Tensor]:
    """Rows, and sums along the rows of the same table, whose other axis is as long as that of the rows."""
    x, k = tl.placeholder((size, size), name="x"), tl.reduce_axis(size, name="k")
    e = tl.compute(x.shape, lambda i, j: tl.exp(x[i, j]), name="e")
    y = tl.compute(x.shape, lambda i, j: e[i, j] * e[i, 0], name="y")
    return y, tl.compute((size,), lambda c: tl.sum(e[k, c] * e[k, 0], axis=k), name="z")


def test_rows_are_matched_by_what_they_read() -> None:
    """Not by their extents: of a square both axes of the second result would do."""
    strategy = choose(scaled(600), target("znver4"), 1)
    passed = strategy.other.strategy  # type: ignore[attr-defined]
    assert "s.fuse_loops('y.i', 'z.k')" in repr(passed.schedule(passed.default))
    x = np.random.default_rng(0).random((600, 600), "float32")
    y, z = tl.build(passed.schedule(passed.default))(x)
    e = np.exp(x)
    np.testing.assert_allclose(y, e * e[:, :1], rtol=1e-4)
    np.testing.assert_allclose(z, (e * e[:, :1]).sum(0), rtol=1e-4)


def losses(rows: int, classes: int) -> tuple[tl.Tensor, ...]:
    """Of a row a number, its gradient, and the sum of gradients over rows, which reads a result."""
    x, label = tl.placeholder((rows, classes), name="x"), tl.placeholder((rows,), "int32", name="label")
    k, n = tl.reduce_axis(classes, name="k"), tl.reduce_axis(rows, name="n")
    e = tl.compute(x.shape, lambda i, j: tl.exp(x[i, j]), name="e")
    total = tl.compute((rows,), lambda i: tl.sum(e[i, k], axis=k), name="total")
    dx = tl.compute(x.shape, lambda i, j: e[i, j] / total[i] - tl.select(label[i] == j, 1.0, 0.0), name="dx")
    loss = tl.compute((rows,), lambda i: tl.log(total[i]) - x[i, tl.clamp(label[i], 0, classes - 1)], name="loss")
    return dx, loss, tl.compute((classes,), lambda j: tl.sum(dx[n, j], axis=n), name="bias")


def test_three_results_share_a_row() -> None:
    strategy = choose(losses(512, 1000), target("znver4"), 1)
    passed = strategy.other.strategy  # type: ignore[attr-defined]
    s = passed.schedule(passed.default)
    assert str(s).count("for n in range(512)") == 1 and "e: float32[1, 10" in str(s)
    x, label = np.random.default_rng(0).random((512, 1000), "float32"), np.arange(512, dtype="int32")
    dx, loss, bias = tl.build(s)(x, label)
    e = np.exp(x.astype("float64"))
    wanted = e / e.sum(-1, keepdims=True) - (label[:, None] == np.arange(1000))
    np.testing.assert_allclose(dx, wanted, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(loss, np.log(e.sum(-1)) - x[label, label], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(bias, wanted.sum(0), rtol=1e-3, atol=1e-4)


def test_products_stay_in_tiles() -> None:
    """A gradient of weights that is a product keeps its operands in registers, which no pass over rows does."""
    x, dy = (tl.placeholder((256, 256), name=name) for name in ("x", "dy"))
    n = tl.reduce_axis(256, name="n")
    h = tl.compute(x.shape, lambda i, j: tl.tanh(x[i, j]), name="h")
    dw = tl.compute((256, 256), lambda i, j: tl.sum(h[n, i] * dy[n, j], axis=n), name="dw")
    strategy = choose((tl.compute(x.shape, lambda i, j: dy[i, j] * (1 - h[i, j] ** 2), name="dx"), dw), target("znver4"), 1)
    assert "results" not in strategy.default


@pytest.mark.parametrize("shape", [(300, 257), (4, 30, 64)])
def test_threads_change_no_bit(shape: tuple[int, ...]) -> None:
    kernel, given = tl.build(gradients(*shape[:-1], width=shape[-1])), operands(*shape)
    before = tl.get_threads()
    try:
        found = []
        for threads in (1, 2):
            tl.set_threads(threads)
            found.append([each.copy() for each in kernel(*given)])
    finally:
        tl.set_threads(before)
    assert all(np.array_equal(one, two) for one, two in zip(*found, strict=True))
