"""`skew` and `shift` change how a loop counts and nothing else; after `skew`, loops exchange and the wavefront runs in parallel."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.programs import check, code_and_reason, matmul, scale
from tests.schedules.recurrences import seidel
from tests.thinned import crossed


def test_a_skewed_loop_starts_where_the_other_loop_stands() -> None:
    s = tl.Schedule(scale(3, 5))
    s.skew("j", by="i", factor=2)
    expected = """\
Y(X: float32[3, 5]) -> Y: float32[3, 5]
    for i in range(3):
        for j_s in range(2 * i, 2 * i + 5):                  # j = -2 * i + j_s
            Y[i, j] = X[i, j] * 3.0 + 1.0                    # Y"""
    assert str(s) == expected
    check(s)


def test_exchanged_loops_get_the_bounds_of_the_projection() -> None:
    s = tl.Schedule(seidel(6, 9))
    s.skew("j", by="t")
    s.reorder("j_s", "t")
    loops = [line.split("#")[0].strip() for line in str(s).splitlines() if line.strip().startswith("for")]
    assert loops == ["for j_s in range(14):", "for t in range(maximum(0, j_s - 8), minimum(6, j_s + 1)):"]
    check(s)


@crossed({"shape": [(6, 9), (1, 5), (5, 1), (8, 8), (0, 3), (3, 0)], "factor": [1, 2, 3]})
def test_the_wavefront_of_a_gauss_seidel_sweep_is_parallel(shape: tuple[int, int], factor: int) -> None:
    s = tl.Schedule(seidel(*shape))
    if min(shape) > 1:
        assert not s.can("parallel", "t")
        assert not s.can("parallel", "j")
    t, j = s.loops("Y")
    s.skew(j, by=t, factor=factor)
    t, wave = s.loops("Y")
    s.reorder(wave, t)
    s.parallel(t)
    check(s)


def test_the_wavefront_computes_what_numpy_computes() -> None:
    s = tl.Schedule(seidel(20, 20))
    s.skew("j", by="t")
    s.reorder("j_s", "t")
    s.parallel("t")
    x = np.random.default_rng(0).random((20, 20), "f4")
    want = np.zeros_like(x)
    for t in range(20):
        for j in range(20):
            want[t, j] = x[t, j] + 0.25 * (want[t, j - 1] if j else 0) + 0.25 * (want[t - 1, j] if t else 0)
    np.testing.assert_allclose(tl.build(s)(x), want, rtol=1e-5)


def test_the_wavefront_runs_as_lanes_too() -> None:
    for tail in ("guard", "mask", "peel"):
        s = tl.Schedule(seidel(6, 9))
        s.skew("j", by="t")
        s.reorder("j_s", "t")
        s.vectorize(s.split("t", 4, tail=tail)[1])
        check(s)


def test_extents_may_be_run_time_ones() -> None:
    s = tl.Schedule(seidel(tl.dim("m"), tl.dim("n")))
    s.skew("j", by="t")
    s.reorder("j_s", "t")
    s.parallel("t")
    for m, n in ((0, 4), (1, 1), (5, 3), (4, 9)):
        check(s, dims={"m": m, "n": n})


def test_an_exchange_that_swaps_a_dependence_is_refused_with_two_iterations() -> None:
    s = tl.Schedule(seidel(6, 9, ((1, -1),)))  # reads the upper right neighbour
    with pytest.raises(tl.ScheduleError) as refused:
        s.reorder("j", "t")
    e = refused.value
    assert e.code == "TL-S103"
    assert e.counterexample is not None
    first, second = e.counterexample["first"]["at"], e.counterexample["second"]["at"]
    assert (second["t"], second["j"]) == (first["t"] + 1, first["j"] - 1)
    s.skew("j", by="t")
    s.reorder("j_s", "t")  # after the skew the two stand in one iteration of the wave
    check(s)
    assert not s.can("parallel", "t")
    s = tl.Schedule(seidel(6, 9, ((1, -1), (0, 1))))
    s.skew("j", by="t", factor=2)
    s.reorder("j_s", "t")
    s.parallel("t")
    check(s)


def test_a_time_tiled_stencil_runs_a_tile_through_several_steps() -> None:
    s = tl.Schedule(seidel(9, 12, ((1, 0), (1, 1), (1, -1))))
    assert not s.can("reorder", "j", "t")
    s.split("t", 3)
    s.skew("j", by="t_i")
    s.reorder("t_o", "j_s", "t_i")
    s.split("j_s", 4)
    s.reorder("t_o", "j_s_o", "t_i", "j_s_i")
    check(s)
    s.vectorize(s.split("j_s_i", 4)[1])
    check(s)


def test_exchanging_back_gives_the_same_iterations() -> None:
    s = tl.Schedule(scale(5, 7))
    s.skew("j", by="i", factor=-2)
    s.reorder("j_s", "i")
    s.reorder("i", "j_s")
    check(s)
    s.skew("j_s", by="i", factor=2)
    check(s)


def test_loops_exchange_through_splits() -> None:
    for order in (("k_s", "i_o", "i_i"), ("i_o", "k_s", "i_i"), ("i_i", "k_s", "i_o")):
        s = tl.Schedule(matmul(7, 3, 5))
        s.reorder("j", "i", "k")
        s.skew("k", by="i")
        s.split("i", 4)
        s.reorder(*order)
        check(s)


def test_skewed_loops_can_be_split_unrolled_vectorised_and_peeled() -> None:
    for tail in ("guard", "mask", "peel", "shift"):
        s = tl.Schedule(scale(6, 10))
        s.skew("j", by="i")
        s.vectorize(s.split("j_s", 4, tail=tail)[1])
        check(s)
    s = tl.Schedule(scale(6, 10))
    s.skew("j", by="i")
    s.reorder("j_s", "i")
    s.peel("i", first=1, last=2)
    s.peel("j_s", first=3, last=4)
    check(s)
    s = tl.Schedule(scale(6, 10))
    s.skew("j", by="i")
    s.vectorize("j_s")
    s.unroll("i")
    check(s)


