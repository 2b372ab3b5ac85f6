"""Writes that come again may change places where that does no harm: the last one stays the last, or every one stores the same value."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr
from tensorlang.lowering import nests
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.fused_loops import fused_loop_facts, fused_tile_facts
from tensorlang.schedules.legality.instances import instance
from tensorlang.schedules.legality.rewrites import told
from tests.schedules.judged import judge
from tests.schedules.programs import check
from tests.schedules.test_inside import right
from tests.thinned import few

INDICES = np.array([2, 0, 2, 2, 1, 0], "int64")
TABLE = np.arange(24, dtype="int32").reshape(6, 4)


def fits(s: tl.Schedule, **given: Any) -> None:
    """The law, for operands by name."""
    right(s, *[given[buffer.name] for buffer in s.nest.inputs])


def setting(index: Any = None, where: Any = None) -> tl.Tensor:
    """H[I[p]] set to V[p, q], for all q."""
    v, i = tl.placeholder((6, 4), "int32", name="V"), tl.placeholder((6,), "int64", name="I")
    start = tl.compute((3,), lambda x: tl.cast(x, "int32"), name="Z")
    p, q = tl.reduce_axis(6, name="p"), tl.reduce_axis(4, name="q")
    index = index or (lambda p, q: tl.clamp(i[p], 0, 2))
    where = where or (lambda p, q: i[p] >= 0)
    return tl.scatter(start, (p, q), index, lambda p, q: v[p, q], "set", where=where, name="H")


def test_the_last_write_is_the_same_in_both_orders_where_loops_say_apart_which_ones_there_are() -> None:
    s = tl.Schedule(setting())
    s.reorder("H.q", "H.p")
    fits(s, I=INDICES, V=TABLE)
    s.split("H.p", 2)
    s.reorder("H.p_o", "H.q", "H.p_i")
    fits(s, I=INDICES, V=TABLE)


def test_what_a_scatter_sets_in_order_is_copied_back_in_order() -> None:
    s = tl.Schedule(setting(index=lambda p, q: q // 2, where=lambda p, q: q <= p))
    s.cache_write("H", at="H.p")
    fits(s, I=INDICES, V=TABLE)
    assert s.can("parallel", "H_cache.store.q").error.code == "TL-S101"


def test_parts_of_one_loop_keep_their_order() -> None:
    s = tl.Schedule(setting())
    s.split("H.p", 2)
    for order in itertools.permutations(("H.p_o", "H.p_i", "H.q")):
        if order != ("H.p_o", "H.p_i", "H.q"):
            assert bool(s.can("reorder", *order)) == (order.index("H.p_o") < order.index("H.p_i"))


def test_the_last_write_is_another_one_where_two_loops_say_together_which_there_are() -> None:
    i = tl.placeholder((6,), "int64", name="I")
    together = [
        setting(where=lambda p, q: i[p] >= tl.cast(q, "int64")),  # the last q depends on p
        setting(index=lambda p, q: (p + q) % 3, where=lambda p, q: i[p] >= 0),
    ]
    assert tl.Schedule(together[0]).can("reorder", "H.q", "H.p").error.code == "TL-S103"
    assert tl.Schedule(together[1]).can("reorder", "H.q", "H.p").error.code == "TL-S103"


def repeated(where: Any = None) -> tl.Tensor:
    """H[I[q]] set to V[q], once for each p."""
    v, i = tl.placeholder((6,), "int32", name="V"), tl.placeholder((6,), "int64", name="I")
    start = tl.compute((3,), lambda x: tl.cast(x, "int32"), name="Z")
    axes = tl.reduce_axis(5, name="p"), tl.reduce_axis(6, name="q")
    return tl.scatter(start, axes, lambda p, q: tl.clamp(i[q], 0, 2), lambda p, q: v[q], "set", where=where, name="H")


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_loops_that_repeat_a_store_stand_anywhere_as_those_that_it_speaks_of_keep_their_order(both: bool) -> None:
    """In pieces too, of which the last is not whole; a condition of p alone changes nothing, one of p and q does."""
    for where in (None, lambda p, q: p != 3, lambda p, q: p >= q):
        s = tl.Schedule(repeated(where))
        s.split("H.p", 4, "guard" if where else "peel")
        if both:
            s.split("H.q", 4)
        old = [name for name in s.loops("H") if name.startswith("H.")]
        own = [name for name in old if ".q" in name]
        free = where is None or where(4, 5)
        for order in itertools.permutations(old):
            kept = [name for name in order if name in own] == own
            if list(order) != old and (free or not kept):
                assert bool(s.can("reorder", *order)) == kept, order
            if s.can("reorder", *order):
                t = tl.Schedule.from_json(s.outputs, s.to_json())
                t.reorder(*order)
                fits(t, I=INDICES, V=np.arange(6, dtype="int32"))


def test_a_write_that_something_sees_meanwhile_is_not_the_last_one_only() -> None:
    """Each step of the recurrence is seen by the next one."""
    x = tl.placeholder((3, 4), "int32", name="X")
    r = tl.recurrence((3, 4), lambda i, j, self: self[i - 1, j + 1] + x[i, j], name="R")
    assert tl.Schedule(r).can("reorder", "R.j", "R.i").error.code == "TL-S103"


def test_storage_that_each_iteration_starts_anew_ties_no_iterations_together() -> None:
    x = tl.placeholder((4, 5, 3), "int32", name="X")
    k = tl.reduce_axis(3, name="k")
    y = tl.compute((4, 5), lambda i, j: tl.sum(x[i, j, k], axis=k) * tl.cast(i + j, "int32"), name="Y")
    s = tl.Schedule(y)
    (inner,) = {access.buffer.name for access in accesses(s.nest.body)} - {"X", "Y"}
    s.store_root(inner)
    s.reorder("Y.j", "Y.i")
    assert str(s).index(f"{inner}: int32[]") < str(s).index("for j in")
    check(s)
    assert s.can("parallel", "Y.j").error.code == "TL-S101"


def summed(row: Any) -> tl.Schedule:
    """C[i] = i times the sum of A[row(i)], whose copy every iteration makes anew in storage of all of them."""
    a = tl.placeholder((7, 4), "int32", name="A")
    k = tl.reduce_axis(4, name="k")
    s = tl.Schedule(tl.compute((6,), lambda i: tl.sum(a[row(i), k] * tl.cast(i, "int32"), axis=k), name="C"))
    s.cache_read("A", at="C.i")
    s.store_root("A_cache", reuse="none")
    return s


def test_a_copy_that_every_iteration_fills_alike_is_full_after_the_first() -> None:
    s = summed(lambda i: 3)
    s.fission("C.i")
    assert str(s).count("for i in range(6)") == 3
    check(s)
    s.fuse_loops("A_cache.i", "C.i")
    check(s)


def test_an_element_tells_what_is_derived_from_the_axes_that_it_tells() -> None:
    """Where `d = d_s - 1` and the element is `d_s - 1`, one element is of one `d`; that of `i // 2` is of two `i`."""
    a = tl.placeholder((6, 5), "int32", name="A")
    s = tl.Schedule(tl.compute((6, 5), lambda i, j: a[tl.clamp(a[i, j], 0, 5), j], name="S"))
    s.cache_read("A", at="S.j")
    s.store_at("A_cache", "S.i", reuse="none")
    s.shift("A_cache.d1", 2)
    s.cache_write("A_cache", at="A_cache.d1_s")
    s.reverse_compute_inline("A_cache_cache.store")
    assert "A_cache[d0, d1_s - 2] = A[d0, d1]" in str(s)
    write = next(access for access in accesses(s.nest.body) if access.stage == "A_cache" and access.writes)
    assert told(s.nest, write.loops[1:], write)
    s.fission("S.j")
    fits(s, A=np.arange(30, dtype="int32").reshape(6, 5) % 7)
    s = tl.Schedule(setting(index=lambda p, q: p // 2, where=lambda p, q: q < 4))
    write = next(access for access in accesses(s.nest.body) if access.stage == "H" and access.writes)
    assert not told(s.nest, write.loops, write)


def test_storage_that_holds_another_row_later_is_not_filled_first() -> None:
    s = summed(lambda i: i)
    s.fold_storage("A_cache", 0, 1)
    error = s.can("fission", "C.i").error
    assert error.code == "TL-S103"


def scattered(where: Any, reduce: str = "add") -> tl.Tensor:
    """H[I[q]] combined with V[p, q] where a condition holds."""
    v, i = tl.placeholder((6, 4), "int32", name="V"), tl.placeholder((4,), "int64", name="I")
    start = tl.compute((3,), lambda x: tl.cast(x, "int32") * 100, name="Z")
    p, q = tl.reduce_axis(6, name="p"), tl.reduce_axis(4, name="q")
    return tl.scatter(start, (p, q), lambda p, q: tl.clamp(i[q], 0, 2), lambda p, q: v[p, q], reduce, where=where, name="H")


EVERYWHERE = np.array([1, 1, 0, 1], "int64")


@pytest.mark.parametrize("reduce", ["add", "min", "max"])
def test_a_partial_tile_may_hold_an_element_of_a_scatter_in_several_places(reduce: str) -> None:
    s = tl.Schedule(scattered(lambda p, q: p >= q, reduce))
    assert s.can("accumulate", "H", at="H.p").error.code == "TL-S103"
    s.accumulate("H", at="H.p", partial=True)
    fits(s, I=EVERYWHERE, V=TABLE)
    s.vectorize("H_acc.add.q")  # lanes take turns
    fits(s, I=EVERYWHERE, V=TABLE)


def test_a_lane_of_its_own_may_stand_among_loops_that_meet_in_an_element() -> None:
    """Only what runs at the same time has to be apart: here it is one lane, and the loops within meet one after the other."""
    s = tl.Schedule(scattered(None))
    s.vectorize(s.split("H.q", 1)[1])
    s.accumulate("H", at="H.p", partial=True)
    fits(s, I=EVERYWHERE, V=TABLE)


def test_a_tile_may_hold_an_element_twice_where_only_the_last_place_is_combined_into() -> None:
    last, first = (tl.Schedule(scattered(where)) for where in (lambda p, q: q == 3, lambda p, q: q == 0))
    last.accumulate("H", at="H.p")
    fits(last, I=EVERYWHERE, V=TABLE)
    assert first.can("accumulate", "H", at="H.p").error.code == "TL-S103"


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_lanes_of_fused_loops_whose_inner_extent_is_given_at_run_time_are_told_apart(seed: int) -> None:
    rows, columns = tl.dim("m"), tl.dim("n")
    x = tl.placeholder((rows, columns), "int32", name="X")
    s = tl.Schedule(tl.compute((rows, columns), lambda i, j: x[i, j] * 3, name="Y"))
    outer, inner = s.split(s.fuse("Y.i", "Y.j"), 4)
    s.reorder(inner, outer)
    s.vectorize(s.split(s.fuse(inner, outer), 16)[1])
    sizes = {"m": 3 + seed, "n": 5 - seed}
    check(s, dims=sizes)


@pytest.mark.parametrize("factor", [0, 2, 3])
@pytest.mark.parametrize("inner", [1, 3])
def test_what_is_said_of_fused_loops_holds_of_all_their_iterations(factor: int, inner: int) -> None:
    """Every tie, at every pair of iterations of small extents, of rows of `inner * n` elements."""
    rows, columns = tl.dim("m"), tl.dim("n")
    x = tl.placeholder((rows, columns, inner), "int32", name="X")
    s = tl.Schedule(tl.compute((rows, columns, inner), lambda i, j, k: x[i, j, k] * 3, name="Y"))
    s.fuse("Y.j", "Y.k")
    s.fuse("Y.i", "Y.j_k")
    if factor:
        s.split("Y.i_j_k", factor)
    (access,) = (each for each in accesses(s.nest.body) if each.writes)
    one, two = (instance(s.nest, access, mark, frozenset()) for mark in ("'", "''"))
    said = [*fused_loop_facts(s.nest, one, two, frozenset()), *fused_tile_facts(s.nest, one, two, frozenset())]
    assert len(said) == 9 + (factor > 0) + 2 * (factor == inner)
    for m, n in itertools.product(range(4), repeat=2):
        for f, g in itertools.product(range(m * n * inner), repeat=2):
            values: dict[Expr, int] = {Dim("m"): m, Dim("n"): n}
            for copy, at in ((one, f), (two, g)):
                row, rest = divmod(at, n * inner)
                for axis, value in (("i_j_k", at), ("i", row), ("j_k", rest), ("j", rest // inner), ("k", rest % inner)):
                    values[copy.at(f"Y.{axis}")] = value
            assert all(holds(each, values) for each in said)


def holds(expr: Expr, values: dict[Expr, int]) -> int:
    """The value of a condition on axes and dims."""
    match expr:
        case Axis() | Dim():
            return values[expr]
        case Const(value):
            return int(value)
        case Binary(op, left, right) | Compare(op, left, right):
            return int(OPERATORS[op](holds(left, values), holds(right, values)))
        case _:
            raise AssertionError(expr)


OPERATORS: dict[str, Any] = {
    **{op: getattr(operator, op) for op in ("add", "sub", "mul", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne")},
    "max": max,
    "min": min,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
}


# Reads of what is written again --------------------------------------------------------------------------------------------------


def kept(program: tl.Tensor, loop: str) -> tl.Schedule:
    """What `program` reads of A in a copy of which each iteration of its innermost loop adds what it lacks, and `loop` in two parts."""
    s = tl.Schedule(program)
    s.cache_read("A", at=s.loops("Y")[-1])
    s.store_root("A_cache")
    s.split(loop, 2)
    return s


@pytest.mark.parametrize(
    ("offsets", "legal"), [((-2, 0, 2), True), ((-2, 2), True), ((-1, 0, 1), False), ((-2, 0, 1), False), ((-2, 1), False)]
)
def test_a_window_may_be_read_in_another_order_where_what_is_read_has_been_written_by_another_one(
    offsets: tuple[int, ...], legal: bool
) -> None:
    """Even places read even ones alone: whoever else writes these again comes late, but one that is even came before."""
    a = tl.placeholder((12,), name="A")

    def body(i: Any) -> Any:
        reads = [tl.select((i + by >= 0) & (i + by < 12), a[i + by], 0.0) for by in offsets]
        return sum(reads[1:], start=reads[0])

    s = kept(tl.compute((12,), body, name="Y"), "Y.i")
    assert bool(s.can("reorder", "Y.i_i", "Y.i_o")) == legal
    if legal:
        s.reorder("Y.i_i", "Y.i_o")
        check(s)
    else:
        assert s.can("reorder", "Y.i_i", "Y.i_o").error.code == "TL-S103"


@pytest.mark.parametrize("after", [1, 2])
def test_a_read_that_its_own_iteration_fills_may_change_places_with_the_same_writes_of_others(after: int) -> None:
    n, m = tl.dim("n", 1), tl.dim("m", 1)
    a, b = tl.placeholder((m, n + 2), name="A"), tl.placeholder((n, m), "int64", name="B")
    program = tl.compute((n, m), lambda i, j: a[tl.clamp(b[i, j], 0, m - 1), i] + a[j, i + after], name="Y")
    s = kept(program, "Y.j")
    s.reorder("Y.j_i", "Y.j_o")
    rng = np.random.default_rng(0)
    given = {a: rng.random((5, 6), "float32"), b: rng.integers(-2, 7, (4, 5))}
    np.testing.assert_array_equal(tl.build(s)(given[a], given[b]), tl.evaluate(program, given))
    s = kept(program, "Y.i")  # what an iteration adds, others of i do not write again
    assert bool(s.can("reorder", "Y.i_i", "Y.i_o")) == (after == 2)


def test_a_copy_whose_storage_has_the_digits_of_an_index_writes_one_value_to_an_element() -> None:
    v, i = tl.placeholder((6, 4), "int32", name="V"), tl.placeholder((6,), "int64", name="I")
    start = tl.compute((3,), lambda x: tl.cast(x, "int32"), name="Z")
    p, q = tl.reduce_axis(4, name="p"), tl.reduce_axis(6, name="q")
    s = tl.Schedule(tl.scatter(start, (p, q), lambda p, q: tl.clamp(i[q], 0, 2), lambda p, q: v[tl.clamp(i[q], 0, 5), p], "max", name="H"))
    s.cache_read("V", at="H.q")
    s.store_at("V_cache", "H.p")
    s.transform_layout("V_cache", lambda i, j: (i // 4, j, i % 4))
    s.fission("H.q")
    fits(s, I=INDICES, V=TABLE)


def test_a_ring_of_two_places_is_written_again_in_tiles_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iterations that write one place are an even number of rows apart, so both are the first, or the second, of a tile."""
    monkeypatch.setattr(nests, "replaced", lambda _: frozenset())  # nobody reads the last state, so that one place were enough
    n, m = tl.dim("n"), tl.dim("m")
    x, w = tl.placeholder((n,), "int32", name="X"), tl.placeholder((m,), "int32", name="W")
    s = tl.Schedule(tl.scan(lambda t, state: tl.compute((n,), lambda i: x[i] * w[t], name="step"), x, m, keep="last", name="Y"))
    outer, inner = s.split(s.fuse("Y.t", "step.i"), 2)
    s.reorder(inner, outer)
    for sizes in ({"n": 3, "m": 4}, {"n": 1, "m": 5}, {"n": 4, "m": 3}):
        judge(s, sizes)
    other = s.copy()
    three = other.split(outer, 3)
    assert other.can("reorder", three[1], three[0], inner).error
