"""`reverse_compute_at`: a consumer moves into the tile of its producer, where the elements that it reads are complete."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tests.schedules.judged import judge
from tests.schedules.programs import EXTENTS, blur, check, matmul, rectified, refused
from tests.thinned import crossed


def test_an_epilogue_moves_into_the_tile_of_its_producer() -> None:
    s = tl.Schedule(rectified(4, 8, 5))
    io, ii = s.split("C.i", 2)
    s.reorder(io, "C.k", ii, "C.j")
    s.reverse_compute_at("R", io)
    nest = """\
R(A: float32[4, 5], B: float32[5, 8], bias: float32[8]) -> R: float32[4, 8]
    C: float32[4, 8]
    for i in range(4):
        for j in range(8):
            C[i, j] = 0.0                                    # C.init
    for i_o in range(2):                                     # i = 2 i_o + i_i   guard
        for k in range(5):
            for i_i in range(2):
                for j in range(8):
                    C[i, j] += A[i, k] * B[k, j]             # C
        for i_i in range(2):
            for j in range(8):
                R[i, j] = maximum(C[i, j] + bias[j], 0.0)    # R"""
    assert str(s) == nest
    check(s)


@crossed({"tail": ["guard", "mask", "peel"], "shape": [(0, 3, 2), (2, 3, 0), (1, 1, 1), (7, 11, 5), (8, 16, 4)]})
def test_an_epilogue_of_a_register_tile(tail: Any, shape: tuple[int, int, int]) -> None:
    s = tl.Schedule(rectified(*shape))
    io, jo, ii, ji = s.tile("C.i", "C.j", 3, 8, tail)
    s.reorder(io, jo, "C.k", ii, ji)
    s.accumulate("C", at=jo)
    s.reverse_compute_at("R", jo)
    s.vectorize(ji)
    s.unroll(ii)
    s.vectorize("R.j_i")
    s.parallel(io)
    check(s)


def test_an_epilogue_on_run_time_extents_and_the_other_way_round() -> None:
    product = matmul(tl.dim("m"), tl.dim("n"), 5)
    s = tl.Schedule(tl.compute((tl.dim("n"), tl.dim("m")), lambda j, i: product[i, j] * 2, name="T"))
    io, jo, _, _ = s.tile("C.i", "C.j", 3, 4)
    s.reorder(io, jo, "C.k", "C.i_i", "C.j_i")
    s.reverse_compute_at("T", jo)
    for m, n in EXTENTS:
        check(s, dims={"m": m, "n": n})


def test_a_consumer_of_a_part_of_its_producer_is_guarded() -> None:
    x = tl.placeholder((9,), name="X")
    h = tl.compute((9,), lambda i: x[i] * 2, name="h")
    s = tl.Schedule(tl.compute((7,), lambda i: h[i] + 1, name="v"))
    outer, _ = s.split("h.i", 4)
    s.reverse_compute_at("v", outer)
    assert "if i < 7:" in str(s)
    check(s)


def test_an_element_that_is_not_complete_is_refused_with_the_iterations_that_show_it() -> None:
    s = tl.Schedule(rectified())
    s.reorder("C.k", "C.i", "C.j")
    error = refused(
        s, "TL-S103", "is not complete at the end of an iteration of 'i': 'C' still changes it", "reverse_compute_at", "R", "C.i"
    )
    assert error.counterexample is not None
    first, second = error.counterexample["first"], error.counterexample["second"]
    assert (first["stage"], second["stage"]) == ("R", "C")
    assert first["at"]["k"] < second["at"]["k"]


def test_what_is_not_pointwise_does_not_move_into_its_producer() -> None:
    s = tl.Schedule(blur())
    refused(s, "TL-S301", "does not read 'h' element by element", "reverse_compute_at", "v", "h.y")
    s = tl.Schedule(rectified())
    refused(s, "TL-S301", "is not one plain statement", "reverse_compute_at", "C", "R.i")
    refused(s, "TL-S302", "reads nothing that is computed inside 'i'", "reverse_compute_at", "R", "R.i")
    s.split("R.i", 4)
    refused(s, "TL-S301", "the loops of 'R' are already scheduled", "reverse_compute_at", "R", "C.i")


def test_a_consumer_waits_for_the_later_of_two_producers() -> None:
    x = tl.placeholder((6,), name="X")
    f = tl.compute((6,), lambda i: x[i] + 1, name="f")
    g = tl.compute((6,), lambda i: x[i] * 2, name="g")
    s = tl.Schedule(tl.compute((6,), lambda i: f[i] * g[5 - i], name="v"))
    refused(s, "TL-S301", "does not read 'g' element by element", "reverse_compute_at", "v", "g.i")
    error = refused(s, "TL-S103", "'g' still changes it", "reverse_compute_at", "v", "f.i")
    assert error.counterexample is not None


def carried(apart: int) -> tl.Schedule:
    """q[i, j] = w[i, j] + q[i - 1, j + apart] over w = X + 1."""
    x = tl.placeholder((4, 6), "int32", name="X")
    w = tl.compute((4, 6), lambda i, j: x[i, j] + 1, name="w")
    q = tl.recurrence((4, 6), lambda i, j, before: w[i, j] + before[i - 1, j + apart], dtype="int32", name="q")
    return tl.Schedule(q)


@crossed({"tiled": [False, True], "at": ["w.j", "w.i"], "apart": [-1, 0, 1, 2]}, count=8)
def test_a_recurrence_moves_into_an_order_in_which_it_has_made_what_it_reads(tiled: bool, at: str, apart: int) -> None:
    """Found from outside: rows of w inside its columns ran ahead of the row before, at columns to the right."""
    s = carried(apart)
    loops = ["w.j", "w.i"]
    if tiled:
        outer, at_inner = s.split("w.j", 4)
        loops = [outer, "w.i", at_inner]
        at = at_inner if at == "w.j" else at
    s.reorder(*loops)
    if apart > 0:
        error = s.can("reverse_compute_at", "q", at).error
        assert error is not None
        assert error.code == "TL-S103"
        assert "'q' would read q[" in error.reason
    else:
        s.reverse_compute_at("q", at)
    judge(s)


def test_the_order_of_a_recurrence_itself_takes_any_of_it() -> None:
    for at in ("w.i", "w.j"):
        s = carried(2)
        s.reverse_compute_at("q", at)
        judge(s)
