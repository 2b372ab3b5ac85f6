"""`fission` and `fuse_loops` take statements apart and join them where no dependence is reversed, and are each other's inverse."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tests.schedules.programs import blur, check, matmul, refusal
from tests.schedules.recurrences import seidel
from tests.thinned import crossed


def chain(rows: Any = 9, columns: Any = 7, read: Any = None) -> Tensor:
    """h = X + 1; v = 2 h, at what `read` makes of h and the index."""
    x = tl.placeholder((rows, columns), name="X")
    h = tl.compute((rows, columns), lambda y, x_: x[y, x_] + 1, name="h")
    result: Tensor = tl.compute((rows, columns), (lambda y, x: h[y, x] * 2) if read is None else (lambda y, x: read(h, y, x)), name="v")
    return result


# fuse_loops


def test_two_neighbours_become_the_second_loop() -> None:
    s = tl.Schedule(chain())
    s.fuse_loops("h.y", "v.y")
    s.fuse_loops("h.x_", "v.x")
    expected = """\
v(X: float32[9, 7]) -> v: float32[9, 7]
    h: float32[9, 7]
    for y in range(9):
        for x in range(7):
            h[y, x] = X[y, x] + 1.0                          # h
            v[y, x] = h[y, x] * 2.0                          # v"""
    assert str(s) == expected
    check(s)
    s.parallel("v.y")
    s.vectorize(s.split("v.x", 4)[1])
    check(s)


