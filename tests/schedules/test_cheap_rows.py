"""What is cheap is computed again in the rows of a pass where the model says so, and what is dear is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose


def centred(rows: int, width: int, function: Any) -> tuple[tl.Tensor, tl.Tensor]:
    """Rows less their means, by a function, times their sum with weights; and the same summed up over the rows."""
    x, y = (tl.placeholder((rows, width), name=name) for name in ("x", "y"))
    k, n = tl.reduce_axis(width, name="k"), tl.reduce_axis(rows, name="n")
    mean = tl.compute((rows,), lambda i: tl.sum(x[i, k], axis=k) / width, name="mean")
    h = tl.compute(x.shape, lambda i, j: function(x[i, j] - mean[i]), name="h")
    dot = tl.compute((rows,), lambda i: tl.sum(h[i, k] * y[i, k], axis=k), name="dot")
    dx = tl.compute(x.shape, lambda i, j: h[i, j] * dot[i] + y[i, j], name="dx")
    return dx, tl.compute((width,), lambda c: tl.sum(h[n, c] * y[n, c], axis=n), name="dw")


def expected(x: Any, y: Any, function: Any) -> tuple[Any, Any]:
    """The same by NumPy."""
    h = function(x.astype("float64") - x.mean(-1, keepdims=True, dtype="float64"))
    return h * (h * y).sum(-1, keepdims=True) + y, (h * y).sum(0)


def one_pass(outputs: tuple[tl.Tensor, ...]) -> tl.Schedule:
    strategy = choose(outputs, target("znver4"), 1)
    assert strategy.default["results"] == "in_one_pass"
    return strategy.schedule(strategy.default)


def test_a_difference_is_computed_again() -> None:
    assert "s.compute_inline('h')" in repr(one_pass(centred(500, 1000, lambda v: v)))


def test_an_exponential_is_kept() -> None:
    assert "s.compute_at('h'" in repr(one_pass(centred(500, 1000, tl.exp)))


@pytest.mark.parametrize(("made", "wanted"), [(lambda v: v, lambda v: v), (tl.exp, np.exp)], ids=["difference", "exponential"])
@pytest.mark.parametrize("shape", [(1, 1), (9, 33), (70, 40)])
def test_both_are_what_numpy_says(shape: tuple[int, int], made: Any, wanted: Any) -> None:
    rng = np.random.default_rng(shape[0])
    x, y = rng.random((2, *shape), "float32")
    strategy = choose(centred(*shape, made), target(), 1)
    for config in (strategy.default, *strategy.space.sample(rng, 4)):
        for found, each in zip(tl.build(strategy.schedule(config))(x, y), expected(x, y, wanted), strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-3, atol=1e-4)
