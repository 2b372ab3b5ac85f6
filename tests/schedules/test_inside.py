"""A schedule touches nothing that the definition does not: what a condition protects stays protected, and every element is written.

The operands hold indices far outside, so an access that left its condition ends up in the words beside the result, or nowhere at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition import tensor as tensors
from tensorlang.ir.verify import verify
from tensorlang.semantics.nest_interpreter import run_nest
from tests.thinned import crossed, few

WILD = np.array([0, 1, 2, 3, 1 << 40, 0, 1, -1, -(1 << 40), 2, 4, 4], "int64")
VALUES = np.arange(1, 13, dtype="int32")


def scattered(reduce: str = "add", index: Any = None, where: Any = None) -> tl.Tensor:
    """H[I[p]] combined with V[p], where I[p] is inside."""
    v, i = tl.placeholder((12,), "int32", name="V"), tl.placeholder((12,), "int64", name="I")
    start = tl.compute((5,), lambda x: tl.cast(x, "int32"), name="Z")
    p = tl.reduce_axis(12, name="p")
    index = index or (lambda p: i[p])
    where = where or (lambda p: (i[p] >= 0) & (i[p] < 5))
    return tl.scatter(start, p, index, lambda p: v[p], reduce, where=where, name="H")


def offset(reduce: str = "add") -> tl.Tensor:
    """H[p - 3] combined with V[p], for 3 <= p < 8: no data decide, and most p are outside."""
    return scattered(reduce, lambda p: p - 3, lambda p: (p >= 3) & (p < 8))


def right(s: tl.Schedule, *given: Any, **dims: int) -> None:
    """The nest, statement by statement, and the kernel give what the definition means, and touch nothing beside the result."""
    verify(s.nest)
    (output,) = s.outputs
    want = tl.evaluate(output, dict(zip(operands(s), given, strict=True)), **dims)
    memory = np.full(want.size + 64, 77, want.dtype)
    place = memory[32 : 32 + want.size].reshape(want.shape)
    run_nest(s.nest, {**{buffer.name: array for buffer, array in zip(s.nest.inputs, given, strict=True)}, str(output.name): place}, dims)
    np.testing.assert_array_equal(place, want)
    memory[:] = 77
    tl.build(s)(*given, out=place, **dims)
    np.testing.assert_array_equal(place, want)
    assert (memory[:32] == 77).all()
    assert (memory[32 + want.size :] == 77).all()


def operands(s: tl.Schedule) -> list[tl.Tensor]:
    """The placeholders of a schedule, in the order of its arguments."""
    found = {tensor.name: tensor for definition in tensors.definitions(s.outputs) for tensor in tensors.operands(definition)}
    return [found[buffer.name] for buffer in s.nest.inputs]


@pytest.mark.parametrize("reduce", ["add", "min", "max"])
@pytest.mark.parametrize("program", [scattered, offset])
def test_a_tile_of_a_scatter_is_loaded_and_stored_only_where_it_is_inside(program: Any, reduce: str) -> None:
    inputs = (VALUES, WILD) if program is scattered else (VALUES,)
    whole = tl.Schedule(program(reduce))
    whole.accumulate("H", at="H.p")
    right(whole, *inputs)
    if program is offset:
        tiled = tl.Schedule(program(reduce))
        tiled.accumulate("H", at=tiled.split("H.p", 4)[0])
        right(tiled, *inputs)


@pytest.mark.parametrize("partial", [False, True])
def test_a_tile_to_which_nothing_is_added_is_not_fetched(partial: bool) -> None:
    """The condition of a scatter that is the same for all that a tile sums up is tested before it is loaded, and before it goes back."""
    v, i = tl.placeholder((12, 5), "int32", name="V"), tl.placeholder((12,), "int64", name="I")
    start = tl.compute((4,), lambda x: tl.cast(x, "int32"), name="Z")
    axes = tl.reduce_axis(12, name="p"), tl.reduce_axis(5, name="q")

    def where(p: Any, q: Any) -> Any:
        return (i[p] >= 0) & (i[p] < 4) & (p % 3 == 1) & (v[p, q] > 2)

    s = tl.Schedule(tl.scatter(start, axes, lambda p, q: i[p], lambda p, q: v[p, q], where=where, name="H"))
    s.accumulate("H", at="H.p", partial=partial)
    ends = ["H_acc.add"] if partial else ["H_acc.load", "H_acc.store"]
    lines = str(s).splitlines()
    for end in ends:
        (place,) = [place for place, line in enumerate(lines) if line.endswith(f"# {end}")]
        assert "(p % 3 == 1)" in lines[place - 1] and "V[" not in lines[place - 1]
    right(s, np.arange(60, dtype="int32").reshape(12, 5) % 7, WILD)


@pytest.mark.parametrize("reduce", ["add", "min", "max"])
@pytest.mark.parametrize("program", [scattered, offset])
def test_partial_results_of_a_scatter_are_whole_tensors(program: Any, reduce: str) -> None:
    inputs = (VALUES, WILD) if program is scattered else (VALUES,)
    for which in (0, 1):
        s = tl.Schedule(program(reduce))
        s.rfactor(s.split("H.p", 5)[which])
        right(s, *inputs)


def test_a_histogram_runs_in_parallel_over_partial_results() -> None:
    s = tl.Schedule(scattered())
    outer, _ = s.split("H.p", 4)
    assert not s.can("parallel", outer)
    s.rfactor(outer)
    s.parallel("H_rf.p_o")
    s.parallel("H.d0")
    right(s, VALUES, WILD)


@pytest.mark.parametrize("reduce", few(["add", "min", "max"], 1))
def test_lanes_are_combined_only_where_one_of_them_ran(reduce: str) -> None:
    a, j = tl.placeholder((12, 40), "int32", name="A"), tl.placeholder((12,), "int64", name="J")
    p, q = tl.reduce_axis(12, name="p"), tl.reduce_axis(40, name="q")
    start = tl.compute((5,), lambda x: tl.cast(x, "int32"), name="Z")
    given = np.arange(480, dtype="int32").reshape(12, 40) % 31, WILD
    inside = lambda p: (j[p] >= 0) & (j[p] < 5)  # noqa: E731
    for where in (lambda p, q: inside(p), lambda p, q: inside(p) & (a[p, q] > 9), lambda p, q: inside(p) & (q > 50)):
        h = tl.scatter(start, (p, q), lambda p, q: j[p], lambda p, q: a[p, q], reduce, where=where, name="H")
        right(tl.Schedule(h), *given)
        np.testing.assert_array_equal(tl.build(h)(*given), tl.evaluate(h, {a: given[0], j: given[1]}))
        for factor in (1, 3, 16):
            s = tl.Schedule(h)
            s.vectorize(s.split("H.q", factor)[1])
            right(s, *given)


def test_a_copy_does_not_read_an_index_that_a_select_protects() -> None:
    m = tl.dim("m")
    a, i = tl.placeholder((10,), "int32", name="A"), tl.placeholder((16,), "int32", name="I")
    c = tl.compute((16,), lambda x: tl.select(x >= m, a[tl.clamp(i[x - m], 0, 9)], -2), name="C")
    s = tl.Schedule(c)
    s.split("C.x", 4)
    with pytest.raises(tl.ScheduleError, match="exists only under a condition that the copy would leave") as caught:
        s.pack("A", at="C.x_o")
    assert caught.value.code == "TL-S302"
    s.cache_read("A", at="C.x_o")
    right(s, np.arange(10, dtype="int32"), np.zeros(16, "int32"), m=1 << 34)


def test_a_consumer_is_not_moved_where_elements_would_be_left_out() -> None:
    v = tl.placeholder((5,), "int32", name="V")
    start = tl.compute((10,), lambda x: tl.cast(x, "int32") * 100, name="Z")
    p = tl.reduce_axis(5, name="p")
    h = tl.scatter(start, p, lambda p: p, lambda p: v[p], name="H")
    s = tl.Schedule(tl.compute((10,), lambda x: h[x] + 1, name="E"))
    with pytest.raises(tl.ScheduleError, match=r"'E' has elements that no iteration of 'p' completes \(x = \d\)"):
        s.reverse_compute_at("E", "H.p")
    right(s, VALUES[:5])


def test_a_consumer_moves_to_a_scatter_that_reaches_all_of_it_and_stays_inside() -> None:
    v = tl.placeholder((9,), "int32", name="V")
    start = tl.compute((5,), lambda x: tl.cast(x, "int32") * 100, name="Z")
    p = tl.reduce_axis(9, name="p")
    h = tl.scatter(start, p, lambda p: p - 3, lambda p: v[p], where=lambda p: (p >= 3) & (p < 8), name="H")
    s = tl.Schedule(tl.compute((5,), lambda x: h[x] + 1, name="E"))
    s.reverse_compute_at("E", "H.p")
    right(s, VALUES[:9])


def test_an_element_tells_the_loops_that_it_is_made_of_and_no_others() -> None:
    v = tl.placeholder((4, 5), "int32", name="V")
    start = tl.compute((5,), lambda x: tl.cast(0, "int32"), name="Z")
    p, q = tl.reduce_axis(4, name="p"), tl.reduce_axis(5, name="q")

    def program(axis: int) -> tl.Schedule:
        return tl.Schedule(tl.scatter(start, (p, q), lambda p, q: (p, q)[axis], lambda p, q: v[p, q], "set", name="H"))

    s = program(0)
    outer, inner = s.split(s.fuse("H.p", "H.q"), 3)
    assert s.can("reorder", inner, outer).error.code == "TL-S103"
    s = program(1)
    s.skew("H.q", by="H.p", factor=-1)
    assert s.can("reorder", "H.q_s", "H.p").error.code == "TL-S103"


def test_the_last_state_of_a_scan_is_that_of_the_last_step() -> None:
    a, x = tl.placeholder((6,), "int32", name="A"), tl.placeholder((5, 6), "int32", name="X")
    w = tl.scan(lambda t, state: tl.compute((6,), lambda i: x[t, i], name="step"), a, 5, keep="last", name="W")
    s = tl.Schedule(w, inputs=(a, x))
    s.skew("step.i", by="W.t", factor=-1)
    error = s.can("reorder", "step.i_s", "W.t").error
    assert error.code == "TL-S103"
    assert error.counterexample is not None
    assert error.counterexample["first"]["at"] != error.counterexample["second"]["at"]


def test_a_producer_that_slid_is_whole_again_when_it_moves() -> None:
    a, b = tl.placeholder((5,), "int32", name="A"), tl.placeholder((5, 7), "int32", name="B")
    k = tl.reduce_axis(5, name="k")
    producer = tl.compute((5,), lambda y: a[y] + 2, name="P")
    s = tl.Schedule(tl.compute((3, 7), lambda i, j: tl.sum(producer[k] * b[k, j], axis=k), name="C"))
    s.compute_at("P", "C.j")
    s.store_at("P", "C.i")
    s.compute_at("P", "C.k")
    right(s, np.arange(5, dtype="int32"), np.arange(35, dtype="int32").reshape(5, 7))


@pytest.mark.parametrize("factor", [-2, -1, 1, 2])
@pytest.mark.parametrize("how", ["skew", "shift"])
def test_storage_of_a_copy_whose_loops_start_elsewhere_holds_all_of_it_or_is_refused(how: str, factor: int) -> None:
    a = tl.placeholder((5, 4), "int32", name="A")
    s = tl.Schedule(tl.compute((5, 4), lambda i, j: a[i, j] * 2, name="C"))
    if how == "skew":
        s.skew("C.j", by="C.i", factor=factor)
    else:
        s.shift("C.j", factor)
    outer, inner = s.split("C.i", 2)
    s.pack("A", at=inner)
    verdict = s.can("store_at", "A_pack", outer)
    assert bool(verdict) == (factor > 0)
    if verdict:
        s.store_at("A_pack", outer)
    right(s, np.arange(20, dtype="int32").reshape(5, 4))


def test_what_no_iteration_has_computed_is_not_copied_back() -> None:
    v = tl.placeholder((4, 10), "int32", name="V")
    start = tl.compute((4,), lambda x: tl.cast(0, "int32"), name="Z")
    p, q = tl.reduce_axis(4, name="p"), tl.reduce_axis(10, name="q")
    s = tl.Schedule(tl.scatter(start, (q, p), lambda q, p: p, lambda q, p: v[p, q], "set", name="H"))
    s.split("H.q", 4)
    outer, _ = s.split("H.q_i", 3)  # 4 q_o + 3 q_i_o may pass the end already
    assert "may leave an element of 'H' uncomputed" in str(s.can("cache_write", "H", at=outer).error)
    s.cache_write("H", at="H.q_o")
    right(s, np.arange(40, dtype="int32").reshape(4, 10))


@pytest.mark.parametrize("reduce", ["add", "min", "max"])
def test_partial_results_that_a_scatter_leaves_alone_are_still_initialised(reduce: str) -> None:
    for split in (True, False):
        s = tl.Schedule(scattered(reduce))
        loop = s.split("H.p", 5)[1] if split else "H.p"
        s.rfactor(loop)
        s.accumulate("H_rf", at="H_rf.p_o" if split else "H_rf.p")
        right(s, VALUES, WILD)


def test_a_consumer_is_not_written_into_a_copy_that_leaves_elements_out() -> None:
    a = tl.placeholder((4, 6), "int32", name="A")
    s = tl.Schedule(tl.compute((5,), lambda i: tl.select(i - 1 >= 0, a[i - 1, i], 7), name="V"))
    s.pack("A", at="V.i")
    s.fission("V.i")
    error = s.can("reverse_compute_inline", "V").error
    assert error.code == "TL-S303"
    assert "(i = 0)" in str(error)
    right(s, np.arange(24, dtype="int32").reshape(4, 6))


@crossed({"tail": ["guard", "mask", "peel"], "reduce": ["add", "max", "set"]})
def test_lanes_that_a_tail_leaves_one_of_may_mean_one_element(reduce: str, tail: str) -> None:
    for extent in (3, 5, 9):
        a = tl.placeholder((extent,), "int32", name="A")
        start = tl.compute((extent,), lambda x: tl.cast(1, "int32"), name="Z")
        p = tl.reduce_axis(extent, name="p")
        s = tl.Schedule(tl.scatter(start, p, lambda p, n=extent: tl.clamp(p, 0, n - 1), lambda p, a=a: a[p], reduce, name="H"))
        for factor in (2, 4, 8):
            tried = s.copy()
            _, inner = tried.split("H.p", factor, tail=tail)
            if tried.can("vectorize", inner):
                tried.vectorize(inner)
                right(tried, np.arange(extent, dtype="int32")[::-1].copy())


@pytest.mark.parametrize("extent", [0, 1, 3])
def test_a_tile_that_is_stored_after_it_is_read_is_refused_though_the_reduction_be_empty(extent: int) -> None:
    a = tl.placeholder((extent, 3), "int32", name="A")
    k = tl.reduce_axis(extent, name="k")
    s = tl.Schedule(tl.compute((3,), lambda x: tl.sum(a[k, x], axis=k) * 2, name="S"))
    s.fission("S.x")
    s.fuse_loops("S.1.x", "S.x")
    assert s.can("accumulate", "S.1", at="S.x").error.code == "TL-S302"
    right(s, np.arange(3 * extent, dtype="int32").reshape(extent, 3))


def test_a_copy_of_what_threads_write_touches_no_more_than_they_may() -> None:
    def body(i, j, H, E):
        k = tl.reduce_axis(2, name="k")
        return tl.max(E[i - 2, k], axis=k), tl.cast(j, "float32")

    _, E = tl.recurrence((2, 2), body, outside=1, dtype=("float32", "float32"), name="S")
    s = tl.Schedule(E)
    s.split("S.1.k", 2)
    s.parallel("S.j")
    assert s.can("cache_read", "S_1", at="S.1.k_o").error.code == "TL-S101"
