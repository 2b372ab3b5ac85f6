"""What follows a sum in the same row waits for its lanes; other rows, and sums that are vectors, do not."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.parts import Loop, Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.row_ends import waits
from tensorlang.schedules.strategies import choose

ZEN = tl.machine("znver4")


def normalised(rows: int, columns: int) -> tl.Tensor:
    """Layer normalisation."""
    X = tl.placeholder((rows, columns), name="X")
    g, b = (tl.placeholder((columns,), name=name) for name in "gb")
    return tl.ops.layer_norm(X, (columns,), g, b)


def waiting(parts: tuple[Part, ...]) -> list[float]:
    """Cycles of all waits in one iteration each, loop by loop."""
    inside = [part for part in parts if isinstance(part, Loop)]
    return [cycles for loop in inside for _, cycles in waits(loop, ZEN)] + [cycles for loop in inside for cycles in waiting(loop.body)]


def default(outputs: Any, *, in_rows: bool) -> tuple[Part, ...]:
    """The default point with its stages in rows, or whole."""
    strategy = choose(outputs, target("znver4"), 1)
    one_by_one = {"rows": 1} if "rows" in strategy.default else {}
    return program(strategy.schedule({**strategy.default, "in_rows": in_rows, **one_by_one}).nest)


def test_both_sums_of_a_normalisation_are_waited_for_in_rows_and_none_is_where_stages_are_whole() -> None:
    """Four shuffles and additions of sixteen lanes are 28 cycles; the root and its division follow the second."""
    first, second = waiting(default(normalised(64, 16384), in_rows=True))
    assert first == pytest.approx(4 * (3 + 4), rel=0.1)
    assert second > first + 20
    assert waiting(default(normalised(64, 16384), in_rows=False)) == []


def test_short_rows_overlap() -> None:
    """On a Zen 4 rows of 64 lose 15 cycles each, of 128 and 300 some 33."""
    short, middle, long = (sum(waiting(default(normalised(1024, columns), in_rows=True))) for columns in (64, 300, 4096))
    assert short < middle < long
    assert 10 < short < 35


def test_columns_that_are_summed_wait_for_nothing() -> None:
    """Their sums are vectors, each lane of which is one."""
    X, k = tl.placeholder((100, 64, 256), name="X"), tl.reduce_axis(64, name="k")
    sums = tl.compute((100, 256), lambda i, j: tl.sum(X[i, k, j], axis=k), name="sums")
    s = tl.Schedule(tl.compute((100, 64, 256), lambda i, q, j: X[i, q, j] / sums[i, j], name="Y"))
    s.compute_at("sums", "Y.i")
    s.vectorize(s.split("sums.j", 32)[1])
    s.vectorize(s.split("Y.j", 32)[1])
    assert waiting(program(s.nest)) == []


@pytest.mark.parametrize(("rows", "columns", "in_rows"), [(128, 768, True), (512, 512, True), (1024, 128, False), (32, 100, False)])
def test_stages_follow_rows_where_that_was_measured_to_pay(rows: int, columns: int, in_rows: bool) -> None:
    """On a Zen 4: 0.95, 0.82, 1.26 and 1.30 of the time of whole stages."""
    assert choose(normalised(rows, columns), target("znver4"), 1).default["in_rows"] is in_rows
