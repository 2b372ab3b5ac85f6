"""What a loop brings into scope is known inside it and nowhere else, whatever tails, moves and kinds of loops meet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import tensorlang as tl
from tests.draws import examples

Plan: TypeAlias = list[tuple[str, str, int, str, str, str]]
EXTENTS = (0, 1, 5, 13, 16, 40)
MOVES: dict[str, Callable[[tl.Schedule, str, str], Any]] = {
    "none": lambda s, outer, inner: None,
    "skew": lambda s, outer, inner: s.skew(inner, by=outer, factor=2),
    "shift": lambda s, outer, inner: s.shift(inner, 3),
    "shift outer": lambda s, outer, inner: s.shift(outer, -1),
    "peel": lambda s, outer, inner: s.peel(inner, first=1, last=1),
    "peel outer": lambda s, outer, inner: s.peel(outer, first=1),
    "split": lambda s, outer, inner: s.split(inner, 3, tail="peel"),
}


def attempt(step: Callable[..., Any], *arguments: Any) -> None:
    """A directive, if it is legal."""
    with contextlib.suppress(tl.ScheduleError):
        step(*arguments)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """For each of two stages: a tail, a factor, a move, and how the outer and the inner loop run."""
    stage = st.tuples(
        st.sampled_from(("guard", "mask", "peel", "shift")),
        st.sampled_from((2, 3, 5, 8)),
        st.sampled_from(sorted(MOVES)),
        st.sampled_from(("serial", "parallel")),
        st.sampled_from(("serial", "vectorize", "unroll")),
    )
    return [(name, *draw(stage)) for name in ("P", "C")]


@examples(12)
@given(plans(), st.sampled_from((None, *EXTENTS)))
@example([("P", "peel", 8, "skew", "serial", "vectorize"), ("C", "guard", 2, "none", "parallel", "serial")], None)
@example([("P", "peel", 8, "skew", "parallel", "vectorize"), ("C", "peel", 3, "skew", "parallel", "unroll")], None)
def test_any_mixture_of_tails_moves_and_kinds_of_loops_is_valid_code(plan: Plan, extent: int | None) -> None:
    n = tl.dim("n") if extent is None else extent
    b = tl.placeholder((n,), "int32", name="B")
    p = tl.compute((n,), lambda i: b[i] * 2, name="P")
    s = tl.Schedule(tl.compute((n,), lambda i: p[n - 1 - i] + 1, name="C"))
    for stage, tail, factor, move, outer, inner in plan:
        names = (f"{stage}.i_o", f"{stage}.i_i")
        s.split(f"{stage}.i", factor, tail=tail)
        attempt(MOVES[move], s, *names)
        for loop in list(s.loops(stage)):
            kind = inner if "i_i" in loop else outer
            if kind != "serial":
                attempt(getattr(s, kind), loop)
    kernel = tl.build(s)
    for size in EXTENTS if extent is None else (extent,):
        values = np.arange(size, dtype=np.int32)
        np.testing.assert_array_equal(kernel(values), values[::-1] * 2 + 1)


@pytest.mark.parametrize("reduce", ["set", "add"])
def test_data_that_places_rows_is_read_anew_in_every_copy_of_an_unrolled_body(reduce: str) -> None:
    """Rows whose places are data do not lie side by side because the text of their indices is the same."""
    places, values = tl.placeholder((4,), "int64", name="places"), tl.placeholder((4, 8), name="values")
    p, q = tl.reduce_axis(4, name="p"), tl.reduce_axis(8, name="q")
    empty = tl.compute((8, 16), lambda i, j: 0.0)
    s = tl.Schedule(tl.scatter(empty, (p, q), lambda p, q: (q, p + tl.clamp(places[p], 0, 8)), lambda p, q: values[p, q], reduce, name="S"))
    s.vectorize("S.q")
    s.unroll("S.p")
    at, data = np.array([3, 0, 5, 2]), np.random.default_rng(0).random((4, 8), np.float32)
    want = np.zeros((8, 16), np.float32)
    for row in range(4):
        want[:, row + at[row]] = data[row] + (want[:, row + at[row]] if reduce == "add" else 0)
    np.testing.assert_array_equal(tl.build(s)(at, data), want)
