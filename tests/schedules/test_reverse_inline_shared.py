"""`reverse_compute_inline` in loops that a consumer shares with its operand: it may not pass what touches what it touches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

import tensorlang as tl
from tests.schedules.judged import judge
from tests.schedules.programs import refused

KEEP = pytest.mark.parametrize("keep", ["all", "last"])
Keep = Literal["all", "last"]
Step = Callable[[Any, Any, Any], Any]


def scanned(step: Step, length: Any = 3, keep: Keep = "last") -> tl.Schedule:
    """A scan over int32[5], whose step may read a row of A."""
    a, b = tl.placeholder((length, 5), "int32", name="A"), tl.placeholder((5,), "int32", name="B")
    return tl.Schedule(tl.scan(lambda t, x: step(t, x, a), b, length, keep=keep, name="S"))


def stage(name: str, body: Callable[[Any], Any]) -> Any:
    return tl.compute((5,), lambda i: tl.cast(body(i), "int32"), name=name)


def doubled(t: Any, x: Any, a: Any) -> Any:
    h = stage("H", lambda i: x[4 - i] * 2 + t)
    return stage("N", lambda i: h[i] + a[t, i])


def summed(t: Any, x: Any, a: Any) -> Any:
    k = tl.reduce_axis(5, name="k")
    h = stage("H", lambda i: tl.sum(x[k] * a[t, i], axis=k))
    return stage("N", lambda i: tl.maximum(h[i], x[i]))


@KEEP
@pytest.mark.parametrize("length", [0, 1, 4, "n"])
def test_a_stage_of_a_step_is_computed_where_the_one_before_is_complete(keep: Keep, length: Any) -> None:
    s = scanned(doubled, tl.dim("n") if length == "n" else length, keep)
    s.reverse_compute_inline("N")
    assert "H:" not in str(s)
    for n in (0, 1, 3) if length == "n" else (0,):
        judge(s, {"n": n} if length == "n" else {})


@KEEP
def test_it_goes_into_the_tile_of_a_reduction(keep: Keep) -> None:
    s = scanned(summed, 3, keep)
    refused(s, "TL-S301", "accumulate 'H' outside the loops of its reduction first", "reverse_compute_inline", "N")
    s.accumulate("H", at="H.i")
    s.reverse_compute_inline("N")
    judge(s)


def test_it_is_the_same_under_lanes_and_split_loops() -> None:
    s = scanned(doubled)
    s.vectorize(s.split("H.i", 2)[1])
    s.reverse_compute_inline("N")
    judge(s)


def test_the_stages_of_several_states_each_go_past_what_reads_the_states_before() -> None:
    a, b = (tl.placeholder((5,), "int32", name=name) for name in "AB")

    def step(t: Any, states: Any) -> Any:
        x, y = states
        h = stage("H", lambda i: x[i] + t)
        g = stage("G", lambda i: y[4 - i] + x[4 - i])
        return stage("N", lambda i: h[i] * 2), stage("M", lambda i: g[i] + 1)

    for keep in ("all", "last"):
        s = tl.Schedule(tl.scan(step, (a, b), 3, keep=keep, name="S"))
        s.reverse_compute_inline("N")
        s.reverse_compute_inline("M")
        judge(s)


def rows(between: Callable[[Any], Any], read: Callable[[Any, Any, Any], Any]) -> tl.Schedule:
    """H, another stage and C, which reads both, in one loop over rows."""
    x = tl.placeholder((4, 5), "int32", name="X")
    h = tl.compute((4, 5), lambda i, j: x[i, j] * 2, name="H")
    g = between(x)
    s = tl.Schedule((tl.compute((4, 5), lambda i, j: h[i, j] + read(g, i, j), name="C"), g))
    s.fuse_loops("H.i", "G.i")
    s.fuse_loops("G.i", "C.i")
    return s


def plain(x: Any) -> Any:
    return tl.compute((4, 5), lambda i, j: x[i, j] + 7, name="G")


def before(g: Any, i: Any, j: Any) -> Any:
    return tl.select(i > 0, g[i - 1, 4 - j], 0)


def alone(g: Any, i: Any, j: Any) -> Any:
    return tl.cast(j, "int32")


@pytest.mark.parametrize("read", [before, alone])
def test_rows_that_are_computed_side_by_side_go_into_one_another(read: Callable[[Any, Any, Any], Any]) -> None:
    s = rows(plain, read)
    s.reverse_compute_inline("C")
    judge(s)


@pytest.mark.parametrize("at", [lambda j: j, lambda j: 4 - j])
def test_what_is_computed_meanwhile_in_the_row_is_not_there_yet(at: Callable[[Any], Any]) -> None:
    s = rows(plain, lambda g, i, j: g[i, at(j)])
    refused(s, "TL-S103", "which 'G' writes after its operand is begun", "reverse_compute_inline", "C")


def steps(*, backwards: bool) -> tl.Schedule:
    """Rows of a recurrence, each element of which takes the one before it; of an operand that is completed in its order, or the other."""
    a = tl.placeholder((4, 6), "int32", name="A")
    b = tl.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")
    s = tl.Schedule(
        tl.recurrence((4, 6), lambda i, j, own: tl.select(j >= 1, own[i, j - 1], 0) + b[i, 5 - j if backwards else j], name="R")
    )
    s.fuse_loops("B.i", "R.i")
    return s


def test_a_consumer_that_reads_what_it_has_stored_keeps_the_order_of_its_iterations() -> None:
    s = steps(backwards=False)
    s.reverse_compute_inline("R")
    judge(s)
    assert "B: int32" not in str(s)
    assert not steps(backwards=True).can("reverse_compute_inline", "R")


def test_a_consumer_that_reads_what_it_has_stored_is_not_written_into_an_operand_whose_loops_run_otherwise() -> None:
    """Cut into two, the operand's columns come in another order than the consumer's own."""
    s = steps(backwards=False)
    s.split("B.j", 2)
    s.reorder("B.j_i", "B.j_o")
    assert not s.can("reverse_compute_inline", "R")


@pytest.mark.parametrize("slides", [False, True])
def test_a_tile_of_the_one_row_that_a_strip_has_next_takes_its_consumer(slides: bool) -> None:
    """`S[S.i - 4 * i_o - i_i, j]` of one `S.i`, which is the row of the consumer."""
    x, k = tl.placeholder((12, 22), "int32", name="X"), tl.reduce_axis(3, name="k")
    g = tl.compute((12, 22), lambda i, j: x[i, j] * 2 + 1, name="G")
    sums = tl.compute((10, 20), lambda i, j: tl.sum(g[i + k, j + k], axis=k), name="S")
    s = tl.Schedule(tl.compute((10, 20), lambda i, j: sums[i, j] * sums[i, j] + i, name="Y"))
    kept, row = s.split("Y.i", 4, tail="peel")
    s.compute_at("S", row)
    s.compute_at("G", row)
    if slides:
        s.store_at("G", kept)
    s.split("S.j", 8, tail="peel")
    s.reorder("S.k", "S.j_i")
    s.accumulate("S", at="S.j_o")
    s.reverse_compute_inline("Y")
    assert "S: int32" not in str(s)
    judge(s)
