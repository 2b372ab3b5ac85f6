"""`rfactor` gives each iteration of a reduction loop a partial result; the whole is what the definition means, whatever the reducer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.judged import judge
from tests.schedules.programs import blur, check, matmul, refusal
from tests.thinned import crossed


def rows(m: Any = 4, n: Any = 100, dtype: str = "float32", reducer: str = "sum", where: bool = False) -> tl.Schedule:
    """Y[i] = reducer over k of X[i, k]."""
    x = tl.placeholder((m, n), dtype, name="X")
    k = tl.reduce_axis(n, name="k")

    def body(i: Any) -> Any:
        return getattr(tl, reducer)(x[i, k], axis=k, where=(k > i) if where else None)

    return tl.Schedule(tl.compute((m,), body, name="Y"))


def test_the_partial_results_are_a_tensor_with_the_loop_as_first_dimension() -> None:
    s = rows(4, 1000)
    outer, _ = s.split("k", 64)
    s.rfactor(outer)
    expected = """\
Y(X: float32[4, 1000]) -> Y: float32[4]
    Y_rf: float32[16, 4]
    for i in range(4):
        Y[i] = 0.0                                           # Y.init
    for k_o in range(16):
        for i in range(4):
            Y_rf[k_o, i] = 0.0                               # Y_rf.init
    for k_o in range(16):                                    # k = 64 k_o + k_i   guard
        for i in range(4):
            for k_i in range(64):
                Y_rf[k_o, i] += X[i, k]                      # Y_rf
    for i in range(4):
        for k_o in range(16):
            Y[i] += Y_rf[k_o, i]                             # Y"""
    assert str(s) == expected


def test_the_factored_loop_may_run_in_parallel_and_the_rest_as_lanes() -> None:
    s = rows(4, 1000)
    s.rfactor(s.split("k", 64)[0])
    s.parallel("Y_rf.k_o")
    s.vectorize("Y_rf.k_i")
    check(s, interpret=False)


@crossed({"reducer": ["sum", "prod", "max", "min", "argmax", "argmin", "reduce_fmax"], "where": [False, True]})
def test_every_reducer_can_be_factored(reducer: str, where: bool) -> None:
    for factor in ("k_o", "k_i"):
        s = rows(3, 11, "float64", reducer, where)
        s.split("k", 4)
        s.rfactor(factor)
        check(s)


@pytest.mark.parametrize("reducer", ["any", "all"])
def test_logical_reducers_can_be_factored(reducer: str) -> None:
    s = rows(3, 7, "bool", reducer)
    s.rfactor(s.split("k", 2)[0])
    x = np.random.default_rng(0).random((3, 7)) > 0.5
    np.testing.assert_array_equal(tl.build(s)(x), getattr(x, reducer)(1))


@pytest.mark.parametrize("n", [0, 1, 4, 9])
@pytest.mark.parametrize("tail", ["guard", "peel", "mask"])
def test_the_extent_may_be_a_run_time_one(n: int, tail: Any) -> None:
    for loop in ("k_o", "k_i"):
        s = rows(3, tl.dim("n"))
        s.split("k", 4, tail=tail)
        s.rfactor(loop)
        check(s, dims={"n": n})


def test_it_works_in_a_tiled_and_reordered_nest() -> None:
    s = tl.Schedule(matmul())
    s.tile("i", "j", 3, 4)
    s.split("k", 2)
    s.reorder("k_o", "i_o", "j_o", "k_i", "i_i", "j_i")
    s.rfactor("k_o")
    s.vectorize("C_rf.j_i")
    s.accumulate("C_rf", at="C_rf.k_i")
    s.parallel("C_rf.k_o")
    check(s)


def test_it_works_twice_and_on_a_producer_computed_inside_another_loop() -> None:
    s = tl.Schedule(matmul(3, 4, 12))
    s.split("k", 4)
    s.rfactor("k_o")
    s.rfactor("C_rf.k_i")
    check(s)
    c = matmul(4, 5, 6)
    s = tl.Schedule(tl.compute((4, 5), lambda i, j: c[i, j] + 1, name="D"))
    s.compute_at("C", "D.i")
    s.rfactor("C.k")
    check(s)