def test_a_skewed_tile_accumulates_and_is_cached() -> None:
    s = tl.Schedule(matmul())
    s.reorder("i", "k", "j")
    s.skew("j", by="k")  # the tile moves with the reduction loop, so it starts from the tensor each time
    s.accumulate("C", at="k")
    check(s)
    s = tl.Schedule(matmul())
    s.skew("j", by="i")
    s.reorder("j_s", "i")
    s.cache_write("C", at="j_s")
    check(s)


def test_a_tile_that_starts_late_or_never_in_the_reduction_keeps_its_initialisation() -> None:
    s = tl.Schedule(matmul())
    s.reorder("j", "i", "k")
    s.skew("k", by="i")
    s.reorder("k_s", "i")  # row i is first touched where k_s == i
    s.accumulate("C", at="i")
    assert "C.init" in s.stages()
    check(s)
    s = tl.Schedule(matmul(3, 4, 0))
    s.reorder("i", "k", "j")
    s.skew("j", by="k")
    s.accumulate("C", at="k")
    check(s)
    s = tl.Schedule(matmul(3, 4, 0))
    s.reorder("j", "i", "k")
    s.fuse("i", "k")
    s.accumulate("C", at="i_k")
    check(s)


@pytest.mark.parametrize("amount", [5, -3])
def test_a_shifted_loop_counts_from_elsewhere(amount: int) -> None:
    s = tl.Schedule(matmul())
    s.shift("k", amount)
    s.shift("j", amount)
    s.vectorize(s.split("j_s", 4)[1])
    check(s)


def test_loops_that_follow_are_shifted_with_their_leader() -> None:
    s = tl.Schedule(matmul(4, 8, 5))
    s.reorder("k", "i", "j")
    s.accumulate("C", at="k")
    s.shift("C.j", 3)
    s.vectorize("C.j_s")
    assert str(s).count("vector j_s in range(3, 11)") == 4
    check(s)


def test_misuse_is_refused() -> None:
    s = tl.Schedule(scale())
    assert code_and_reason(s, "skew", "i", by="j") == ("TL-S105", "'j' is not a loop around 'i'; skew an inner loop by an outer one")
    assert code_and_reason(s, "skew", "i", by="i")[0] == "TL-S105"
    assert code_and_reason(s, "skew", "j", by="i", factor=0) == ("TL-S005", "the factor of skew must not be 0")
    assert code_and_reason(s, "skew", "j", by="i", factor=1.5)[0] == "TL-S005"
    assert code_and_reason(s, "shift", "j", 1 << 60)[0] == "TL-S005"
    s.skew("j", by="i")
    assert code_and_reason(s, "split", "j", 4) == (
        "TL-S004",
        "the loop 'j' is gone: step 0 (s.skew('Y.j', 'Y.i')) made j_s of it",
    )
    assert code_and_reason(s, "fuse", "i", "j_s")[0] == "TL-S104"
    s.parallel("j_s")
    assert code_and_reason(s, "reorder", "j_s", "i") == ("TL-S107", "the loop 'j_s' is already parallel; reorder before")
    assert code_and_reason(s, "shift", "j_s", 1) == ("TL-S107", "the loop is already parallel; move it before")


def test_reordering_a_parallel_loop_out_of_a_dependence_is_refused() -> None:
    s = tl.Schedule(seidel(6, 9, ((1, 1),)))
    s.parallel("j")
    code, reason = code_and_reason(s, "reorder", "j", "t")
    assert (code, reason) == ("TL-S101", "two iterations of 'j' would race: one writes Y[0, 0], another reads it")


def test_bounds_that_are_not_linear_cannot_be_exchanged() -> None:
    s = tl.Schedule(scale(6, 10))
    s.skew("j", by="i")
    s.reorder("j_s", "i")
    s.split("j_s", 3)
    s.fuse("j_s_o", "j_s_i")
    code, reason = code_and_reason(s, "reorder", "i", "j_s_o_j_s_i")
    assert code == "TL-S104"
    assert "not as a linear form" in reason


def test_a_copy_of_a_loop_that_takes_a_loop_around_apart_is_refused() -> None:
    B = tl.placeholder((3, 3, 9), name="B")
    s = tl.Schedule(tl.compute((3, 3, 9), lambda i, j, k: B[i, j, k] + 1.0, name="T"))
    s.skew("T.k", by="T.i", factor=2)
    s.fuse("T.j", "T.k_s")
    s.reorder("T.j_k_s", "T.i")
    reason = "what 'j_k_s' is made of depends on 'i', of which there would be a copy"
    assert code_and_reason(s, "cache_write", "T", at="T.j_k_s") == ("TL-S104", reason)
    check(s)


@pytest.mark.parametrize(("columns", "factor"), [(2, 2), (3, 3), (2, 3)])
def test_lanes_of_which_a_tail_leaves_one_may_mean_one_element_in_a_version_that_never_runs(columns: int, factor: int) -> None:
    """Skewed by the length of a row, all lanes have one offset: a version for whole tiles would store there in each, and there are none."""
    X = tl.placeholder((4, columns), "int32", name="X")
    s = tl.Schedule(tl.recurrence((4, columns), lambda t, j, self: X[t, j] + self[t - 1, j] * 2, name="Y"))
    s.skew("j", by="t", factor=factor)
    s.reorder("j_s", "t")
    s.split("t", 2)
    s.vectorize("t_i")
    check(s)