def test_a_joined_producer_may_be_read_where_it_is_already_computed() -> None:
    for read in (lambda h, y, x: h[tl.maximum(y - 1, 0), x], lambda h, y, x: h[y // 2, x] + h[y, 6 - x]):
        s = tl.Schedule(chain(read=read))
        s.fuse_loops("h.y", "v.y")
        check(s)


def test_a_producer_read_ahead_is_refused_with_the_two_iterations() -> None:
    s = tl.Schedule(chain(read=lambda h, y, x: h[8 - y, x]))
    e = refusal(s, "fuse_loops", "h.y", "v.y")
    assert e.code == "TL-S103"
    assert e.counterexample is not None
    first, second = e.counterexample["first"], e.counterexample["second"]
    assert (first["stage"], second["stage"]) == ("v", "h")
    assert second["at"]["y"] == 8 - first["at"]["y"] > first["at"]["y"]


def test_peel_and_shift_line_up_a_stencil_with_its_producer() -> None:
    s = tl.Schedule(blur(7, 5))
    assert refusal(s, "fuse_loops", "h.y", "v.y").reason == "the loops run over different ranges, 0..9 and 0..7"
    s.peel("h.y", first=2)
    s.shift("v.y", 2)
    s.fuse_loops("h.y", "v.y_s")
    check(s)
    s = tl.Schedule(blur(7, 5))
    s.peel("h.y", last=2)
    assert refusal(s, "fuse_loops", "h.y", "v.y").code == "TL-S105"
    s = tl.Schedule(blur(7, 5))
    s.peel("h.y", first=1)
    s.shift("v.y", 1)
    s.peel("h.y", last=1)
    assert refusal(s, "fuse_loops", "h.y", "v.y_s").code == "TL-S105"


@pytest.mark.parametrize("rows", [0, 1, 8, 9])
def test_tiles_are_joined_with_their_tails(rows: int) -> None:
    for shape in ((rows, 7), (tl.dim("n"), 7)):
        s = tl.Schedule(chain(*shape))
        s.split("h.y", 4)
        s.split("v.y", 4)
        s.fuse_loops("h.y_o", "v.y_o")
        s.fuse_loops("h.y_i", "v.y_i")
        assert len(s.nest.relations) == 1
        check(s, dims={"n": rows})


def test_tails_that_differ_are_not_joined() -> None:
    x = tl.placeholder((10, 4), name="X")
    h = tl.compute((10, 4), lambda y, i: x[y, i] + 1, name="h")
    s = tl.Schedule((h, tl.compute((9, 4), lambda y, i: h[y, i] * 2, name="v")))
    s.split("h.y", 5)
    s.split("v.y", 5)
    s.fuse_loops("h.y_o", "v.y_o")
    e = refusal(s, "fuse_loops", "h.y_i", "v.y_i")
    assert (e.code, e.reason) == (
        "TL-S104",
        "the condition of 'y = 5 y_o + y_i   guard' holds for one of the loops only, so their ranges differ",
    )
    check(s)


def test_a_reduction_is_joined_with_its_start_and_its_use() -> None:
    c = matmul()
    s = tl.Schedule(tl.compute((7, 11), lambda i, j: tl.maximum(c[i, j], 0), name="D"))
    s.fuse_loops("C.init.i", "C.i")
    s.fuse_loops("C.i", "D.i")
    s.parallel("D.i")
    s.accumulate("C", at="C.k")
    check(s)


def test_what_stands_between_goes_before() -> None:
    """Exponentials and their sum are one loop, though the sum begins between the two."""
    s = tl.Schedule(tl.ops.softmax(tl.placeholder((6, 37), name="x")))
    for stage in ("sum", "exp", "max"):
        s.compute_at(f"softmax_{stage}", "softmax.i")
    refused = refusal(s, "fuse_loops", "softmax_max.i", "softmax_sum.i")
    assert refused.code == "TL-S105"
    assert "'softmax_exp' stands between the loops and touches what the first one does" in refused.reason
    s.fuse_loops("softmax_exp.i", "softmax_sum.i")
    s.fuse_loops("softmax_exp.j", "softmax_sum.k")
    s.split("softmax_sum.k", 8, tail="peel")
    s.vectorize("softmax_sum.k_i")
    check(s)


def test_only_serial_neighbours_are_joined() -> None:
    s = tl.Schedule(chain())
    assert refusal(s, "fuse_loops", "v.y", "h.y").code == "TL-S105"
    assert refusal(s, "fuse_loops", "h.y", "v.x").reason == "'x' does not follow directly after 'y', so the two are not neighbours"
    assert refusal(s, "fuse_loops", "h.y", "h.y").code == "TL-S105"
    s.parallel("h.y")
    assert refusal(s, "fuse_loops", "h.y", "v.y").code == "TL-S107"


# fission


def test_each_statement_gets_a_loop_named_after_its_stage() -> None:
    s = tl.Schedule(matmul(4, 6, 8))
    s.reorder("i", "k", "j")
    s.fuse_loops("C.init.i", "C.i")
    s.fission("C.i")
    expected = """\
C(A: float32[4, 8], B: float32[8, 6]) -> C: float32[4, 6]
    for i in range(4):
        for j in range(6):
            C[i, j] = 0.0                                    # C.init
    for i in range(4):
        for k in range(8):
            for j in range(6):
                C[i, j] += A[i, k] * B[k, j]                 # C"""
    assert str(s) == expected
    assert s.loops("C.init") == ("C.init.i", "C.init.j")
    check(s)


def test_fission_undoes_fuse_loops() -> None:
    s = tl.Schedule(chain())
    before = str(s)
    s.fuse_loops("h.y", "v.y")
    s.fission("v.y")
    assert str(s) == before


@pytest.mark.parametrize("tail", ["guard", "peel", "mask"])
def test_tiles_are_taken_apart_with_their_tails(tail: Any) -> None:
    s = tl.Schedule(chain(9, 10))
    for stage in ("h", "v"):
        s.split(f"{stage}.y", 4, tail=tail)
    s.fuse_loops("h.y_o", "v.y_o")
    s.fuse_loops("h.y_i", "v.y_i")
    s.fuse_loops("h.x_", "v.x")
    for loop in ("v.x", "v.y_i", "v.y_o"):
        s.fission(loop)
        check(s)
    s.parallel("h.y_o")
    check(s)


def test_a_decomposed_reduction_comes_apart_again() -> None:
    s = tl.Schedule(matmul())
    s.tile("i", "j", 4, 8)
    s.reorder("i_o", "j_o", "k", "i_i", "j_i")
    s.decompose_reduction("k")
    s.fission("C.j_o")
    s.fission("C.i_o")
    s.parallel("C.i_o")
    check(s)


def test_storage_that_carries_values_gets_a_dimension_for_the_loop() -> None:
    s = tl.Schedule(blur(5, 4))
    s.compute_at("h", "v.y")
    s.fission("v.y")
    expected = """\
v(X: float32[7, 6]) -> v: float32[5, 4]
    h: float32[5, 3, 4]
    for y_1 in range(5):
        for y in range(y_1, y_1 + 3):
            for x in range(4):
                h[y_1, y - y_1, x] = X[y, x] + X[y, x + 1] + X[y, x + 2] # h
    for y in range(5):
        for x in range(4):
            v[y, x] = h[y, 0, x] + h[y, 1, x] + h[y, 2, x]   # v"""
    assert str(s) == expected
    check(s)


@crossed({"tail": ["guard", "mask", "peel", "shift"], "rows": [0, 1, 7]})
def test_expanded_storage_keeps_its_values_under_every_tail(rows: int, tail: Any) -> None:
    s = tl.Schedule(blur(rows, 5))
    outer, inner = s.split("v.y", 4, tail)
    s.compute_at("h", inner)
    s.store_at("h", outer)
    s.fission(inner)
    s.fission(outer)
    check(s)
    s.parallel("h.y_o")
    s.vectorize("v.x")
    check(s)


def test_storage_of_run_time_extent_and_of_a_tuple_is_expanded() -> None:
    n = tl.dim("n")
    x = tl.placeholder((n, 7), name="X")
    two = tl.compute((n, 7), lambda i, j: (x[i, j] * 2, x[i, 6 - j] + 1), name="h")
    s = tl.Schedule(tl.compute((n, 7), lambda i, j: two[0][i, j] + two[0][i, 6 - j], name="v"))
    s.compute_at("h", "v.i")
    s.fission("v.i")
    assert "h_0: float32[n, 1, 7]" in str(s) and "h_1: float32[n, 1, 7]" in str(s)
    for rows in (0, 1, 5):
        check(s, dims={"n": rows})


def test_a_placed_reduction_and_a_register_tile_come_apart() -> None:
    c = matmul(9, 5, 4)
    s = tl.Schedule(tl.compute((9, 5), lambda i, j: c[i, j] + 1, name="D"))
    s.compute_at("C", "D.i")
    s.set_memory("C", "stack")
    s.fission("D.i")
    check(s)
    s = tl.Schedule(matmul(9, 8, 4))
    io, jo, _, _ = s.tile("C.i", "C.j", 4, 4)
    s.reorder(io, jo, "C.k", "C.i_i", "C.j_i")
    s.accumulate("C", at=jo)
    s.fission(jo)
    s.fission(io)
    check(s)


def test_storage_too_large_to_expand_is_refused_with_what_would_be_legal() -> None:
    x = tl.placeholder((1 << 20, 1 << 12), name="X")
    h = tl.compute((1 << 20, 1 << 12), lambda i, j: x[i, j] * 2, name="h")
    s = tl.Schedule(tl.compute((1 << 20, 1 << 12), lambda i, j: h[i, j] + h[i, 1], name="v"))
    s.compute_at("h", "v.i")
    e = refusal(s, "fission", "v.i")
    what = "'h' is storage of one iteration of 'i' and carries values from one statement to another"
    assert (e.code, e.reason) == ("TL-S108", f"{what}, 17179869184 bytes for all iterations (at most 1073741824)")
    assert [type(step).__name__ for step in e.alternatives] == ["ComputeRoot", "Split"]
    assert all(s.can(step) for step in e.alternatives)


def test_statements_that_need_each_other_in_turn_stay_together() -> None:
    s = tl.Schedule(seidel(6, 4))
    s.peel("j", last=1)
    assert s.can("fission", "t")
    s = tl.Schedule(seidel(6, 4, ((1, -1),)))  # reads the upper right neighbour, which may be the last column
    s.peel("j", last=1)
    e = refusal(s, "fission", "t")
    assert e.code == "TL-S103"
    assert e.counterexample is not None
    assert e.counterexample["first"]["at"]["t"] < e.counterexample["second"]["at"]["t"]


def test_statements_on_elements_of_their_own_come_apart() -> None:
    s = tl.Schedule(matmul())
    s.reorder("k", "i", "j")
    s.decompose_reduction("k")
    s.peel("i", first=2)
    s.fission("k")
    check(s)


def test_a_single_statement_cannot_be_taken_apart() -> None:
    assert refusal(tl.Schedule(chain()), "fission", "v.x").reason == "'x' holds a single statement, so there is nothing to separate"