def test_a_factored_producer_can_still_move() -> None:
    c = matmul(4, 5, 6)
    s = tl.Schedule(tl.compute((4, 5), lambda i, j: c[i, j] + 1, name="D"))
    s.rfactor("C.k")
    s.compute_at("C", "D.i")
    check(s)


def test_a_loop_that_is_no_reduction_is_refused() -> None:
    e = refusal(tl.Schedule(matmul()), "rfactor", "i")
    assert e.code == "TL-S304"
    assert e.reason == "'i' runs over no reduction; name a loop over a reduction axis"
    assert refusal(tl.Schedule(blur()), "rfactor", "v.x").code == "TL-S304"


def test_a_loop_that_also_moves_the_element_is_refused() -> None:
    s = tl.Schedule(matmul())
    s.reorder("j", "i", "k")
    s.fuse("i", "k")
    assert refusal(s, "rfactor", "i_k").code == "TL-S304"


def test_partial_results_that_would_be_combined_twice_are_refused_with_two_iterations() -> None:
    s = tl.Schedule(matmul())
    s.split("k", 2)
    s.reorder("j", "k_o", "i", "k_i")
    s.reorder("i", "k_o")
    s.fuse("i", "k_o")
    e = refusal(s, "rfactor", "k_i")
    assert e.code == "TL-S103"
    assert e.counterexample is not None
    first, second = e.counterexample["first"]["at"], e.counterexample["second"]["at"]
    assert first["i_k_o"] // 3 == second["i_k_o"] // 3
    assert first != second


def columns(reducer: Any, n: int = 7) -> tl.Schedule:
    """Y[j] = reducer over k and l of X[j, k, l], with j and k in one loop."""
    x = tl.placeholder((3, 5, n), "int32", name="X")
    k, l = tl.reduce_axis(5, name="k"), tl.reduce_axis(n, name="l")
    s = tl.Schedule(tl.compute((3,), lambda j: reducer(x[j, k, l], axis=(k, l)), name="Y"))
    s.fuse("Y.j", "k")
    return s


@pytest.mark.parametrize("reducer", ["max", "min", "argmax", "argmin", "largest"])
def test_partial_results_may_be_combined_twice_where_the_reducer_does_not_mind(reducer: str) -> None:
    largest = tl.reducer(lambda a, b: tl.select(a < b, b, a), tl.cast(-(1 << 31), "int32"), name="largest")
    s = columns(largest if reducer == "largest" else getattr(tl, reducer))
    s.rfactor("l")
    check(s)


@pytest.mark.parametrize("reducer", ["sum", "prod", "both"])
def test_partial_results_are_not_combined_twice_where_one_component_minds(reducer: str) -> None:
    both = tl.reducer(lambda a, b: (tl.maximum(a[0], b[0]), a[1] + b[1]), (tl.cast(-(1 << 31), "int32"), tl.cast(0, "int32")), name="both")
    s = columns((lambda value, axis: both((value, value), axis=axis)[1]) if reducer == "both" else getattr(tl, reducer))
    assert refusal(s, "rfactor", "l").code == "TL-S103"


def test_of_an_empty_loop_there_are_no_partial_results_to_combine_twice() -> None:
    s = columns(tl.sum, 0)
    s.rfactor("l")
    check(s)


def test_an_extent_that_another_loop_decides_is_refused() -> None:
    x = tl.placeholder((6, 6), name="X")

    def body(i: Any) -> Any:
        k = tl.reduce_axis(6, name="k")
        return tl.sum(x[i, k], axis=k)

    s = tl.Schedule(tl.compute((6,), body, name="Y"))
    s.skew("k", by="i")
    assert refusal(s, "rfactor", "k_s").code == "TL-S104"


