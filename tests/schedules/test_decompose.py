"""`decompose_reduction` starts the tile of a reduction right before one of its loops, unless it would start it twice."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.schedules.schedule import Verdict
from tests.schedules.programs import check, code_and_reason, matmul
from tests.thinned import crossed


def test_the_start_is_computed_for_the_tile_that_the_loops_inside_touch() -> None:
    s = tl.Schedule(matmul())
    s.split("j", 8)
    s.reorder("i", "j_o", "k", "j_i")
    s.decompose_reduction("k")
    expected = """\
C(A: float32[7, 5], B: float32[5, 11]) -> C: float32[7, 11]
    for i in range(7):
        for j_o in range(2):                                 # j = 8 j_o + j_i   guard
            for j_i in range(8):
                C[i, j] = 0.0                                # C.init
            for k in range(5):
                for j_i in range(8):
                    C[i, j] += A[i, k] * B[k, j]             # C"""
    assert str(s) == expected
    s.vectorize("C.init.j_i")
    s.vectorize("C.j_i")
    s.parallel("C.i")
    check(s)


@crossed({"k": [0, 1, 5], "loop": ["i_o", "j_o", "k_o", "i_i"], "tail": ["guard", "peel", "mask"]})
def test_it_works_at_every_loop_and_on_empty_reductions(k: int, loop: str, tail: Any) -> None:
    for shape in ((7, 11, k), (tl.dim("m"), 11, tl.dim("k"))):
        s = tl.Schedule(matmul(*shape))
        s.tile("i", "j", 3, 4, tail=tail)
        s.split("k", 2, tail=tail)
        order = ["i_o", "j_o", "k_o", "i_i", "k_i", "j_i"] if loop != "i_i" else ["i_o", "j_o", "i_i", "k_o", "k_i", "j_i"]
        s.reorder(*order)
        s.decompose_reduction(loop)
        check(s, dims={"m": 7, "k": k})


def test_an_argument_reduction_is_started_whole() -> None:
    x = tl.placeholder((5, 6), name="X")
    k = tl.reduce_axis(6, name="k")
    s = tl.Schedule(tl.compute((5,), lambda i: tl.argmax(x[i, k], axis=k, where=k > i), name="Y"))
    s.decompose_reduction("k")
    check(s)


def test_an_accumulated_tile_makes_the_start_superfluous() -> None:
    s = tl.Schedule(matmul())
    s.decompose_reduction("j")
    s.accumulate("C", at="j")
    assert "C.init" not in s.stages()
    check(s)


def test_a_start_inside_the_reduction_is_refused_with_two_iterations() -> None:
    s = tl.Schedule(matmul())
    s.reorder("k", "i", "j")
    before = str(s)
    with pytest.raises(tl.ScheduleError) as refused:
        s.decompose_reduction("i")
    e = refused.value
    assert (e.code, e.reason) == ("TL-S103", "two iterations around 'i' combine into C[0, 0], and the second would start it again")
    assert e.counterexample is not None
    assert e.counterexample["first"]["at"]["k"] < e.counterexample["second"]["at"]["k"]
    assert str(s) == before
    s.decompose_reduction("k")
    check(s)


def code(verdict: Verdict) -> str:
    return verdict.error.code if verdict.error is not None else ""


def test_a_fused_loop_that_repeats_elements_is_seen_through() -> None:
    s = tl.Schedule(matmul())
    s.reorder("i", "k", "j")
    s.fuse("i", "k")
    assert code(s.can("decompose_reduction", "j")) == "TL-S103"
    assert code(s.can("decompose_reduction", "i_k")) == "TL-S104"


def test_a_tile_that_moves_with_the_reduction_is_refused() -> None:
    s = tl.Schedule(matmul())
    s.reorder("j", "k", "i")
    s.skew("i", by="k")
    e = s.can("decompose_reduction", "k").error
    assert e is not None
    assert e.reason == "the loops inside 'k' that move the element also run over the reduction, so the tile has no fixed shape"
    s.reorder("i_s", "k")
    assert code(s.can("decompose_reduction", "i_s")) == "TL-S104"
    s = tl.Schedule(matmul())
    s.reorder("j", "k", "i")
    s.skew("k", by="j")
    s.reorder("k_s", "j")
    e = s.can("decompose_reduction", "k_s").error
    assert e is not None
    assert e.reason == "the bounds of 'j' depend on the reduction loop 'k_s', so the tile has no fixed shape"


def test_what_is_no_single_reduction_is_refused() -> None:
    s = tl.Schedule(matmul())
    with pytest.raises(tl.ScheduleError, match="holds no reduction; name a loop around one") as refused:
        s.decompose_reduction("C.init.i")
    assert refused.value.code == "TL-S304"
    s.peel("k", first=1)
    with pytest.raises(tl.ScheduleError, match="several copies") as refused:
        s.decompose_reduction("k")
    assert refused.value.code == "TL-S301"


def test_a_start_that_stands_inside_the_loop_already_stays_there() -> None:
    x = tl.placeholder((5, 6), name="X")
    k = tl.reduce_axis(6, name="k")
    s = tl.Schedule(tl.compute((5, 4), lambda i, j: tl.sum(x[i, k], axis=k) + tl.cast(j, "float32"), name="Y"))
    s.store_at("Y.1", "Y.i")
    e = s.can("decompose_reduction", "Y.j").error
    assert e is not None
    assert (e.code, e.reason) == ("TL-S301", "'j' holds the initialisation already, in each iteration")
    s.decompose_reduction("Y.1.k")
    check(s)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_an_outer_reduction_loop_that_may_be_empty_is_refused(k: int) -> None:
    s = tl.Schedule(matmul(4, 6, k))
    s.split("k", 8)
    s.reorder("k_o", "i", "j", "k_i")
    verdict = s.can("decompose_reduction", "i")
    assert code(verdict) == ("TL-S301" if k == 0 else "")
    if verdict:
        s.decompose_reduction("i")
    check(s)
    s = tl.Schedule(matmul(4, 6, tl.dim("k")))
    s.split("k", 8)
    s.reorder("k_o", "i", "j", "k_i")
    assert not s.can("decompose_reduction", "i")


def test_a_loop_that_counts_elements_and_the_reduction_at_once_places_no_tile() -> None:
    for k in (0, 1, 3):
        s = tl.Schedule(matmul(3, 4, k))
        s.fuse("j", "k")
        assert code(s.can("decompose_reduction", "j_k")) == "TL-S104"


def test_a_start_does_not_move_past_what_reads_it_of_a_reduction_that_combines_nothing() -> None:
    A, k = tl.placeholder((4, 6), name="A"), tl.reduce_axis(6, name="k")
    T = tl.compute((4,), lambda i: tl.sum(A[i, k], axis=k, where=k > k + 0), name="T")
    s = tl.Schedule(tl.compute((4,), lambda i: T[i] + 1, name="U"))
    s.reverse_compute_at("U", "T.init.i")
    reason = "what stands between 'T.init' and 'k' reads or writes what the first writes"
    assert code_and_reason(s, "decompose_reduction", "T.k") == ("TL-S301", reason)
