"""Sums in the elements of a stage: lanes along the elements where what a sum reads lies apart, along the sum where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.schedules.strategies import choose

ROWS, CORNERS = 9, 40


def distance(x: Any, i: Any, j: Any, k: Any) -> Any:
    """How far a pixel is from a point, of which the coordinates lie side by side."""
    return tl.abs(tl.cast(i, "float32") - x[k, 0]) * tl.abs(tl.cast(j, "float32") - x[k, 1])


def mean(x: Any, i: Any, j: Any, k: Any) -> Any:
    return tl.sum(distance(x, i, j, k), axis=k) / CORNERS


def nearest(x: Any, i: Any, j: Any, k: Any) -> Any:
    return tl.cast(tl.argmin(distance(x, i, j, k), axis=k, where=x[k, 2] > 0.5), "int32")


def shares(x: Any, i: Any, j: Any, k: Any) -> Any:
    """Two sums in an element."""
    return tl.sum(distance(x, i, j, k), axis=k, where=x[k, 2] > 0.5) / (1 + tl.max(distance(x, i, j, k), axis=k))


def made(element: Callable[..., Any], columns: int) -> tuple[Any, Any]:
    x, k = tl.placeholder((CORNERS, 3), name="X"), tl.reduce_axis(CORNERS, name="k")
    return x, tl.compute((ROWS, columns), lambda i, j: element(x, i, j, k), name="Y")


@pytest.mark.parametrize("element", [mean, nearest, shares])
@pytest.mark.parametrize("columns", [16, 50, 67])
def test_every_number_of_vectors_computes_the_same(element: Callable[..., Any], columns: int) -> None:
    x, y = made(element, columns)
    given = np.random.default_rng(0).random((CORNERS, 3), np.float32) * np.array([ROWS, columns, 1], np.float32)
    wanted = tl.evaluate(y, {x: given})
    strategy = choose(y, tl.target("znver4"), threads=1)
    assert strategy.default["around"] > 0
    for around in (0, *(count for count in (1, 2, 4) if strategy.space.contains({**strategy.default, "around": count}))):
        kernel = tl.build(strategy.schedule({**strategy.default, "around": around}))
        np.testing.assert_allclose(kernel(given), wanted, rtol=1e-5)


def test_a_sum_along_memory_keeps_its_lanes() -> None:
    x, k = tl.placeholder((40, 512), name="X"), tl.reduce_axis(512, name="k")
    w = tl.placeholder((64, 512), name="W")
    y = tl.compute((40, 64), lambda i, j: tl.sum(tl.abs(x[i, k] - w[j, k]), axis=k) / 512, name="Y")
    assert choose(y, tl.target("znver4"), threads=1).default.get("around", 0) == 0


def test_threads_share_the_rows_around() -> None:
    _, y = made(nearest, 4096)
    strategy = choose(y, tl.target("znver4"), threads=2)
    assert strategy.default["around"] > 0 and "parallel" in repr(strategy.schedule(strategy.default))
