"""Programs that lost to plain loops once: what their defaults do now, and that it is right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.random(shape, dtype=np.float32)


def sparse_rows(rows: int, columns: int, entries: int) -> Any:
    """A sparse matrix times a dense one: rows of unknown length, which are mostly short."""
    ptr, col = tl.placeholder((rows + 1,), "int32", name="ptr"), tl.placeholder((entries,), "int32", name="col")
    val, X = tl.placeholder((entries,), name="val"), tl.placeholder((rows, columns), name="X")

    def element(i: Any, j: Any) -> Any:
        k = tl.reduce_axis((tl.clamp(ptr[i], 0, entries), tl.clamp(ptr[i + 1], 0, entries)), name="k")
        return tl.sum(val[k] * X[tl.clamp(col[k], 0, rows - 1), j], axis=k)

    return tl.compute((rows, columns), element, name="O")


@pytest.mark.parametrize("machine", MACHINES)
def test_a_sum_over_a_range_that_data_tell_is_not_cut_into_blocks(machine: str) -> None:
    strategy = choose(sparse_rows(2000, 32, 32000), target(machine), 1)
    loops = strategy.schedule(strategy.default).loops("O")
    assert [loop for loop in loops if "k" in loop] == ["O.k"] and loops[-1] != "O.k"


def test_sparse_rows_are_numpys() -> None:
    rows, columns, entries = 50, 19, 300
    ptr = np.sort(RNG.integers(0, entries, rows + 1)).astype("int32")
    col, val, x = RNG.integers(0, rows, entries).astype("int32"), floats(entries), floats(rows, columns)
    wanted = np.stack([(val[a:b, None] * x[col[a:b]]).sum(0) for a, b in itertools.pairwise(ptr)])
    np.testing.assert_allclose(tl.build(sparse_rows(rows, columns, entries))(ptr, col, val, x), wanted, rtol=1e-4, atol=1e-5)


def solved(n: int, columns: int) -> Any:
    """A lower triangular system with many right hand sides: a row needs whole rows before it."""
    L, B = tl.placeholder((n, n), name="L"), tl.placeholder((n, columns), name="B")
    k = tl.reduce_axis(n, name="k")
    return tl.recurrence((n, columns), lambda i, j, x: (B[i, j] - tl.sum(L[i, k] * x[k, j], axis=k, where=k < i)) / L[i, i], name="X")


def test_a_sum_over_rows_before_is_a_stage_of_its_own_in_each_row() -> None:
    strategy = choose(solved(200, 200), target(), 1)
    s = strategy.schedule(strategy.default)
    assert strategy.name == "contraction" and not s.faults
    assert "vector j_i" in str(s) and "X.1[]" not in str(s)


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (7, 40), (33, 17), (64, 64)])
def test_triangular_systems_are_solved(n: int, columns: int) -> None:
    lower = np.tril(floats(n, n)).astype("float32") + 2 * np.eye(n, dtype="float32")
    right = floats(n, columns)
    wanted = np.linalg.solve(lower.astype("float64"), right)
    np.testing.assert_allclose(tl.build(solved(n, columns))(lower, right), wanted, rtol=1e-3, atol=1e-5)


def determinants(n: int) -> Any:
    A = tl.placeholder((n, 3, 3), name="A")

    def element(i: Any) -> Any:
        def minor(a: int, b: int) -> Any:
            return A[i, 1, a] * A[i, 2, b] - A[i, 1, b] * A[i, 2, a]

        return A[i, 0, 0] * minor(1, 2) - A[i, 0, 1] * minor(0, 2) + A[i, 0, 2] * minor(0, 1)

    return tl.compute((n,), element, name="D")


@pytest.mark.parametrize("machine", MACHINES)
def test_lanes_that_are_picked_one_by_one_are_a_choice(machine: str) -> None:
    strategy = choose(determinants(20000), target(machine), 1)
    costs = {lanes: strategy.costs.seconds({**strategy.default, "lanes": lanes}) for lanes in (False, True)}
    assert strategy.default["lanes"] == (costs[True] < costs[False]) or max(costs.values()) < 1.06 * min(costs.values())


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("n", [1, 5, 100])
def test_determinants_are_numpys(n: int, lanes: bool) -> None:
    a, D = floats(n, 3, 3), determinants(n)
    strategy = choose(D, target(), 1)
    config = {**strategy.default, "lanes": lanes} if "lanes" in strategy.default else strategy.default
    np.testing.assert_allclose(tl.build(strategy.schedule(config))(a), np.linalg.det(a.astype("float64")), rtol=1e-3, atol=1e-4)


def test_lanes_side_by_side_are_not_asked_for() -> None:
    X = tl.placeholder((100, 200), name="X")
    assert "lanes" not in choose(tl.compute((100, 200), lambda i, j: X[i, j] * 2, name="Y"), target(), 1).default
