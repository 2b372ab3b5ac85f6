"""Recurrences in whose elements sums stand: several rows take turns, and a sum that both sides of a choice hold is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose


def cholesky(n: int) -> Any:
    A, k = tl.placeholder((n, n), name="A"), tl.reduce_axis(n, name="k")

    def element(i: Any, j: Any, lower: Any) -> Any:
        rest = A[i, j] - tl.sum(lower[i, k] * lower[j, k], axis=k, where=k < j)
        return tl.select(i < j, 0.0, tl.select(i == j, tl.sqrt(rest), rest / lower[j, j]))

    return tl.recurrence((n, n), element, name="L")


def factors(n: int) -> Any:
    """Crout's: both factors in one matrix."""
    A, k = tl.placeholder((n, n), name="A"), tl.reduce_axis(n, name="k")

    def element(i: Any, j: Any, m: Any) -> Any:
        rest = A[i, j] - tl.sum(m[i, k] * m[k, j], axis=k, where=k < tl.minimum(i, j))
        return tl.select(j < i, rest / m[j, j], rest)

    return tl.recurrence((n, n), element, name="M")


def matrix(n: int) -> Any:
    m = np.random.default_rng(0).random((n, n), dtype=np.float32)
    return m @ m.T + n * np.eye(n, dtype=np.float32)


@pytest.mark.parametrize("n", [5, 16, 37])
def test_every_number_of_rows_gives_the_factor(n: int) -> None:
    outputs, x = cholesky(n), matrix(n)
    strategy = choose(outputs, target(), 1)
    assert strategy.name == "turns" and strategy.default["turns"] in (4, 8, 16)
    wanted = np.linalg.cholesky(x.astype(np.float64))
    for count in (0, 4, *(count for count in (8, 16) if count <= n)):
        s = strategy.schedule({**strategy.default, "turns": count})
        assert not s.faults and ("reorder" in repr(s)) == bool(count)
        np.testing.assert_allclose(tl.build(s)(x), wanted, rtol=1e-4, atol=1e-5)


def test_both_factors_in_one_matrix() -> None:
    x = matrix(40)
    found = tl.build(factors(40))(x)
    lower, upper = np.tril(found, -1) + np.eye(40), np.triu(found)
    np.testing.assert_allclose(lower @ upper, x, rtol=1e-3)


def test_a_sum_of_both_sides_of_a_choice_stands_once() -> None:
    assert str(tl.Schedule(cholesky(8))).count("+=") == 1


def test_a_sum_of_one_side_stays_under_its_condition() -> None:
    """Where a side does not ask for it, it is not computed: what it reads may not be there. What is there, and the same for all, is."""
    A, k = tl.placeholder((8, 8), name="A"), tl.reduce_axis(8, name="k")
    once = tl.sum(A[k, k], axis=k)
    other = lambda i: tl.sum(A[k, i - 2], axis=k)  # noqa: E731 - there from the third on
    chosen = tl.compute((8,), lambda i: tl.select(i < 2, once, tl.select(i < 5, once + other(i), other(i) * 2)), name="C")
    text = str(tl.Schedule(chosen))
    assert text.count("+=") == 2 and text.count("if ~(i < 2)") >= 1
    x = np.random.default_rng(0).random((8, 8), dtype=np.float32)
    wanted = [np.trace(x) if i < 2 else np.trace(x) + x[:, i - 2].sum() if i < 5 else 2 * x[:, i - 2].sum() for i in range(8)]
    np.testing.assert_allclose(tl.build(chosen)(x), wanted, rtol=1e-5)


def test_rows_whose_order_is_needed_take_no_turns() -> None:
    """The row before is read further right than a turn has come."""
    A, k = tl.placeholder((16, 16), name="A"), tl.reduce_axis(16, name="k")
    rows = tl.recurrence((16, 16), lambda i, j, r: A[i, j] + 0.1 * tl.sum(r[i - 1, k], axis=k) + 0.1 * tl.sum(r[i, k], axis=k, where=k < j))
    strategy = choose(rows, target(), 1)
    assert "turns" not in strategy.default and not any(knob.endswith("turns") for knob in strategy.default)
    x = np.random.default_rng(0).random((16, 16), dtype=np.float32)
    wanted = np.zeros((16, 16))
    for i, j in np.ndindex(16, 16):
        above = wanted[i - 1].sum() if i else 0.0
        wanted[i, j] = x[i, j] + 0.1 * above + 0.1 * wanted[i, :j].sum()
    np.testing.assert_allclose(tl.build(rows)(x), wanted, rtol=1e-4)


@pytest.mark.parametrize("n", [17, 24, 40])
def test_every_tile_gives_both_factors(n: int) -> None:
    outputs, x = factors(n), matrix(n)
    strategy = choose(outputs, target(), 1)
    for rows in (0, 4, 8):
        for columns in (0, 8, *(count for count in (16, 32) if count <= n)):
            s = strategy.schedule({**strategy.default, "turns": rows, "columns": columns})
            assert not s.faults and ("partition" in repr(s)) == bool(rows and columns)
            found = tl.build(s)(x).astype(np.float64)
            np.testing.assert_allclose((np.tril(found, -1) + np.eye(n)) @ np.triu(found), x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cpu", ["znver4", "haswell", "skylake-avx512", "cortex-a72"])
def test_a_long_sum_that_columns_can_have_stands_outside_of_tiles_by_default(cpu: str) -> None:
    default = choose(factors(200), target(cpu), 1).default
    assert default["columns"] == 8 and "columns" not in choose(cholesky(200), target(cpu), 1).default
