"""Every directive computes what the definition means, on extents that divide nothing, 0, 1 and run-time extents, alone and together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.programs import blur, check, matmul, refused, scale
from tests.thinned import crossed, few

TAILS: tuple[Any, ...] = ("guard", "mask", "peel", "shift")
EXTENTS = (0, 1, 7, 8, 9, 17)


@crossed({"tail": TAILS, "extent": EXTENTS, "factor": [1, 3, 8, 20]})
def test_every_tail_covers_every_extent(tail: Any, extent: int, factor: int) -> None:
    for kind in ("serial", "vectorize", "unroll", "parallel outer"):
        s = tl.Schedule(scale(3, extent))
        outer, inner = s.split("j", factor, tail=tail)
        if kind == "parallel outer":
            if tail != "shift":
                s.parallel(outer)
        elif kind != "serial":
            getattr(s, kind)(inner)
        check(s, interpret=extent < 10)


@crossed({"tail": TAILS, "kind": ["serial", "vectorize", "unroll"]})
def test_every_tail_covers_every_run_time_extent(tail: Any, kind: str) -> None:
    s = tl.Schedule(scale(tl.dim("m"), tl.dim("n")))
    inner = s.split("j", 8, tail=tail)[1]
    s.split("i", 3, tail=tail)
    if kind != "serial":
        getattr(s, kind)(inner)
    for m, n in itertools.product((0, 1, 4), (0, 1, 7, 8, 19)):
        check(s, dims={"m": m, "n": n}, interpret=n < 9)


@pytest.mark.parametrize("tails", few(itertools.product(TAILS[:3], repeat=2), 4))
def test_nested_splits_of_one_loop_keep_every_iteration_once(tails: tuple[Any, Any]) -> None:
    for extent in (1, 11, 24, 25):
        s = tl.Schedule(matmul(3, extent, 2))
        _, inner = s.split("j", 8, tails[0])
        s.split(inner, 3, tails[1])
        check(s)


def test_the_four_loops_of_a_tile_come_outermost_first() -> None:
    s = tl.Schedule(matmul(7, 11, 5))
    s.reorder("k", "i", "j")
    io, jo, ii, ji = s.tile("i", "j", 2, 4, tail="peel")
    assert s.loops("C") == ("C.k", io, jo, ii, ji)
    s.vectorize(ji)
    check(s)


@pytest.mark.parametrize("order", list(itertools.permutations("ijk")))
def test_any_order_of_a_matmul_is_legal(order: tuple[str, ...]) -> None:
    s = tl.Schedule(matmul())
    s.reorder(*order)
    check(s)


def test_a_partial_reorder_permutes_the_places_that_the_loops_hold() -> None:
    s = tl.Schedule(matmul())
    s.reorder("k", "i")
    assert s.loops("C") == ("C.k", "C.j", "C.i")
    check(s)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (4, 6), (7, 13)])
def test_a_fused_loop_recovers_both_indices(shape: tuple[int, int]) -> None:
    s = tl.Schedule(scale(*shape))
    fused = s.fuse("i", "j")
    outer, inner = s.split(fused, 8)
    s.vectorize(inner)
    s.parallel(outer)
    check(s)


def test_a_fused_loop_of_run_time_extents_may_be_parallel() -> None:
    s = tl.Schedule(scale(tl.dim("m"), tl.dim("n")))
    s.parallel(s.fuse("i", "j", "all"))
    for m, n in ((0, 3), (3, 0), (1, 1), (5, 7)):
        check(s, dims={"m": m, "n": n})


@pytest.mark.parametrize("tail", TAILS[:3])
def test_a_vectorised_reduction_keeps_partial_results(tail: Any) -> None:
    for extent in (0, 1, 5, 8, 21):
        s = tl.Schedule(matmul(3, 4, extent))
        if extent > 1:
            s.vectorize(s.split("k", 8, tail)[1])
        check(s)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "argmax", "argmin", "any", "all"])
def test_every_reducer_may_be_vectorised_over_its_reduction(name: str) -> None:
    x = tl.placeholder((5, 37), "int32", name="X")
    k = tl.reduce_axis(37, name="k")
    reduce = getattr(tl, name)
    y = tl.compute((5,), lambda i: reduce(x[i, k] > 4 if name in ("any", "all") else x[i, k], axis=k), name="Y")
    for tail in TAILS[:3]:
        s = tl.Schedule(y)
        s.vectorize(s.split("k", 8, tail)[1])
        check(s)


@crossed({"tail": TAILS[:3], "shape": [(7, 11, 5), (6, 16, 8), (1, 1, 1), (13, 3, 17), (5, 5, 0)]})
def test_a_packed_register_tile_is_right_for_every_shape_and_tail(tail: Any, shape: tuple[int, int, int]) -> None:
    s = tl.Schedule(matmul(*shape))
    io, ii = s.split("i", 3, tail)
    jo, ji = s.split("j", 8, tail)
    ko, ki = s.split("k", 4, tail)
    s.reorder(jo, ko, io, ki, ii, ji)
    s.pack("B", at=ko)
    s.pack("A", at=io)
    s.accumulate("C", at=io)
    s.vectorize(ji)
    s.unroll(ii)
    s.parallel(jo)
    check(s)


def test_an_accumulated_tile_of_a_run_time_depth_starts_from_the_tensor() -> None:
    s = tl.Schedule(matmul(5, 9, tl.dim("k")))
    s.split("j", 4)
    s.split("k", 4)
    s.reorder("k_o", "i", "j_o", "k_i", "j_i")
    s.accumulate("C", at="j_o")
    s.vectorize("j_i")
    for depth in (0, 1, 4, 6):
        check(s, dims={"k": depth})


@pytest.mark.parametrize("depth", [1, 3, 9])
def test_a_part_of_a_reduction_that_begins_beyond_its_end_is_started_before(depth: int) -> None:
    """In 8 elements of which 1 is there, three of four pairs are not: their sums are started, though no iteration of theirs runs."""
    x, c, r = tl.placeholder((depth, 5), name="X"), tl.reduce_axis(depth, name="c"), tl.reduce_axis(2, name="r")
    s = tl.Schedule(tl.compute((4,), lambda y: tl.sum(x[c, y + r], axis=(c, r)), name="U"))
    s.split("U.c", 8)
    s.split("U.c_i", 2)
    s.rfactor("U.r")
    s.accumulate("U_rf", at="U_rf.c_i_o")
    check(s)
    s = tl.Schedule(tl.compute((4,), lambda y: tl.sum(x[c, y + r], axis=(c, r)), name="U"))
    s.split("U.c", 8)
    s.split("U.c_i", 2)
    s.accumulate("U", at="U.c_i_o")
    s.rfactor("U.r")
    s.accumulate("U_acc_rf", at="U_rf.c_i_i")
    check(s)


def test_directives_on_a_loop_reach_the_copies_that_follow_it() -> None:
    s = tl.Schedule(matmul(4, 32, 3))
    s.split("j", 16)
    s.reorder("i", "j_o", "k", "j_i")
    s.accumulate("C", at="j_o")
    s.split("j_i", 8)
    s.vectorize("j_i_i")
    assert str(s).count("vector ") == 3
    check(s)


@pytest.mark.parametrize("factor", [1, 4, 8, 50])
def test_a_producer_is_computed_where_it_is_needed(factor: int) -> None:
    s = tl.Schedule(blur())
    yo, _ = s.split("v.y", factor)
    s.compute_at("h", yo)
    s.vectorize(s.split("h.x", 8)[1])
    s.vectorize(s.split("v.x", 8, tail="shift")[1])
    s.parallel(yo)
    check(s)


def test_a_producer_computed_in_both_tile_loops_covers_the_halo() -> None:
    s = tl.Schedule(blur())
    _, xo, _, xi = s.tile("v.y", "v.x", 4, 8)
    s.compute_at("h", xo)
    s.vectorize(xi)
    check(s)
    assert "h: float32[6, 8]" in str(s)


def test_an_inlined_producer_leaves_no_stage() -> None:
    s = tl.Schedule(blur())
    s.compute_inline("h")
    assert s.stages() == ("v",)
    check(s)


def test_a_reduction_cannot_be_inlined() -> None:
    c = matmul()
    s = tl.Schedule(tl.compute((7, 11), lambda i, j: tl.maximum(c[i, j], 0.0), name="R"))
    with pytest.raises(tl.ScheduleError, match="holds a reduction"):
        s.compute_inline("C")


def test_a_reduction_is_computed_in_its_consumers_tile() -> None:
    c = matmul(9, 20, 6)
    s = tl.Schedule(tl.compute((9, 20), lambda i, j: tl.maximum(c[i, j], 0.0), name="R"))
    _, jo, _, ji = s.tile("R.i", "R.j", 4, 8)
    s.compute_at("C", jo)
    s.vectorize(ji)
    check(s)


def test_a_cached_region_holds_the_window_of_a_stencil() -> None:
    s = tl.Schedule(blur())
    yo, _ = s.split("h.y", 4)
    s.cache_read("X", at=yo)
    assert "X_cache: float32[4, 23]" in str(s)
    s.vectorize(s.split("X_cache.d1", 8)[1])
    check(s)


def test_a_packed_window_is_unfolded() -> None:
    x = tl.placeholder((20,), name="X")
    r = tl.reduce_axis(3, name="r")
    s = tl.Schedule(tl.compute((18,), lambda i: tl.sum(x[i + r] * tl.cast(r + 1, "float32"), axis=r), name="Y"))
    io, ii = s.split("i", 8)
    s.reorder(io, "r", ii)
    s.pack("X", at=io)
    assert "X_pack: float32[3, 8]" in str(s)
    s.vectorize(ii)
    check(s)


def test_a_copy_under_a_choice_reads_only_inside() -> None:
    x = tl.placeholder((10,), name="X")
    s = tl.Schedule(tl.compute((12,), lambda i: tl.select((i >= 1) & (i < 11), x[i - 1], -1.0), name="Y"))
    io, ii = s.split("i", 4)
    s.pack("X", at=io)
    s.vectorize(ii)
    check(s)


def test_gathers_and_conditions_survive_vectors() -> None:
    table, at = tl.placeholder((20, 3), name="T"), tl.placeholder((33,), "int64", name="I")
    s = tl.Schedule(tl.compute((33, 3), lambda i, j: tl.select(i % 2 == 0, table[tl.clamp(at[i], 0, 19), j], 0.5), name="Y"))
    s.reorder("j", "i")
    s.vectorize(s.split("i", 8, "mask")[1])
    check(s)


def test_implicit_reductions_follow_their_stage_into_vectors() -> None:
    x = tl.placeholder((9, 14), name="X")
    k, r = tl.reduce_axis(14, name="k"), tl.reduce_axis(14, name="r")
    y = tl.compute((9,), lambda i: tl.sqrt(tl.sum(x[i, k] * x[i, k], axis=k)) - tl.max(x[i, r], axis=r), name="Y")
    s = tl.Schedule(y)
    s.vectorize(s.split("i", 4)[1])
    check(s)


def test_a_triangular_sum_may_be_split_and_vectorised() -> None:
    a = tl.placeholder((19, 19), name="A")
    k = tl.reduce_axis(19, name="k")
    y = tl.compute((19,), lambda i: tl.sum(a[i, k], axis=k, where=k <= i), name="Y")
    for loop in ("i", "k"):
        s = tl.Schedule(y)
        s.vectorize(s.split(loop, 8)[1])
        check(s)


def test_threads_and_lanes_do_not_change_a_bit_of_a_pointwise_result() -> None:
    program = scale(37, 41)
    s = tl.Schedule(program)
    s.vectorize(s.split("j", 16)[1])
    s.parallel("i")
    plain, x = tl.build(tl.Schedule(program)), np.random.default_rng(0).random((37, 41), "f4")
    np.testing.assert_array_equal(tl.build(s)(x), plain(x))


def test_positions_of_a_tile_may_share_an_index_that_is_no_element() -> None:
    """A copy of the tile neither loads nor stores there, so that it holds no element twice."""
    h, v = tl.placeholder((4,), "int32", name="H"), tl.placeholder((8,), "int32", name="V")
    p = tl.reduce_axis(8, name="p")

    def place(p: Any) -> Any:
        return tl.select(p < 3, p, 9)

    s = tl.Schedule(tl.scatter(h, p, place, lambda p: v[p], where=lambda p: place(p) < 4, name="S"))
    outer, lanes = s.split("S.p", 8)
    s.vectorize(lanes)
    s.accumulate("S", at=outer)
    check(s)


def test_a_name_that_llvm_would_not_read_is_refused() -> None:
    s = tl.Schedule(scale(8, 8))
    for step in (("split", "Y.i", 4, "guard", ("x" * 801, "y")), ("fuse", "Y.i", "Y.j", "x" * 801)):
        refused(s, "TL-S005", "is too long for the name of a loop; give one of at most 800 characters", *step)
    s.split("Y.i", 4, names=("x" * 800, "y"))
    check(s)
