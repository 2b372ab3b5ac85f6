"""Sums that stand in expressions are computed once for all elements that divide by them, and wherever those around them stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.stages import stages_of

ROWS, COLUMNS = 12, 37
x = tl.placeholder((ROWS, COLUMNS), name="x")
k, q = tl.reduce_axis(COLUMNS, name="k"), tl.reduce_axis(COLUMNS, name="q")


def normalised(i: Any, j: Any) -> Any:
    return x[i, j] / tl.sum(x[i, k], axis=k)


def softmax(i: Any, j: Any) -> Any:
    most = tl.max(x[i, k], axis=k)
    return tl.exp(x[i, j] - most) / tl.sum(tl.exp(x[i, q] - most), axis=q)


def standardised(i: Any, j: Any) -> Any:
    mean = tl.mean(x[i, k], axis=k)
    return (x[i, j] - mean) / tl.sqrt(tl.mean((x[i, q] - mean) * (x[i, q] - mean), axis=q) + 1e-5)


def chosen(i: Any, j: Any) -> Any:
    return tl.select(j > 3, x[i, j] / tl.sum(x[i, k], axis=k, where=k > 3), 0.0)


def shared(i: Any, j: Any) -> Any:
    r = tl.reduce_axis(ROWS, name="r")
    return x[i, j] / tl.sum(tl.sum(x[r, q], axis=q), axis=r)


def weighted(i: Any, j: Any) -> Any:
    """What is added up moves with the sum that it stands in, and not with the element."""
    r = tl.reduce_axis(ROWS, name="r")
    return x[i, j] * tl.sum(x[i, k] * tl.sum(x[r, k], axis=r), axis=k)


def causal(i: Any, j: Any) -> Any:
    """What is asked of `q` keeps nothing from being read that the greatest is found among."""
    most = tl.max(x[i, k], axis=k, where=k <= 3 * i)
    return tl.select(j <= 3 * i, tl.exp(x[i, j] - most) / tl.sum(tl.exp(x[i, q] - most), axis=q, where=q <= 3 * i), 0.0)


def _causal(a: Any) -> Any:
    i, j = np.ogrid[:ROWS, :COLUMNS]
    return _softmax(np.where(j <= 3 * i, a, -np.inf))


def _softmax(a: Any) -> Any:
    found = np.exp(a - a.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def _chosen(a: Any) -> Any:
    return np.where(np.arange(COLUMNS) > 3, a / a[:, 4:].sum(1, keepdims=True), 0)


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (normalised, lambda a: a / a.sum(1, keepdims=True)),
        (softmax, _softmax),
        (standardised, lambda a: (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)),
        (chosen, _chosen),
        (shared, lambda a: a / a.sum()),
        (causal, _causal),
        (weighted, lambda a: a * (a * a.sum(0)).sum(1, keepdims=True)),
    ],
)
def test_no_stage_goes_through_a_row_for_each_of_its_elements(element: Callable[..., Any], expected: Callable[[Any], Any]) -> None:
    """A softmax that is written in one expression took 80,000 times as long."""
    y = tl.compute((ROWS, COLUMNS), element, name="y")
    data = np.random.default_rng(0).random((ROWS, COLUMNS), dtype="float32")
    np.testing.assert_allclose(tl.build(y)(data), expected(data), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(tl.build(tl.Schedule(y))(data), expected(data), rtol=1e-5, atol=1e-5)
    strategy = choose(y, target("znver4"), 1)
    found = strategy.schedule({**strategy.default, **({"in_rows": False} if "in_rows" in strategy.default else {})})
    assert max(info.iterations for info in stages_of(found.nest)) < 2 * ROWS * COLUMNS
    assert "vector j_i" in str(found)


def test_a_sum_within_another_one_is_before_it_where_it_does_not_move() -> None:
    """The greatest of a row is the same for all that is added up of it; a sum of a part of the row is not."""
    whole = tl.compute((ROWS,), lambda i: tl.sum(tl.exp(x[i, q] - tl.max(x[i, k], axis=k)), axis=q), name="whole")
    assert str(tl.Schedule(whole)).index("for k in") < str(tl.Schedule(whole)).index("for q in")
    parts = tl.compute((ROWS,), lambda i: tl.sum(x[i, q] - tl.max(x[i, k], axis=k, where=k <= q), axis=q), name="parts")
    assert str(tl.Schedule(parts)).index("for q in") < str(tl.Schedule(parts)).index("for k in")
    data = np.random.default_rng(1).random((ROWS, COLUMNS), dtype="float32")
    np.testing.assert_allclose(tl.build(whole)(data), np.exp(data - data.max(1, keepdims=True)).sum(1), rtol=1e-5)
    np.testing.assert_allclose(tl.build(parts)(data), (data - np.maximum.accumulate(data, 1)).sum(1), rtol=1e-5)


def test_a_where_keeps_no_sum_that_it_does_not_move_with() -> None:
    """Scores of neighbours in a graph: what is added up of each node is the same for all that it is a neighbour of."""
    n, d = 40, 20
    h, a, near = tl.placeholder((n, d), name="h"), tl.placeholder((d,), name="a"), tl.placeholder((n, n), "bool", name="near")
    j, f = tl.reduce_axis(n, name="j"), tl.reduce_axis(d, name="f")
    y = tl.compute((n,), lambda i: tl.sum(tl.exp(tl.sum(h[j, f] * a[f], axis=f)), axis=j, where=near[i, j]), name="y")
    strategy = choose(y, target("znver4"), 1)
    assert max(info.iterations for info in stages_of(strategy.schedule(strategy.default).nest)) < 2 * n * n
    rng = np.random.default_rng(4)
    rows, weights, edges = rng.random((n, d), dtype="float32"), rng.random(d, dtype="float32"), rng.random((n, n)) < 0.4
    np.testing.assert_allclose(tl.build(y)(rows, weights, edges), edges @ np.exp(rows @ weights), rtol=1e-5)


def test_what_data_ask_keeps_a_sum_that_moves_with_both() -> None:
    """Edges may be few, and a sum for each is dear: it is computed for these."""
    n, d = 9, 5
    h, near = tl.placeholder((n, d), name="h"), tl.placeholder((n, n), "bool", name="near")
    j, f = tl.reduce_axis(n, name="j"), tl.reduce_axis(d, name="f")
    y = tl.compute((n,), lambda i: tl.sum(tl.exp(tl.sum(h[i, f] * h[j, f], axis=f)), axis=j, where=near[i, j]), name="y")
    lines = str(tl.Schedule(y)).splitlines()
    asked, summed = (next(at for at, line in enumerate(lines) if text in line) for text in ("if near", "for f in"))
    assert asked < summed
    rng = np.random.default_rng(5)
    rows, edges = rng.random((n, d), dtype="float32"), rng.random((n, n)) < 0.4
    np.testing.assert_allclose(tl.build(y)(rows, edges), (edges * np.exp(rows @ rows.T)).sum(1), rtol=1e-5)


def test_scores_that_a_mask_leaves_are_a_product() -> None:
    """Attention over the past in one expression: scores are tiles of a product, of which the mask leaves a triangle."""
    s, d = 33, 8
    u, v = (tl.placeholder((s, d), name=name) for name in "uv")
    j, f = tl.reduce_axis(s, name="j"), tl.reduce_axis(d, name="f")
    y = tl.compute((s,), lambda i: tl.sum(tl.exp(tl.sum(u[i, f] * v[j, f], axis=f)), axis=j, where=j <= i), name="y")
    strategy = choose(y, target("znver4"), 1)
    assert "y.1_acc" in str(strategy.schedule(strategy.default))
    a, b = np.random.default_rng(6).random((2, s, d), dtype="float32")
    np.testing.assert_allclose(tl.build(y)(a, b), np.tril(np.exp(a @ b.T)).sum(1), rtol=1e-5)


def test_a_sum_that_is_there_under_a_condition_alone_stays_under_it() -> None:
    """Above the first rows there is no window."""

    def element(i: Any, j: Any) -> Any:
        last = tl.select(j > 1, tl.sum(x[i, q], axis=q), 0.0)
        return tl.select(j * 4 <= i, tl.sum(x[i - j * 4, k], axis=k), last)

    y = tl.compute((ROWS, 3), element, name="y")
    data = np.random.default_rng(2).random((ROWS, COLUMNS), dtype="float32")
    sums, (i, j) = data.sum(1), np.ogrid[:ROWS, :3]
    expected = np.where(j * 4 <= i, sums[np.maximum(i - j * 4, 0)], np.where(j > 1, sums[i], 0))
    np.testing.assert_allclose(tl.build(y)(data), expected, rtol=1e-5)
    assert "if j * 4 <= i" in str(tl.Schedule(y)) or "if 4 * j <= i" in str(tl.Schedule(y))


def test_a_recurrence_that_divides_by_the_sum_of_its_last_row_has_lanes() -> None:
    def element(i: Any, j: Any, y: Any) -> Any:
        return tl.select(i == 0, x[0, j], 0.5 * y[i - 1, j] + x[i, j] / tl.sum(y[i - 1, q], axis=q))

    y = tl.recurrence((ROWS, COLUMNS), element, name="y")
    strategy = choose(y, target("znver4"), 1)
    assert "vector j_i" in str(strategy.schedule(strategy.default))
    data = np.random.default_rng(3).random((ROWS, COLUMNS), dtype="float32")
    expected = data.copy()
    for i in range(1, ROWS):
        expected[i] = 0.5 * expected[i - 1] + data[i] / expected[i - 1].sum()
    np.testing.assert_allclose(tl.build(y)(data), expected, rtol=1e-4)
