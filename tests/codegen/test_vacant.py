"""Loops around a loop that is empty at run time do not run, however many they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir.printer import print_nest

MANY = 2**40
"""So many iterations end nowhere near the time that a test has; those of nothing take none."""


def pointwise() -> tl.Tensor:
    A = tl.placeholder((tl.dim("n"), tl.dim("m")), name="A")
    result: tl.Tensor = tl.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    return result


def tiled(s: tl.Schedule) -> None:
    s.split("j", 8)
    s.vectorize("j_i")
    s.split("i", 4, tail="peel")


@pytest.mark.parametrize("steps", [lambda s: None, lambda s: s.parallel("i"), lambda s: s.fuse("i", "j"), tiled])
def test_outer_loops_do_not_run_where_an_inner_extent_is_empty(steps: Callable[[tl.Schedule], object]) -> None:
    s = tl.Schedule(pointwise())
    steps(s)
    assert print_nest(lower(s.nest, target("native"))).splitlines()[1] == "    if (0 < n) & (0 < m):"
    kernel = tl.build(s)
    assert kernel(np.empty((MANY, 0), "f4")).shape == (MANY, 0)
    np.testing.assert_array_equal(kernel(np.ones((3, 5), "f4")), np.full((3, 5), 2, "f4"))


def test_what_only_an_empty_result_needs_is_not_computed() -> None:
    A = tl.placeholder((tl.dim("n"), tl.dim("m")), name="A")
    kernel = tl.build(tl.Schedule(tl.ops.softmax(A)))
    assert kernel(np.empty((MANY, 0), "f4")).shape == (MANY, 0)


def test_an_empty_intermediate_costs_nothing_and_its_sum_is_still_initialised() -> None:
    A = tl.placeholder((tl.dim("n"), tl.dim("m")), name="A")
    i, j = tl.reduce_axis(A.shape[0], name="i"), tl.reduce_axis(A.shape[1], name="j")
    kernel = tl.build(tl.Schedule(tl.compute((), lambda: tl.sum(A[i, j], (i, j)), name="total")))
    assert kernel(np.empty((MANY, 0), "f4")) == 0
    assert kernel(np.ones((3, 5), "f4")) == 15


@pytest.mark.parametrize(("m", "p"), [(0, 0), (0, 3), (3, 0), (3, 2)])
def test_statements_of_one_loop_run_where_one_of_them_does_something(m: int, p: int) -> None:
    n = tl.dim("n")
    A, B = tl.placeholder((n, tl.dim("m")), name="A"), tl.placeholder((n, tl.dim("p")), name="B")
    C = tl.compute(A.shape, lambda i, j: A[i, j] + 1, name="C")
    D = tl.compute(B.shape, lambda i, j: B[i, j] * 2, name="D")
    s = tl.Schedule((C, D))
    s.fuse_loops("C.i", "D.i")
    kernel = tl.build(s)
    rows = 4 if m or p else MANY
    a, b = np.ones((rows, m), "f4"), np.ones((rows, p), "f4")
    c, d = kernel(a, b)
    np.testing.assert_array_equal(c, a + 1)
    np.testing.assert_array_equal(d, b * 2)


def test_extents_that_cannot_be_empty_are_not_asked() -> None:
    A = tl.placeholder((tl.dim("n", 1, 64), tl.dim("m", 1)), name="A")
    B = tl.compute(A.shape, lambda i, j: A[i, j] + 1, name="B")
    assert "if" not in print_nest(lower(tl.Schedule(B).nest, target("native")))


def test_lanes_over_storage_without_elements_build() -> None:
    """Its strides are 0, so all lanes mean one element, in a loop that is known to be empty only by its two bounds together."""
    m = tl.dim("m")
    A = tl.placeholder((16, 0), name="A")
    S = tl.compute((16, 0), lambda j, k: tl.select(k >= m, A[j, k] + 1.0, tl.cast(j, "float32")), name="S")
    r, q = tl.reduce_axis(16, name="r"), tl.reduce_axis(0, name="q")
    s = tl.Schedule(tl.compute((2,), lambda i: tl.sum(S[r, q], axis=(r, q)) + tl.cast(i, "float32"), name="T"))
    s.split("S.j", 16)
    s.vectorize("S.j_i")
    s.cache_write("S", at="S.j_o")
    np.testing.assert_array_equal(tl.build(s)(np.empty((16, 0), "f4"), m=3), [0, 1])
