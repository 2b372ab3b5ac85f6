"""`peel` runs the first and last iterations in copies of the body, each iteration once, however few there are."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tests.schedules.programs import blur, check, code_and_reason, matmul, scale
from tests.schedules.recurrences import seidel
from tests.thinned import crossed


def test_the_copies_stand_before_and_after_the_loop() -> None:
    s = tl.Schedule(scale(3, 7))
    s.peel("j", first=1, last=2)
    expected = """\
Y(X: float32[3, 7]) -> Y: float32[3, 7]
    for i in range(3):
        for j_first in range(1):
            Y[i, j_first] = X[i, j_first] * 3.0 + 1.0        # Y
        for j in range(1, 5):
            Y[i, j] = X[i, j] * 3.0 + 1.0                    # Y
        for j_last in range(5, 7):
            Y[i, j_last] = X[i, j_last] * 3.0 + 1.0          # Y"""
    assert str(s) == expected
    check(s)


@crossed({"extent": [0, 1, 2, 7], "first, last": [(1, 0), (0, 1), (1, 1), (3, 2), (20, 20)]})
def test_every_iteration_runs_once(extent: int, first: int, last: int) -> None:
    s = tl.Schedule(matmul(3, 4, extent))
    s.peel("k", first=first, last=last)
    check(s)
    s = tl.Schedule(matmul(3, 4, tl.dim("n")))
    s.peel("k", first=first, last=last)
    check(s, dims={"n": extent})


@pytest.mark.parametrize("tail", ["guard", "peel", "mask"])
def test_tiles_are_peeled_with_their_tails(tail: Any) -> None:
    for extent in (1, 5, 8, 9):
        s = tl.Schedule(matmul(3, 4, extent))
        s.split("k", 3, tail=tail)
        s.peel("k_o", last=1)
        s.vectorize("k_i")
        check(s)
        s = tl.Schedule(matmul(3, extent, 4))
        s.vectorize(s.split("j", 4, tail=tail)[1])
        s.peel("j_o", first=1)
        s.parallel("j_o")
        check(s)


def test_copies_have_loops_and_storage_of_their_own() -> None:
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    s.peel("v.y", first=1, last=1)
    s.peel("v.y", first=1)
    assert s.loops("h")[0] == "h.y_first"
    s.vectorize(s.split("v.x_first", 4)[1])
    s.unroll("h.y_last")
    check(s)


def test_a_recurrence_keeps_its_order() -> None:
    s = tl.Schedule(seidel(5, 6))
    s.peel("t", first=1)
    s.peel("j", last=2)
    check(s)


def test_an_accumulated_tile_of_a_peeled_reduction_starts_from_the_tensor() -> None:
    s = tl.Schedule(matmul(4, 6, 9))
    s.split("k", 2)
    s.peel("k_o", last=1)
    s.accumulate("C", at="k_o")
    s.accumulate("C", at="k_o_last")
    check(s)
    s = tl.Schedule(matmul(4, 6, 9))
    s.peel("i", first=1)
    s.accumulate("C", at="i")
    check(s)


def test_misuse_is_refused() -> None:
    s = tl.Schedule(scale())
    assert code_and_reason(s, "peel", "j") == ("TL-S005", "peel needs first= or last= above 0")
    assert code_and_reason(s, "peel", "j", first=-1) == ("TL-S005", "first= of peel must be in 0..1048576, not -1")
    assert code_and_reason(s, "peel", "j", last=1.5) == ("TL-S005", "last= of peel must be an int, not 1.5")
    s.parallel("i")
    assert code_and_reason(s, "peel", "i", first=1) == ("TL-S107", "the loop is already parallel; peel it before")


def test_too_much_code_is_refused() -> None:
    s = tl.Schedule(scale(96, 64))
    s.unroll("i")
    for _ in range(5):
        s.peel("j", first=1)
    s.unroll("j")
    assert code_and_reason(s, "peel", "j_first", first=1)[0] == "TL-S202"


def test_copies_of_a_producer_do_not_move_alone() -> None:
    s = tl.Schedule(blur())
    s.peel("h.y", first=1)
    for step in (("compute_at", "h", "v.y"), ("compute_inline", "h")):
        assert code_and_reason(s, *step) == (
            "TL-S301",
            "'h' has several copies, of which none can move alone; move it before peel or specialize",
        )


def test_lanes_across_the_cut_of_a_fused_loop_are_told_apart() -> None:
    """Both parts are pieces of one fused loop of run-time extents: an iteration of the one is none of the other, whatever they are."""
    A = tl.placeholder((tl.dim("n"), tl.dim("m")), "int32", name="A")
    s = tl.Schedule(tl.compute((tl.dim("m"), tl.dim("n")), lambda j, i: A[i, j] + 1, name="B"))
    s.fuse("j", "i")
    s.split("j_i", 5)
    s.reorder("j_i_i", "j_i_o")
    s.peel("j_i_o", first=1)
    s.vectorize("j_i_i")
    check(s, dims={"n": 3, "m": 4})


def test_a_band_has_whole_columns_where_its_ends_are_peeled() -> None:
    """Rows that each begin one element later: between the first and the last columns all of them run, which is a number."""
    s = tl.Schedule(scale(8, 100))
    s.skew("j", "i")
    s.reorder("j_s", "i")
    with pytest.raises(tl.ScheduleError, match="literal number of iterations"):
        s.unroll("i")
    s.peel("j_s", first=7, last=7)
    s.unroll("i")
    assert "unroll i in range(8):" in str(s) and "for i_first in range(j_s_first + 1):" in str(s)
    check(s)