def test_the_other_loops_stay_what_they_are() -> None:
    s = tl.Schedule(matmul(7, 16, 20))
    ko, ki = s.split("C.k", 8)
    jo, ji = s.split("C.j", 8)
    s.reorder("C.i", jo, ko, ki, ji)
    s.parallel("C.i")
    s.vectorize(ji)
    s.unroll(ki)
    s.rfactor(ko)
    expected = """\
C(A: float32[7, 20], B: float32[20, 16]) -> C: float32[7, 16]
    C_rf: float32[3, 7, 16]
    for i in range(7):
        for j in range(16):
            C[i, j] = 0.0                                    # C.init
    for k_o in range(3):
        parallel i in range(7):
            for j_o in range(2):                             # j = 8 j_o + j_i   guard
                vector j_i in range(8):
                    C_rf[k_o, i, j] = 0.0                    # C_rf.init
    for k_o in range(3):                                     # k = 8 k_o + k_i   guard
        parallel i in range(7):
            for j_o in range(2):                             # j = 8 j_o + j_i   guard
                unroll k_i in range(8):
                    vector j_i in range(8):
                        C_rf[k_o, i, j] += A[i, k] * B[k, j] # C_rf
    parallel i in range(7):
        for j_o in range(2):                                 # j = 8 j_o + j_i   guard
            for k_o in range(3):
                vector j_i in range(8):
                    C[i, j] += C_rf[k_o, i, j]               # C"""
    assert str(s) == expected
    check(s)


@crossed({"extents": [(0, 3, 5), (1, 1, 0), (5, 9, 11), (7, 16, 16)], "tail": ["guard", "mask", "peel"]})
def test_vector_partials_and_unrolled_loops_are_factored(extents: tuple[int, int, int], tail: Any) -> None:
    s = tl.Schedule(matmul(*extents))
    outer, inner = s.split("C.k", 4, tail)
    s.vectorize(inner)
    s.rfactor(outer)
    s.parallel("C_rf.k_o")
    check(s)
    s = tl.Schedule(matmul(*extents))
    outer, inner = s.split("C.k", 4, tail)
    s.unroll(inner)
    s.rfactor(inner)
    check(s)


def test_a_vector_reduction_is_factored_by_the_loop_around_it() -> None:
    s = tl.Schedule(matmul(7, 16, 20))
    _, inner = s.split("C.k", 8)
    s.vectorize(inner)
    e = refusal(s, "rfactor", inner)
    assert (e.code, e.reason) == ("TL-S107", "the loop 'k_i' is already vector; rfactor before, or rfactor a loop around it")
    (instead,) = e.alternatives
    assert instead.loop == "C.k_o"
    assert s.can(instead)


def test_a_loop_that_cannot_stay_what_it_is_is_refused() -> None:
    s = tl.Schedule(matmul(7, 16, 20))
    outer, _ = s.split("C.k", 8)
    s.unroll(s.split("C.k_o", 2)[1])
    s.reorder("C.i", "C.j", "C.k_o_i", "C.k_o_o", "C.k_i")
    s.parallel("C.j")
    s.rfactor("C.k_o_o")
    check(s)
    s = tl.Schedule(matmul(7, 16, 20))
    s.parallel("C.j")
    s.split("C.k", 4)
    s.unroll("C.k_i")
    e = refusal(s, "rfactor", "C.k_i")
    assert (e.code, e.reason) == (
        "TL-S107",
        "'j' could not stay parallel in the new nest (it stands inside the unroll loop 'k_i'); rfactor before",
    )
    assert outer == "C.k_o"


def test_imperfect_nests_and_huge_partial_results_are_refused() -> None:
    s = tl.Schedule(matmul())
    s.reorder("k", "i", "j")
    s.pack("B", at="k")
    e = refusal(s, "rfactor", "k")
    assert (e.code, e.reason) == (
        "TL-S105",
        "other statements stand between 'k' and 'C'; rfactor needs the loops of the reduction in one nest",
    )
    assert refusal(tl.Schedule(matmul(4096, 4096, 4096)), "rfactor", "k").code == "TL-S203"


