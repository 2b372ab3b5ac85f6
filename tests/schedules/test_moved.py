"""What a stage takes along when it moves, and what may change places: values never change, and no axis or storage is left behind."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tensorlang.ir import Axis, Const, FuseRelation
from tensorlang.ir.relations import closure, relation_names
from tensorlang.schedules.rewriting.copies import pruned
from tensorlang.schedules.rewriting.edit import loops, stores
from tests.schedules.programs import blur, check, matmul, refused, scale


def doubled(n: Any = 9, m: Any = 7) -> Tensor:
    """2 (X + 1), in two stages."""
    x = tl.placeholder((n, m), name="X")
    h = tl.compute((n, m), lambda i, j: x[i, j] + 1, name="h")
    result: Tensor = tl.compute((n, m), lambda i, j: h[i, j] * 2, name="C")
    return result


def kind_of(s: tl.Schedule, loop: str) -> str:
    """How a loop runs."""
    return next(part.kind for part in loops(s.nest.body) if part.loop == loop)


# Moving


@pytest.mark.parametrize("m", [1, 7, 16])
def test_a_copy_over_a_fused_loop_is_written_into_its_uses_over_the_loops_of_these(m: int) -> None:
    """The expression of the copy speaks of axes that follow from its loop, which is gone afterwards."""
    s = tl.Schedule(scale(9, m))
    fused = s.fuse("Y.i", "Y.j")
    s.split(fused, 4)
    s.pack("X", at="Y.i_j_o")
    s.compute_inline("X_pack")
    check(s)
    assert all(name.startswith("Y.") for relation in s.nest.relations for name in relation_names(relation))


def test_a_shifted_stage_is_written_into_its_uses() -> None:
    s = tl.Schedule(doubled())
    s.shift("h.j", 3)
    s.compute_inline("h")
    check(s)


def test_a_copy_moves_to_an_inner_loop_and_back() -> None:
    """At the inner loop it covers a box of one element, and still depends on the outer loop."""
    s = tl.Schedule(matmul())
    s.pack("A", at="C.i")
    before = str(s)
    s.compute_at("A_pack", "C.k")
    check(s)
    s.compute_at("A_pack", "C.i")
    check(s)
    assert str(s) == before


@pytest.mark.parametrize("factor", [1, 2])
def test_a_stage_that_leaves_a_skewed_tail_is_as_large_as_before(factor: int) -> None:
    s = tl.Schedule(doubled())
    s.split("C.j", 4, tail="guard")
    s.skew("C.j_i", by="C.j_o", factor=factor)
    s.compute_at("h", "C.j_i_s")
    s.compute_root("h")
    (h,) = (store.buffers[0] for store in stores(s.nest.body) if store.stage == "h")
    assert [extent.value for extent in h.shape if isinstance(extent, Const)] == [9, 7]
    check(s)


def test_a_copy_that_covers_a_box_and_depends_on_a_loop_moves_in_front_of_both() -> None:
    s = tl.Schedule(matmul())
    s.pack("A", at="C.i")
    s.compute_at("A_pack", "C.k")
    s.compute_root("A_pack")
    check(s)


def test_storage_that_a_moved_stage_reads_is_declared_at_its_new_place() -> None:
    """S moves out of the nest in which its own copy of X lives."""
    s = tl.Schedule(scale(5, 6))
    s.cache_read("X", at="Y.i")
    s.cache_write("Y", at="Y.i")
    s.compute_at("X_cache", "Y.j")
    s.compute_root("Y")
    s.compute_root("X_cache")
    s.compute_at("Y", "Y_cache.store.j")
    check(s)


def test_a_reduction_whose_initialisation_shares_its_loop_moves_whole() -> None:
    c = matmul()
    s = tl.Schedule(tl.compute((7, 11), lambda i, j: c[i, j] * 2, name="D"))
    s.compute_at("C", "D.i")
    s.decompose_reduction("C.k")
    check(s)
    s.compute_root("C")
    check(s)


def test_relations_that_only_a_prefetch_uses_stay() -> None:
    s = tl.Schedule(matmul(m=3, n=4, k=40))
    s.prefetch("B", "C.j")
    s.shift("B.prefetch.d0", 7)
    assert pruned(s.nest) == s.nest
    s.decompose_reduction("C.k")
    check(s)


def test_loops_that_followed_a_moved_stage_go_their_own_way() -> None:
    """They stand around it now: lanes of both would stand inside one another."""
    s = tl.Schedule(scale(5, 6))
    s.cache_write("Y", at="Y.i")
    s.compute_at("Y", "Y_cache.store.j")
    s.vectorize("Y.j")
    assert (kind_of(s, "Y.j"), kind_of(s, "Y_cache.store.j")) == ("vector", "serial")
    check(s)


def test_lanes_ask_the_loops_that_follow_too() -> None:
    """The loop of the copy back stands inside lanes already, the loop that it follows does not."""
    s = tl.Schedule(scale(5, 6))
    s.cache_write("Y", at="Y.i")
    s.compute_root("Y")
    s.vectorize("Y.i")
    refused(s, "TL-S107", "inside the vector loop 'i'", "vectorize", "Y.j")
    check(s)


def test_the_axes_of_a_fuse_depend_on_where_their_ranges_begin() -> None:
    """`outer = outer_lo + fused // extent` changes with `outer_lo`."""
    nest = tl.Schedule(scale()).nest
    relation = FuseRelation("f", "o", "i", Axis("a"), Axis("b"), Const(4))
    nest = type(nest)(nest.name, nest.inputs, nest.outputs, nest.dims, nest.body, (relation,))
    assert closure(nest, ("o",)) == {"o", "f", "a"}
    assert closure(nest, ("i",)) == {"i", "f", "b"}


# Changing places


def test_iterations_that_combine_through_a_copy_change_places() -> None:
    """Load, combine and store of a tile are one combination."""
    s = tl.Schedule(total())
    s.cache_write("S", at="S.k")
    s.reorder("S.k", "S.j")
    check(s, rtol=1e-4)


def test_the_iteration_that_starts_a_copy_stays_first() -> None:
    """Where the tile starts from the identity, what was combined before would be lost."""
    s = tl.Schedule(total())
    s.split("S.j", 3)
    s.accumulate("S", at="S.k")
    s.reorder("S.k", "S.j_i", "S.j_o")  # the first iteration is the first in every order of rising loops
    check(s, rtol=1e-4)


def total(n: int = 5, m: int = 8) -> Tensor:
    """The sum of each plane of X."""
    x = tl.placeholder((3, n, m), name="X")
    j, k = tl.reduce_axis(n, name="j"), tl.reduce_axis(m, name="k")
    result: Tensor = tl.compute((3,), lambda i: tl.sum(x[i, j, k], axis=(j, k)), name="S")
    return result


def test_parts_of_a_fused_loop_of_run_time_extents_are_apart() -> None:
    """The pairs (i, j) come in the order of the fused loop, whatever the extents."""
    n, m = tl.dim("n"), tl.dim("m")
    s = tl.Schedule(scale(n, m))
    s.split(s.fuse("Y.i", "Y.j"), 8)
    s.vectorize("Y.i_j_i")
    s.parallel("Y.i_j_o")
    for dims in ({"n": 3, "m": 5}, {"n": 0, "m": 4}, {"n": 1, "m": 1}):
        check(s, dims=dims)


def test_what_a_version_is_for_counts_in_a_proof() -> None:
    """In the version for n == 1 the loop over n has one iteration, so nothing races."""
    n = tl.dim("n")
    x = tl.placeholder((n,), name="X")
    k = tl.reduce_axis(n, name="k")
    s = tl.Schedule(tl.compute((), lambda: tl.sum(x[k], axis=k), name="S"))
    refused(s, "TL-S101", "would race", "parallel", "S.k")
    s.specialize("n <= 1")
    s.parallel("S.k")
    for size in (0, 1, 6):
        check(s, dims={"n": size})


def test_a_loop_of_which_tails_let_one_lane_run_takes_no_lanes() -> None:
    x = tl.placeholder((2,), name="X")
    s = tl.Schedule(tl.compute((2,), lambda i: x[i] + 1, name="Y"))
    s.split("Y.i", 7, tail="shift")
    s.split("Y.i_o", 7, tail="mask")
    refused(s, "TL-S201", "at most one lane of 'i_o_i' run", "vectorize", "Y.i_o_i")
    s.unroll("Y.i_o_i")
    check(s)


def test_a_box_at_a_remainder_needs_no_clamp() -> None:
    """The base of the region of A[(i + 1) % 33] is nowhere negative."""
    x = tl.placeholder((33,), name="X")
    s = tl.Schedule(tl.compute((40,), lambda i: x[(i + 1) % 33] * 2, name="Y"))
    s.cache_read("X", at="Y.i")
    assert "maximum" not in str(s)
    check(s)
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    check(s)


def test_storage_whose_size_depends_on_a_loop_that_its_stage_leaves_is_of_the_most() -> None:
    for out in (("compute_at", "Y.1", "Y.j_s_o"), ("compute_root", "Y.1")):
        x = tl.placeholder((5, 7), name="X")
        k = tl.reduce_axis(5, name="k")
        s = tl.Schedule(tl.compute((5, 7), lambda i, j, x=x, k=k: x[i, j] + tl.max(x[k, j], axis=k), name="Y"))
        s.skew("Y.j", by="Y.i", factor=-1)
        s.reorder("Y.j_s", "Y.i")
        s.compute_at("Y.1", "Y.j_s")
        s.split("Y.j_s", 3, tail="guard")
        getattr(s, out[0])(*out[1:])
        check(s)


def test_a_stage_leaves_loops_that_were_skewed_by_one_another() -> None:
    x = tl.placeholder((6, 6), name="X")
    k = tl.reduce_axis(6, name="k")
    s = tl.Schedule(tl.compute((6, 6), lambda i, j: x[i, j] + tl.max(x[i, k] * x[k, j], axis=k), name="Y"))
    s.skew("Y.j", by="Y.i", factor=-1)
    s.reorder("Y.j_s", "Y.i")
    s.skew("Y.i", by="Y.j_s", factor=2)
    s.reorder("Y.i_s", "Y.j_s")
    s.compute_at("Y.1", "Y.i_s")
    check(s)
    s.compute_root("Y.1")
    check(s)


def test_a_stage_leaves_a_wavefront_over_an_extent_of_run_time() -> None:
    """Each end of the inner loop is the lesser of two, of which one is that of the outer loop, whose axis the skewed one follows."""
    n = tl.dim("n")
    x = tl.placeholder((n, 6), name="X")
    w = tl.placeholder((6, 4), name="W")
    k = tl.reduce_axis(4, name="k")
    s = tl.Schedule(tl.compute((n, 6), lambda p, q: x[p, q] * tl.max(w[q, k], axis=k), name="Y"))
    s.skew("Y.q", by="Y.p", factor=1)
    s.reorder("Y.q_s", "Y.p")
    s.compute_root("Y.1")
    for size in (0, 1, 9):
        check(s, dims={"n": size})


@pytest.mark.parametrize("tail", ["guard", "peel", "mask", "shift"])
def test_a_copy_that_moves_out_of_tiles_reaches_no_further_than_what_it_copies(tail: str) -> None:
    """The end of the tile speaks of an axis that a split before it derives, and has an end of its own."""
    x = tl.placeholder((3,), name="X")
    s = tl.Schedule(tl.compute((1,), lambda i: x[i + 2] * 2 - x[i + 1], name="Y"))
    s.cache_read("X", at="Y.i")
    s.split("Y.i", 3, tail="peel")
    s.store_at("X_cache", "Y.i_o")
    s.cache_read("X", at="Y.i_o")
    s.compute_at("X_cache_1", "X_cache.d0")
    s.split("X_cache.d0", 3, tail=tail)
    s.compute_at("X_cache_1", "X_cache.d0_o")
    s.compute_at("X_cache_1", "Y.i_i")
    (loop,) = (part for part in loops(s.nest.body) if part.loop == "X_cache_1.d0")
    assert loop.hi == Const(3, loop.hi.dtype)
    check(s)


def test_loops_of_what_is_computed_whole_change_places_though_nobody_may_read_it() -> None:
    """What asks whether its reader has an iteration stands around its loops, and nowhere where the reader always has one."""
    for n, asks in ((tl.dim("n"), True), (tl.dim("n", 2, 6), False)):
        x = tl.placeholder((n,), name="X")
        k = tl.reduce_axis(4, name="k")
        s = tl.Schedule(
            tl.compute((n, 7), lambda p, q, x=x, k=k: tl.prod(x[0] + tl.cast(k * q, "float32"), axis=k) * tl.cast(p, "float32"), name="Y")
        )
        s.compute_root("Y.1")
        assert ("if n > 0" in str(s)) == asks
        s.reorder("Y.1.k", "Y.1.q")
        for size in (0, 3) if asks else (2, 6):
            check(s, dims={"n": size})
