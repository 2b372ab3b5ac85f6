"""Reduction axes with bounds that data or other axes decide: what they mean, how they are scheduled, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.algebra.ranges import conditions, hull
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.printer import print_nest, text
from tests.agreement import agree
from tests.draws import examples
from tests.thinned import crossed

rng = np.random.default_rng(11)
N, M, NNZ = tl.dim("n"), tl.dim("m"), tl.dim("nnz")


def spmv(n: Any, m: Any, nnz: Any, integer: str = "int32", **more: Any) -> tuple[tuple[Tensor, ...], Tensor]:
    """The product of a matrix in compressed rows with a vector, safe for any pointers and columns."""
    ptr, col = tl.placeholder((n + 1,), integer, name="ptr"), tl.placeholder((nnz,), integer, name="col")
    val, x = tl.placeholder((nnz,), name="val"), tl.placeholder((m,), name="x")

    def row(i: Any) -> Any:
        j = tl.reduce_axis((ptr[i], ptr[i + 1]), name="j", within=nnz)
        return tl.sum(val[j] * tl.select((col[j] >= 0) & (col[j] < m), x[col[j]], 0.0), axis=j, **more)

    return (ptr, col, val, x), tl.compute((n,), row, name="y")


def csr(n: int, m: int, density: float, integer: str = "int32") -> tuple[Any, tuple[np.ndarray[Any, Any], ...]]:
    dense = np.where(rng.random((n, m)) < density, rng.random((n, m)), 0).astype("f4")
    A = scipy.sparse.csr_matrix(dense)
    return A, (A.indptr.astype(integer), A.indices.astype(integer), A.data)


@crossed({"integer": ["int32", "int64"], "symbolic": [False, True], "n, m, density": [(6, 9, 0.4), (5, 7, 0.0), (1, 3, 1.0), (9, 40, 0.7)]})
def test_a_sparse_product_is_scipys(n: int, m: int, density: float, symbolic: bool, integer: str) -> None:
    A, parts = csr(n, m, density, integer)
    x = rng.random(m).astype("f4")
    args, y = spmv(N, M, NNZ, integer) if symbolic else spmv(n, m, A.nnz, integer)
    agree(y, dict(zip(args, (*parts, x), strict=True)), A @ x, **({"n": n} if symbolic else {}))


def rows(ptr: Any, col: Any, val: Any, x: Any) -> np.ndarray[Any, Any]:
    """The same product in Python, of pointers that need not be pointers."""
    want = np.zeros(len(ptr) - 1, "f4")
    for i in range(len(want)):
        for j in range(max(ptr[i], 0), min(ptr[i + 1], len(val))):
            want[i] += val[j] * (x[col[j]] if 0 <= col[j] < len(x) else 0)
    return want


@examples(30)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 20), min_size=5, max_size=5))
def test_pointers_that_are_none_give_empty_rows_and_read_nothing_outside(ptr: list[int]) -> None:
    args, y = spmv(4, 6, 17, "int64")
    col, val, x = rng.integers(-2, 8, 17), rng.random(17).astype("f4"), rng.random(6).astype("f4")
    agree(y, dict(zip(args, (np.array(ptr), col, val, x), strict=True)), rows(ptr, col, val, x))


@pytest.mark.parametrize("far", [0, 5, -7])
def test_without_within_the_range_is_what_the_bounds_say(far: int) -> None:
    P, Q = tl.placeholder((3,), "int8", name="P"), tl.placeholder((3,), "int8", name="Q")

    def body(i: Any) -> Any:
        k = tl.reduce_axis((P[i], Q[i]), name="k")
        return tl.sum(k * k, axis=k)

    p, q = np.array([0, 4, 9]) + far, np.array([3, 2, 12]) + far
    want = np.array([sum(k * k for k in range(a, b)) for a, b in zip(p, q, strict=True)])
    agree(tl.compute((3,), body, name="S"), {P: p.astype("i1"), Q: q.astype("i1")}, want)


def test_a_range_may_follow_from_another_axis_alone() -> None:
    X = tl.placeholder((N,), "float64", name="X")
    Y = tl.compute((N,), lambda i: tl.sum(X[(k := tl.reduce_axis((0, i + 1), name="k"))], axis=k), name="Y")
    assert "for k in range(n):\n            if k < i + 1:" in str(tl.Schedule(Y))
    for n in (0, 1, 19):
        x = rng.random(n)
        agree(Y, {X: x}, x.cumsum())


@pytest.mark.parametrize(
    ("reducer", "of"),
    [("max", np.max), ("min", np.min), ("prod", np.prod), ("argmax", np.argmax), ("any", np.any), ("reduce_fmin", np.min)],
)
def test_every_reducer_runs_over_ragged_segments(reducer: str, of: Any) -> None:
    X, start = tl.placeholder((30,), "float64", name="X"), tl.placeholder((6,), "int32", name="start")

    def segment(b: Any) -> Any:
        j = tl.reduce_axis((start[b], start[b + 1]), name="j", within=30)
        return getattr(tl, reducer)(X[j] > 0.5 if reducer == "any" else X[j], axis=j)

    x, at = rng.random(30), np.array([0, 4, 5, 17, 18, 30], "i4")
    want = [of(x[a:b] > 0.5 if reducer == "any" else x[a:b]) + (a if reducer == "argmax" else 0) for a, b in itertools.pairwise(at)]
    agree(tl.compute((5,), segment, name="S"), {X: x, start: at}, np.array(want, bool if reducer == "any" else None))


def test_an_empty_range_gives_the_identity() -> None:
    X, start = tl.placeholder((8,), name="X"), tl.placeholder((3,), "int32", name="start")

    def segment(b: Any) -> Any:
        j = tl.reduce_axis((start[b], start[b + 1]), name="j", within=8)
        return tl.max(X[j], axis=j), tl.argmin(X[j], axis=j), tl.sum(X[j], axis=j)

    agree(
        tl.compute((2,), segment, name="S"),
        {X: np.ones(8, "f4"), start: np.array([5, 2, 2], "i4")},
        (np.full(2, -np.inf, "f4"), np.full(2, -1), np.zeros(2, "f4")),
    )


@pytest.mark.parametrize("integer", ["int64", "int32"])
def test_a_bound_that_wraps_in_its_type_is_what_it_is_there(integer: str) -> None:
    ends = np.iinfo(integer)
    ptr, x = tl.placeholder((9,), integer, name="ptr"), tl.placeholder((4,), name="x")

    def row(i: Any) -> Any:
        k = tl.reduce_axis((ptr[i] - 1, ptr[i + 1]), name="k", within=4)
        return tl.sum(x[k], axis=k)

    p, values = np.array([0, 1, 3, ends.min, 4, 2, 7, ends.max, -3], integer), np.array([1, 2, 4, 8], "f4")
    starts = np.clip(p[:-1] - np.ones(8, integer), 0, 4)
    expected = [values[start : max(end, 0)].sum() for start, end in zip(starts, p[1:], strict=True)]
    agree(tl.compute((8,), row, name="y"), {ptr: p, x: values}, np.array(expected, "f4"))


def test_an_axis_may_be_bounded_at_an_axis_before_it_in_one_reduction_and_in_a_scatter() -> None:
    A, parts = csr(7, 5, 0.5)
    n, nnz = 7, A.nnz
    ptr, col = tl.placeholder((n + 1,), "int32", name="ptr"), tl.placeholder((nnz,), "int32", name="col")
    val, x, zero = tl.placeholder((nnz,), name="val"), tl.placeholder((n,), name="x"), tl.placeholder((5,), name="zero")
    i = tl.reduce_axis(n, name="i")
    j = tl.reduce_axis((ptr[i], ptr[i + 1]), name="j", within=nnz)
    v = rng.random(n).astype("f4")
    total = tl.compute((), lambda: tl.sum(val[j] * x[i], axis=(i, j)), name="total")
    agree(total, {ptr: parts[0], val: parts[2], x: v}, np.float32((A.T @ v).sum()))
    turned = tl.scatter(zero, (i, j), lambda i, j: tl.clamp(col[j], 0, 4), lambda i, j: val[j] * x[i], name="turned")
    feeds = {ptr: parts[0], col: parts[1], val: parts[2], x: v, zero: np.zeros(5, "f4")}
    agree(turned, feeds, A.T @ v)


def test_a_range_of_a_range_is_two_levels_of_pointers() -> None:
    outer, inner, X = (
        tl.placeholder((4,), "int32", name="outer"),
        tl.placeholder((7,), "int32", name="inner"),
        tl.placeholder((15,), name="X"),
    )

    def body(b: Any) -> Any:
        s = tl.reduce_axis((outer[b], outer[b + 1]), name="s", within=6)
        w = tl.reduce_axis((inner[s], inner[s + 1]), name="w", within=15)
        return tl.sum(X[w], axis=(s, w))

    p, q, x = np.array([0, 2, 2, 6], "i4"), np.array([0, 3, 4, 4, 9, 12, 15], "i4"), rng.random(15).astype("f4")
    want = np.array([sum(x[q[s] : q[s + 1]].sum() for s in range(p[b], p[b + 1])) for b in range(3)], "f4")
    agree(tl.compute((3,), body, name="S"), {outer: p, inner: q, X: x}, want)


def test_embedding_bags_run_along_the_table() -> None:
    ids, start = tl.placeholder((20,), "int64", name="ids"), tl.placeholder((5,), "int32", name="start")
    table = tl.placeholder((50, 33), name="table")

    def bag(b: Any, c: Any) -> Any:
        j = tl.reduce_axis((start[b], start[b + 1]), name="j", within=20)
        return tl.sum(table[tl.clamp(ids[j], 0, 49), c], axis=j, where=ids[j] >= 0)

    E = tl.compute((4, 33), bag, name="E")
    at, i, t = np.array([0, 3, 3, 11, 20], "i4"), rng.integers(-5, 50, 20), rng.random((50, 33)).astype("f4")
    want = np.stack([sum((t[k] for k in i[a:b] if k >= 0), np.zeros(33, "f4")) for a, b in itertools.pairwise(at)])
    agree(E, {ids: i, start: at, table: t}, want)


SCHEDULES: list[Any] = [
    lambda s: s.vectorize(s.split("j", 8, tail="mask")[1]),
    lambda s: s.vectorize(s.split("j", 8, tail="peel")[1]),
    lambda s: s.vectorize(s.split("j", 4)[1]),
    lambda s: s.unroll(s.split("j", 3)[1]),
    lambda s: (s.split("i", 4), s.reorder("i_o", "j", "i_i")),
    lambda s: (s.split("i", 4), s.reorder("i_o", "j", "i_i"), s.vectorize("i_i")),
    lambda s: s.reorder("j", "i"),
    lambda s: s.fuse("i", "j"),
    lambda s: s.parallel("i"),
    lambda s: (s.split("j", 5), s.accumulate("y", at="j_o")),
    lambda s: s.accumulate("y", at="j"),
    lambda s: (s.split("j", 16), s.rfactor("j_i")),
    lambda s: (s.split("j", 16, tail="mask"), s.rfactor("j_o"), s.parallel("j_o")) if s.can("rfactor", "j_o") else None,
    lambda s: s.cache_read("ptr", at="i"),
    lambda s: s.peel("j", first=2, last=3),
    lambda s: (s.tile("i", "j", 3, 4), s.unroll("j_i"), s.unroll("i_i")),
    lambda s: s.decompose_reduction("j") if s.can("decompose_reduction", "j") else None,
]


@crossed({"symbolic": [False, True], "number": range(len(SCHEDULES))})
def test_a_schedule_of_a_data_dependent_range_never_changes_the_result(number: int, symbolic: bool) -> None:
    A, parts = csr(11, 13, 0.4)
    ptr = parts[0].copy()
    ptr[[2, 3]], ptr[7], ptr[9] = ptr[[3, 2]], -5, 4000  # no pointers any more
    _, y = spmv(N, M, NNZ) if symbolic else spmv(11, 13, A.nnz)
    s = tl.Schedule(y)
    SCHEDULES[number](s)
    x = rng.random(13).astype("f4")
    got = tl.build(s)(ptr, *parts[1:], x)
    np.testing.assert_allclose(got, rows(ptr, parts[1], parts[2], x), rtol=1e-5)


def test_code_generation_runs_over_the_range_and_not_over_its_hull() -> None:
    _, y = spmv(N, M, NNZ)
    s = tl.Schedule(y)
    plain = print_nest(lower(s.nest, target("native")))
    assert "for j in range(maximum(0, int64(ptr[i])), minimum(int64(ptr[i + 1]), nnz)):" in plain
    s.vectorize(s.split("j", 16, tail="mask")[1])
    split = print_nest(lower(s.nest, target("native")))
    assert "for j_o in range(maximum(0, int64(ptr[i]) // 16), minimum((nnz + 15) // 16" in split


def test_a_bound_is_not_read_where_a_condition_around_it_forbids() -> None:
    """The range of row i is told by row i - 1, which the first one has not."""
    length, X = tl.placeholder((6,), "int32", name="length"), tl.placeholder((9,), name="X")

    def body(i: Any) -> Any:
        j = tl.reduce_axis((0, length[i - 1]), name="j", within=9)
        return tl.select(i > 0, tl.sum(X[j], axis=j), -1.0)

    Y = tl.compute((6,), body, name="Y")
    n, x = np.array([3, 0, 9, 100, -4, 2], "i4"), rng.random(9).astype("f4")
    want = np.array([-1.0, *(x[: max(0, k)].sum() for k in n[:-1])], "f4")
    agree(Y, {length: n, X: x}, want)
    s = tl.Schedule(Y)
    assert "if i > 0:" in print_nest(lower(s.nest, target("native")))


def test_a_default_schedule_keeps_rows_outside_and_reports_the_arithmetic_of_one_whole() -> None:
    A, _ = csr(64, 64, 0.5)
    _, y = spmv(64, 64, A.nnz)
    kernel = tl.build(y)
    assert kernel.cost()["flops"] == pytest.approx(2 * A.nnz, rel=0.1)
    assert "vector i" not in kernel.inspect("nest")


def test_the_hull_is_over_dims() -> None:
    P = tl.placeholder((N,), "int32", name="P")
    i = tl.reduce_axis(N, name="i")
    spans = {i.axis.name: (i.axis.lo, i.axis.hi)}

    def of(lo: Any, hi: Any, **more: Any) -> str:
        axis = tl.reduce_axis((lo, hi), **more).axis
        return "..".join(text(bound) for bound in hull(axis, spans)) + f" {len(conditions(axis))}"

    assert of(0, N) == "0..n 0"
    assert of(P[i], N, within=(1, N)) == "1..n 1"
    assert of(i, i + 3) == "0..n + 2 2"
    assert of(0, N - i) == "0..n 1"
    assert of(0, tl.minimum(P[i], N)) == "0..n 1"
    assert of(0, 8 - P[i] % 8) == "0..8 1"
    assert of(0, tl.cast(P[i], "uint8")) == "0..255 1"


def summed(X: Any, bounds: Any, **more: Any) -> Any:
    j = tl.reduce_axis(bounds, name="j", **more)
    return tl.sum(X[j], axis=j)


BAD: list[tuple[Any, str]] = [
    (lambda i, P, X: summed(X, (P[i], P[i + 1])), r"within=n"),
    (lambda i, P, X: summed(X, (0, tl.cast(P[i], "uint8"))), "axis 0 is read at 8; .*within=8"),
    (lambda i, P, X: summed(X, (P[i], P[i + 2]), within=8), "P: int32.* axis 0 is read at 5"),
    (lambda i, P, X: summed(X, (X[i], 8)), "bounds are integers: use tl.cast"),
    (lambda i, P, X: summed(X, (P, 8)), "an int or a tl.dim"),
    (lambda i, P, X: summed(X, (0, 8), within=P[i]), "within= of a reduction axis"),
    (lambda i, P, X: summed(X, (0, 8), within=(0, 1, 2)), "pair"),
    (lambda i, P, X: summed(X, (0, tl.sum(P[(k := tl.reduce_axis(3))], axis=k))), "holds a reduction"),
]


@pytest.mark.parametrize(("body", "message"), BAD)
def test_misuse_is_a_definition_error(body: Any, message: str) -> None:
    P, X = tl.placeholder((5,), "int32", name="P"), tl.placeholder((8,), name="X")
    with pytest.raises(tl.DefinitionError, match=message):
        tl.compute((4,), lambda i: body(i, P, X), name="Y")


def test_an_axis_belongs_where_the_axes_of_its_bounds_are() -> None:
    P, X = tl.placeholder((5,), "int32", name="P"), tl.placeholder((8,), name="X")
    made: list[Any] = []
    tl.compute((4,), lambda i: made.append(tl.reduce_axis((P[i], P[i + 1]), name="j", within=8)) or tl.sum(X[made[0]], axis=made[0]))
    with pytest.raises(tl.DefinitionError, match="axis 'i', which it does not own"):
        tl.compute((4,), lambda q: tl.sum(X[made[0]], axis=made[0]), name="Y")
    i = tl.reduce_axis(4, name="i")
    j = tl.reduce_axis((P[i], P[i + 1]), name="j", within=8)
    with pytest.raises(tl.DefinitionError, match="the range of j is told by i, which has to come before it"):
        tl.compute((), lambda: tl.sum(X[j], axis=(j, i)), name="Y")
    with pytest.raises(tl.DefinitionError, match="row-major position"):
        tl.compute((), lambda: tl.argmax(X[j], axis=(i, j)), name="Y")


def test_a_recurrence_is_not_told_its_ranges_by_itself() -> None:
    X = tl.placeholder((8,), name="X")
    with pytest.raises(tl.DefinitionError, match="reads the recurrence itself"):
        tl.recurrence((8,), lambda i, self: summed(X, (0, tl.cast(self[i - 1], "int32")), within=8), dtype="float32")


def test_a_sparse_triangular_system_is_a_recurrence_over_ragged_rows() -> None:
    A, (p, c, v) = csr(9, 9, 0.5)
    ptr, col = tl.placeholder((10,), "int32", name="ptr"), tl.placeholder((A.nnz,), "int32", name="col")
    val, b = tl.placeholder((A.nnz,), name="val"), tl.placeholder((9,), name="b")

    def solve(i: Any, x: Any) -> Any:
        j = tl.reduce_axis((ptr[i], ptr[i + 1]), name="j", within=A.nnz)
        below = (col[j] >= 0) & (col[j] < i)
        return b[i] - tl.sum(val[j] * x[col[j]], axis=j, where=below)

    known = rng.random(9).astype("f4")
    want = scipy.linalg.solve_triangular(np.tril(A.toarray(), -1) + np.eye(9), known, lower=True)
    agree(tl.recurrence((9,), solve, name="x"), {ptr: p, col: c, val: v, b: known}, want.astype("f4"), rtol=1e-4)


def test_a_range_in_the_step_of_a_scan_may_follow_from_the_time() -> None:
    X, start = tl.placeholder((6,), "float64", name="X"), tl.placeholder((6,), name="start")

    def step(t: Any, state: Any) -> Any:
        k = tl.reduce_axis((0, t), name="k", within=6)
        return tl.compute((6,), lambda i: state[i] + tl.cast(tl.sum(X[k], axis=k), "float32"), name="next")

    x = rng.random(6)
    want = np.float32(sum(x[:t].sum() for t in range(5)))
    agree(tl.scan(step, start, 5, keep="last", name="S"), {X: x, start: np.zeros(6, "f4")}, np.full(6, want))


@pytest.mark.parametrize("order", [[], ["C.h", "C.k", "C.i"]])
def test_a_range_read_from_a_copy_is_not_tested_before_the_copy_is_made(order: list[str]) -> None:
    P, X = tl.placeholder((4,), "int64", name="P"), tl.placeholder((3, 5), "int32", name="X")

    def row(h, i):
        k = tl.reduce_axis((P[h], P[h + 1]), name="k", within=5)
        return tl.max(X[i, k], axis=k)

    C = tl.compute((3, 3), row, name="C")
    s = tl.Schedule(C)
    s.vectorize("C.k")
    if order:
        s.reorder(*order)
    s.cache_read("P", at="C.h")
    p, x = np.array([0, 2, 2, 5]), np.arange(15, dtype="i4").reshape(3, 5)
    want = [[x[i, p[h] : p[h + 1]].max(initial=-(2**31)) for i in range(3)] for h in range(3)]
    np.testing.assert_array_equal(tl.build(s, inputs=[P, X])(p, x), want)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_a_range_read_from_a_copy_that_each_lane_has_of_its_own_is_no_bound_of_all_lanes(lanes: int) -> None:
    P, X = tl.placeholder((10,), "int64", name="P"), tl.placeholder((10, 30), "int32", name="X")
    i = tl.reduce_axis(10, "i")
    k = tl.reduce_axis((0, P[i]), name="k", within=30)
    s = tl.Schedule(tl.compute((), lambda: tl.max(X[i, k], axis=(i, k)), name="C"))
    outer, inner = s.split("C.i", 2)
    s.pack("P", at=inner)
    s.vectorize(s.split(outer, lanes)[1])
    p, x = np.array([3, -4, 4, 0, 7, 12, 40, 1, 2, 29]), np.arange(300, dtype="i4").reshape(10, 30)
    assert tl.build(s, inputs=[P, X])(p, x) == 270 + 28


@pytest.mark.parametrize("where", ["loop", "condition"])
def test_a_condition_on_data_stays_where_a_loop_or_a_dim_keeps_its_read_inside(where: str) -> None:
    m = tl.dim("m", 0, 1000)
    Q, X = tl.placeholder((2**40 * m,), "int64", name="Q"), tl.placeholder((3, 8), "int32", name="X")
    k = tl.reduce_axis(8, name="k")
    far = 2**40 * (m - 1)
    if where == "loop":
        E = tl.compute((3, m), lambda h, _: tl.sum(X[h, k], axis=k, where=k < Q[far]), name="E")
    else:
        E = tl.compute((3, 1), lambda h, _: tl.select(m > 0, tl.sum(X[h, k], axis=k, where=k < Q[far]), 0), name="E")
    s = tl.Schedule(E)
    s.vectorize(next(loop for stage in s.stages() for loop in s.loops(stage) if loop.endswith(".k")))
    for program in (s, E):
        empty = tl.build(program, inputs=[X, Q])(np.ones((3, 8), "i4"), np.zeros(0, "i8"))
        np.testing.assert_array_equal(empty, np.zeros((3, 0 if where == "loop" else 1)))
