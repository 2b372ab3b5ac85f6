"""Storage that each iteration fills for itself ties no iterations together: they may stand in any order, and not run at the same time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tensorlang as tl
from tensorlang.algebra.polyhedra import uncovered
from tensorlang.ir import Axis, Block, Compare, For, If, Load, Stmt, Store, const
from tensorlang.ir.traverse import map_statements, statements
from tensorlang.schedules.legality import refilled as module
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.refilled import come_first, refilled
from tests.schedules.judged import judge
from tests.schedules.test_rewrites import INDICES, TABLE, fits, setting


def product(n: Any = 5) -> tl.Schedule:
    """C[i, j] = the sum over k of A[i, k] * B[k, j]."""
    a, b = tl.placeholder((4, n), "int32", name="A"), tl.placeholder((n, 6), "int32", name="B")
    k = tl.reduce_axis(n, name="k")
    return tl.Schedule(tl.compute((4, 6), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C"))


def test_a_copy_of_a_row_that_every_iteration_makes_lets_loops_change_places_but_not_run_at_once() -> None:
    s = product()
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_root("A_cache", reuse="none")
    s.reorder("C.j", "C.i")
    judge(s)
    assert s.can("parallel", "C.j").error.code == "TL-S101"


def test_copies_that_share_one_row_of_storage_are_filled_and_read_in_one_iteration() -> None:
    s = product()
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_root("A_cache", reuse="none")
    s.fold_storage("A_cache", 0, 1)
    s.reorder("C.j", "C.i")
    judge(s)
    for loop in ("C.i", "C.j"):
        assert s.can("parallel", loop).error.code == "TL-S101"


def test_a_copy_of_one_element_inside_more_loops_does_so_too() -> None:
    s = product()
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.k")
    s.store_root("A_cache", reuse="none")
    s.reorder("C.j", "C.i")
    judge(s)


@pytest.mark.parametrize("n", [5, tl.dim("n")])
def test_a_copy_that_several_loops_make_together_does_so_too(n: Any) -> None:
    """Each of them fills a part of the row, and no part is left out."""
    s = product(n)
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_root("A_cache", reuse="none")
    s.peel("A_cache.d1", first=1, last=2)
    s.reorder("C.j", "C.i")
    judge(s, dims={} if n == 5 else {"n": 5})


def test_a_part_of_a_row_that_is_left_out_ties_iterations_together() -> None:
    s = product()
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_root("A_cache", reuse="none")
    s.peel("A_cache.d1", first=1, last=2)

    def refilled_up_to(end: int) -> set[str]:
        def cut(part: Stmt) -> Stmt:
            part = map_statements(part, cut)
            return replace(part, hi=const(end)) if isinstance(part, For) and part.loop == "A_cache.d1_last" else part

        nest = replace(s.nest, body=cut(s.nest.body))
        i, j = (part for part in statements(nest.body) if isinstance(part, For) and part.loop in ("C.i", "C.j"))
        return refilled(nest, [j.body], [i, j])

    assert [refilled_up_to(end) for end in (5, 4)] == [{"A_cache"}, set()]


def test_a_copy_of_run_time_extent_does_so_too() -> None:
    s = product(tl.dim("n"))
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_root("A_cache", reuse="none")
    s.reorder("C.j", "C.i")
    for n in (0, 1, 3):
        judge(s, {"n": n})


def sliding() -> tl.Schedule:
    """A row of D is made once, for several iterations of j."""
    x = tl.placeholder((4, 9), "int32", name="X")
    double = tl.compute((4, 9), lambda i, j: x[i, j] * 2, name="D")
    s = tl.Schedule(tl.compute((4, 7), lambda i, j: double[i, j] + double[i, j + 2], name="Y"))
    s.compute_at("D", "Y.j")
    s.store_root("D")
    return s


def looked_up() -> Any:
    """Y[i, j] is the element of row i of A that I[j] says."""
    a, where = tl.placeholder((4, 5), "int32", name="A"), tl.placeholder((6,), "int64", name="I")
    return tl.compute((4, 6), lambda i, j: a[i, tl.clamp(where[j], 0, 4)] + tl.cast(j, "int32"), name="Y")


def kept_row(reuse: str = "none") -> tl.Schedule:
    """Every iteration reads any element of one row of storage, which it has filled, or the first one of its row has."""
    s = tl.Schedule(looked_up())
    s.cache_read("A", at="Y.j")
    s.store_root("A_cache", reuse=reuse)
    s.fold_storage("A_cache", 0, 1)
    return s


def test_a_copy_of_all_that_data_may_ask_for_lets_loops_change_places() -> None:
    s = kept_row()
    s.reorder("Y.j", "Y.i")
    judge(s)
    assert s.can("parallel", "Y.j").error.code == "TL-S101"


def test_what_data_ask_for_ties_iterations_together_where_an_earlier_one_copied_it() -> None:
    assert kept_row("slide").can("reorder", "Y.j", "Y.i").error.code == "TL-S103"


def test_what_data_ask_for_ties_iterations_together_where_the_copy_leaves_out_an_element() -> None:
    nest = kept_row().nest
    inner = next(part for part in statements(nest.body) if isinstance(part, For) and part.loop == "Y.j")
    around = next(part for part in statements(nest.body) if isinstance(part, For) and part.loop == "Y.i"), inner

    def shorter(part: Stmt) -> Stmt:
        part = map_statements(part, shorter)
        return replace(part, hi=const(4)) if isinstance(part, For) and part.loop == "A_cache.d1" else part

    left_out = replace(nest, body=shorter(nest.body))
    body = next(part for part in statements(left_out.body) if isinstance(part, For) and part.loop == "Y.j").body
    assert refilled(nest, [inner.body], around) == {"A_cache"}
    assert refilled(left_out, [body], around) == set()


def test_what_an_earlier_iteration_left_in_shared_storage_ties_iterations_together() -> None:
    s = sliding()
    assert s.can("reorder", "Y.j", "Y.i")
    s.fold_storage("D", 0, 1)
    assert s.can("reorder", "Y.j", "Y.i").error.code == "TL-S103"


def test_two_statements_that_share_storage_which_each_fills_for_itself_may_stand_apart_or_together() -> None:
    x = tl.placeholder((6,), "int32", name="X")
    one = tl.compute((6,), lambda i: x[i] * 2, name="A")
    two = tl.compute((6,), lambda i: one[i] + 1, name="B")
    s = tl.Schedule((one, two))
    s.fuse_loops("A.i", "B.i")
    s.fission("B.i")
    judge(s)


@pytest.mark.parametrize("factor", [1, 2])
def test_the_last_write_is_the_same_where_one_loop_is_slanted_by_the_other(factor: int) -> None:
    s = tl.Schedule(setting())
    s.skew("H.q", by="H.p", factor=factor)
    s.reorder("H.q_s", "H.p")
    fits(s, I=INDICES, V=TABLE)


def test_the_last_write_is_the_same_where_the_loop_that_tells_the_element_is_slanted() -> None:
    s = tl.Schedule(setting())
    s.reorder("H.q", "H.p")
    s.skew("H.p", by="H.q")
    s.reorder("H.p_s", "H.q")
    fits(s, I=INDICES, V=TABLE)


def test_the_last_write_is_another_one_where_a_slanted_loop_and_the_other_say_together_which_element() -> None:
    turned = tl.Schedule(setting(index=lambda p, q: (p + 2 * q) % 3))
    turned.skew("H.q", by="H.p")
    assert turned.can("reorder", "H.q_s", "H.p").error.code == "TL-S103"


def test_the_last_write_of_a_slanted_loop_is_another_one_where_both_say_together_which_there_are() -> None:
    i = tl.placeholder((6,), "int64", name="I")
    s = tl.Schedule(setting(where=lambda p, q: i[p] >= tl.cast(q, "int64")))
    s.skew("H.q", by="H.p")
    assert s.can("reorder", "H.q_s", "H.p").error.code == "TL-S103"


def test_a_copy_that_starts_where_an_outer_loop_says_is_filled_alike_in_every_iteration() -> None:
    a = tl.placeholder((9,), "int32", name="A")
    k = tl.reduce_axis(2, name="k")
    s = tl.Schedule(tl.compute((6, 4), lambda i, j: tl.sum(a[i + k] * tl.cast(j, "int32"), axis=k), name="C"))
    s.decompose_reduction("C.k")
    s.cache_read("A", at="C.j")
    s.store_at("A_cache", "C.i", reuse="none")
    s.fission("C.j")
    judge(s)


def test_an_element_read_under_another_name_of_its_index_is_one_element() -> None:
    """A condition that compares it with itself never holds, so that nothing is written."""
    v, i = tl.placeholder((6, 4), "int32", name="V"), tl.placeholder((6,), "int64", name="I")
    start = tl.compute((3,), lambda x: tl.cast(x, "int32"), name="Z")
    p, q = tl.reduce_axis(6, name="p"), tl.reduce_axis(4, name="q")
    never = tl.scatter(
        start, (p, q), lambda p, q: (p + 2 * q) % 3, lambda p, q: v[p, q], "set", where=lambda p, q: i[p + 0] > i[p], name="H"
    )
    s = tl.Schedule(never)
    s.reorder("H.q", "H.p")
    fits(s, I=INDICES, V=TABLE)


def test_the_order_of_writes_that_nothing_reads_does_not_matter() -> None:
    """Each step overwrites the state that it does not read; the one before all steps is read by none."""
    start, x = tl.placeholder((7,), "int32", name="X"), tl.placeholder((7,), "int32", name="Y")
    last = tl.scan(lambda t, _: tl.compute((7,), lambda i: x[i] + tl.cast(t, "int32"), name="N"), start, 7, keep="last", name="T")
    s = tl.Schedule(last)
    s.fuse_loops("T.start.i0", "T.t")
    judge(s)
    kept = tl.scan(lambda t, state: tl.compute((7,), lambda i: state[i] + x[i], name="N"), start, 7, keep="last", name="T")
    assert tl.Schedule(kept).can("fuse_loops", "T.start.i0", "T.t").error.code == "TL-S103"


def last_of(bins: int) -> tl.Schedule:
    """What was stored last in each of the bins that a copy of a list names."""
    chosen = tl.placeholder((6,), "int64", name="I")
    start = tl.compute((bins,), lambda x: tl.cast(x, "int32"), name="Z")
    p, q = tl.reduce_axis(6, name="p"), tl.reduce_axis(4, name="q")

    def is_one(p: tl.Expr, _: tl.Expr) -> tl.Expr:
        return (chosen[p] >= 0) & (chosen[p] < bins)

    s = tl.Schedule(tl.scatter(start, (p, q), lambda p, _: chosen[p], lambda p, q: tl.cast(p + q, "int32"), "set", is_one, name="H"))
    s.cache_read("I", at="H.q")
    return s


@pytest.mark.parametrize("bins", [0, 1, 3])
def test_iterations_meet_in_elements_that_there_are(bins: int) -> None:
    s = last_of(bins)
    assert bool(s.can("parallel", "H.p")) is (bins == 0)
    assert bool(s.can("reorder", "H.q", "H.p")) is (bins == 0)
    if bins == 0:
        s.parallel("H.p")
    judge(s)


def test_what_the_first_of_the_loops_inside_fills_is_there_for_the_others() -> None:
    """`R` is computed where `j` is 0 and read in every iteration of `j`: rows of `Y` may stand in any order."""
    a, k = tl.placeholder((4, 6), "int32", name="A"), tl.reduce_axis(6, name="k")
    r = tl.compute((4,), lambda i: tl.sum(a[i, k], axis=k), name="R")
    s = tl.Schedule(tl.compute((6, 5), lambda i, j: r[tl.clamp(i - 1, 0, 3)] * r[0] + j, name="Y"))
    s.compute_at("R", "Y.j")
    s.store_root("R")
    assert "range(select(j > 0, 4, 0), 4)" in str(s)
    s.split("Y.i", 2)
    s.reorder("Y.i_i", "Y.i_o")
    judge(s)
    assert s.can("reorder", "j", "Y.i_i", "Y.i_o").error.code == "TL-S103"


def test_a_number_that_fused_loops_of_run_time_extents_begin_anew_does_so_too() -> None:
    """How many iterations there are is a product of two unknowns, and the same for the store and for what reads it."""
    n = tl.dim("n")
    a, k = tl.placeholder((n, n), "int32", name="A"), tl.reduce_axis(n, name="k")
    s = tl.Schedule(tl.compute((n, n), lambda i, j: tl.sum(a[i, k] * a[k, j], axis=k) * 2, name="C"))
    s.fuse("C.i", "C.j")
    s.store_root("C.1", reuse="none")
    s.split("C.i_j", 2)
    s.reorder("C.i_j_i", "C.i_j_o")
    for extent in (0, 1, 3):
        judge(s, {"n": extent})


def scattered() -> tl.Schedule:
    """A maximum of a row is put where W says, if that is a place."""
    m = tl.dim("m", 1, 9)
    x, w = tl.placeholder((m, 3), "int32", name="X"), tl.placeholder((m,), "int64", name="W")
    p, q, k = tl.reduce_axis(m, name="p"), tl.reduce_axis(4, name="q"), tl.reduce_axis(3, name="k")
    zero = tl.compute((5,), lambda i: tl.cast(0, "int32"), name="Z")
    value = tl.scatter(
        zero,
        (p, q),
        lambda p, q: w[p],
        lambda p, q: tl.max(x[p, k], axis=k) * 2 + tl.cast(q, "int32"),
        "max",
        where=lambda p, q: (w[p] >= 0) & (w[p] < 5),
        name="H",
    )
    s = tl.Schedule(value)
    s.store_root("H.1", reuse="none")
    return s


def test_what_data_let_be_filled_counts_where_they_let_it_be_read() -> None:
    s = scattered()
    s.reorder("H.q", "H.p")
    judge(s, {"m": 5})


def test_what_data_let_be_filled_does_not_where_they_let_more_be_read() -> None:
    s = scattered()

    def freed(part: Stmt) -> Stmt:
        part = map_statements(part, freed)
        return part.then if isinstance(part, If) and isinstance(part.then, Block) else part

    def unprotected(part: Stmt) -> Stmt:
        if isinstance(part, Store) and part.stage == "H.1.init":
            return If(Compare("lt", Load(s.nest.inputs[1], (Axis("H.p"),)), const(5)), part)
        return map_statements(part, unprotected)

    def found(body: Stmt) -> set[str]:
        nest = replace(s.nest, body=body)
        p, q = (part for part in statements(body) if isinstance(part, For) and part.loop in ("H.p", "H.q"))
        return refilled(nest, [q.body], [p, q])

    assert found(s.nest.body) == {"H.1"}
    assert found(freed(unprotected(s.nest.body))) == set()


def test_storage_of_one_version_is_its_own() -> None:
    n, k = tl.dim("n"), tl.reduce_axis(5, name="k")
    a = tl.placeholder((n, 5), "int32", name="A")
    s = tl.Schedule(tl.compute((n, 5), lambda i, j: a[i, j] - tl.max(a[i, k], axis=k), name="C"))
    s.store_root("C.1", reuse="none")
    s.specialize("n % 4 == 0")
    s.reorder("C.j", "C.i")
    for extent in (3, 4):
        judge(s, {"n": extent})


def test_three_loops_that_fill_one_number_each_for_itself_may_be_run_apart() -> None:
    a = tl.placeholder((6, 4), "int32", name="A")
    s = tl.Schedule(tl.compute((6, 4), lambda i, j: a[i, j] * 3, name="C"))
    s.cache_write("C", at="C.j")
    s.store_root("C", reuse="none")
    s.peel("C.j", first=1, last=1)
    s.fission("C.i")
    assert sum(isinstance(part, For) for part in statements(s.nest.body)) == 6
    judge(s)


def test_storage_that_other_loops_fill_for_themselves_ties_no_iterations_of_this_one() -> None:
    a, k = tl.placeholder((6, 5), "int32", name="A"), tl.reduce_axis(5, name="k")
    s = tl.Schedule(tl.compute((6, 5), lambda i, j: a[i, j] - tl.max(a[i, k], axis=k), name="C"))
    s.store_root("C.1", reuse="none")
    s.peel("C.i", last=1)

    def without_init(part: Stmt, within: bool = False) -> Stmt:
        within = within or (isinstance(part, For) and part.loop == "C.i_last")
        if within and isinstance(part, Store) and part.stage == "C.1.init":
            return Block(())
        return map_statements(part, lambda inner: without_init(inner, within))

    def found(body: Stmt) -> set[str]:
        i, j = (part for part in statements(body) if isinstance(part, For) and part.loop in ("C.i", "C.j"))
        return refilled(replace(s.nest, body=body), [j.body], [i, j])

    assert found(s.nest.body) == {"C.1"}
    assert found(without_init(s.nest.body)) == set()
    s.reorder("C.j", "C.i")
    judge(s)


@pytest.mark.parametrize("leaves_out", [False, True])
@pytest.mark.parametrize("blocks", [8, 4])
def test_what_is_read_as_it_is_written_in_loops_that_are_alike_needs_no_proof(
    monkeypatch: pytest.MonkeyPatch, blocks: int, *, leaves_out: bool
) -> None:
    questions: list[object] = []
    monkeypatch.setattr(module, "uncovered", lambda *question: questions.append(question) or uncovered(*question))
    x = tl.placeholder((32,), name="X")
    made = tl.compute((32,), lambda i: x[i] * 2, name="made")
    s = tl.Schedule(tl.compute((32,), lambda i: made[i] + 1, name="c"))
    s.split("made.i", 8)
    s.split("c.i", blocks)
    read, write = sorted((access for access in accesses(s.nest.body) if access.buffer.name == "made"), key=lambda access: access.writes)
    if leaves_out:
        write = replace(write, conditions=(Compare("lt", const(0), Axis("made.i")),))
    assert come_first(s.nest, [write], read, (), frozenset({"made", "c"})) == (not leaves_out)
    assert bool(questions) == (leaves_out or blocks != 8)