@pytest.mark.parametrize("packed", [False, True])
def test_a_reduction_into_elements_that_data_choose_has_whole_tensors_as_partial_results(packed: bool) -> None:
    where = tl.placeholder((9,), "int32", name="B")
    zero = tl.compute((4,), lambda i: tl.cast(i, "float32") * 0, name="Z")
    s = tl.Schedule(
        tl.scatter(zero, tl.reduce_axis(9, name="p"), lambda p: tl.clamp(where[p], 0, 3), lambda p: tl.cast(p, "float32"), name="U")
    )
    if packed:
        s.pack("B", at="U.p")
    assert s.can("decompose_reduction", "U.p").error.code in ("TL-S301", "TL-S304")
    s.rfactor("U.p")
    assert "U_rf: float32[9, 4]" in str(s)
    s.parallel("U_rf.p")
    check(s)


def test_a_refused_parallel_reduction_names_rfactor_as_the_alternative() -> None:
    s = rows()
    with pytest.raises(tl.ScheduleError) as refused:
        s.parallel("k")
    (instead,) = (step for step in refused.value.alternatives if type(step).__name__ == "Rfactor")
    s.apply(instead)
    check(s)


def test_a_scatter_whose_start_went_into_another_stage_is_one_still() -> None:
    """Its loops leave the tensor where its condition does not hold, so they do not sweep over partial results."""
    start = tl.compute((3,), lambda x: tl.cast(2, "float32"), name="Z")
    p, q = tl.reduce_axis(5, name="p"), tl.reduce_axis(6, name="q")
    h = tl.scatter(start, (p, q), lambda p, q: q, lambda p, q: tl.cast(p, "float32"), "min", where=lambda p, q: q < 3, name="H")
    s = tl.Schedule(h)
    s.reverse_compute_inline("H.start")
    s.rfactor("H.p")
    check(s)


def test_partial_results_of_partial_results_of_a_scatter_stay_inside() -> None:
    """They start from the identity as those of any reduction, and are combined into only where a condition holds."""
    start = tl.compute((4,), lambda x: tl.cast(x, "float32"), name="Z")
    p, q = tl.reduce_axis(5, name="p"), tl.reduce_axis(6, name="q")
    value, inside = (lambda p, q: tl.cast(p + q, "float32")), (lambda p, q: (q >= 2) & (q < 6))
    s = tl.Schedule(tl.scatter(start, (p, q), lambda p, q: q - 2, value, where=inside, name="H"))
    s.rfactor("H.q")
    s.rfactor("H_rf.p")
    assert "[p, q, q - 2]" in str(s) and "H_rf_rf[p, d0, d1] = 0.0" in str(s)
    check(s)


@pytest.mark.parametrize("depth", [9, 16, 7])
def test_a_tile_of_partial_results_starts_wherever_they_are_read(depth: int) -> None:
    """The end of the reduction cuts iterations of the factored digit: their partial results are the identity all the same."""
    s = tl.Schedule(matmul(3, 4, depth))
    s.split("k", 8)
    s.split("k_i", 2)
    s.reorder("k_o", "i", "k_i_o", "k_i_i", "j")
    s.accumulate("C", at="i", partial=True)
    s.rfactor("k_i_i")
    s.accumulate("C_acc_rf", at="C_rf.j")
    check(s)


def test_partial_results_of_a_scatter_do_not_reach_into_padding() -> None:
    """Nothing has written the padding of its storage, so that nothing is to be combined into it."""
    place, r = tl.placeholder((8,), "uint8", name="I"), tl.reduce_axis(8, name="r")
    zero = tl.compute((3,), lambda b: tl.cast(0, "int32"), name="Z")
    count = tl.scatter(zero, r, lambda r: tl.clamp(place[r], 0, 2), lambda r: tl.cast(1, "int32"), name="S")
    s = tl.Schedule(tl.compute((3,), lambda b: count[b] * 2, name="O"))
    s.pad_to("S", 0, 4)
    s.rfactor(s.split("S.r", 4)[0])
    assert "for d0 in range(3)" in str(s)
    assert "for d0 in range(4)" not in str(s)
    judge(s)
