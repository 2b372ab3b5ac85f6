"""`partition` runs the iterations for which conditions hold apart, each iteration once; `fission(after=)` takes them out of a tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.programs import check, code_and_reason, scale
from tests.schedules.recurrences import triangular
from tests.thinned import crossed


def banded(n: Any, low: int, high: int) -> Any:
    """Sums of the elements of a row from `low` before to `high` after the diagonal."""
    x, k = tl.placeholder((n, n), name="X"), tl.reduce_axis(n, name="k")
    return tl.compute((n,), lambda i: tl.sum(x[i, k], axis=k, where=(k >= i - low) & (k <= i + high)), name="Y")


def solved(n: int) -> Any:
    """The solution of lower triangular systems."""
    lower, b, k = tl.placeholder((n, n), name="L"), tl.placeholder((n, 3), name="B"), tl.reduce_axis(n, name="k")

    def element(i: Any, j: Any, x: Any) -> Any:
        return (b[i, j] - tl.sum(lower[i, k] * x[k, j], axis=k, where=k < i)) / (lower[i, i] + 2)

    return tl.recurrence((n, 3), element, name="X")


def test_what_holds_for_a_whole_tile_stands_apart() -> None:
    s = tl.Schedule(triangular(24))
    _, within = s.split("Y.i", 8)
    s.partition("Y.k", across=within)
    expected = """\
Y(X: float32[24, 24]) -> Y: float32[24]
    for i in range(24):
        Y[i] = 0.0                                           # Y.init
    for i_o in range(3):                                     # i = 8 i_o + i_i   guard
        for i_i in range(8):
            for k in range(8 * i_o + 1):
                Y[i] += X[i, k]                              # Y
            for k_last in range(8 * i_o + 1, 24):
                if k_last <= i:
                    Y[i] += X[i, k_last]                     # Y"""
    assert str(s) == expected
    check(s)


@crossed({"n": [0, 1, 5, 16, 21], "low, high": [(0, 0), (2, 3), (-1, 4), (40, 0), (3, 40)], "tile": [0, 4]})
def test_every_iteration_runs_once(n: int, low: int, high: int, tile: int) -> None:
    for extent, dims in ((n, {}), (tl.dim("n"), {"n": n})):
        s = tl.Schedule(banded(extent, low, high))
        within = s.split("Y.i", tile)[1] if tile else None
        if s.can("partition", "Y.k", within):
            s.partition("Y.k", within)
            check(s, dims=dims)
        else:
            assert dims or low > n or high > n or n < 2 * tile + low + high


def test_a_loop_around_is_cut_where_a_condition_holds_for_all_inside() -> None:
    """Rows of a tile are all beyond the last of its columns, so that nothing is asked in it."""
    s = tl.Schedule(triangular(21))
    rows, _ = s.split("Y.i", 4)
    columns, within = s.split("Y.k", 4)
    s.reorder(columns, "Y.i_i", within)
    s.partition(columns)
    text = str(s)
    assert "for k_o in range(i_o):" in text.replace("minimum(6, i_o)", "i_o") and text.count("if ") == 1
    s.vectorize(within)
    s.parallel(rows)
    check(s)


@pytest.mark.parametrize("n", [5, 8, 9, 30])
def test_a_block_of_a_triangular_solution_waits_for_itself_alone(n: int) -> None:
    s = tl.Schedule(solved(n))
    outer, inner = s.split("X.i", 4, "peel")
    s.reorder(outer, inner, "X.j")
    whole = s.copy()
    whole.fission("X.j", after="X.1.k")
    assert not whole.can("fission", inner, after="X.1.j")
    s.partition("X.1.k", across=inner)
    s.fission("X.j", after="X.1.k")
    s.fission(inner, after="X.1.j")
    assert str(s).count("+=") == 2 and s.loops("X.1")[:3] == ("X.1.i_i", "X.1.j", "X.1.k")
    check(s)


def test_selects_inside_know_the_condition() -> None:
    x, k = tl.placeholder((12, 12), name="X"), tl.reduce_axis(12, name="k")
    value = tl.compute((12,), lambda i: tl.sum(tl.select(k < i, x[i, k], -x[i, k]), axis=k, where=k < i), name="Y")
    s = tl.Schedule(value)
    s.partition("Y.k")
    whole, rest = (line for line in str(s).splitlines() if "+=" in line)
    assert "select" not in whole and "select" in rest
    check(s)


def test_misuse_is_refused() -> None:
    s = tl.Schedule(scale())
    nothing = "no condition in 'j' says, by a linear form, from where or up to where it runs in whatever iterations"
    assert code_and_reason(s, "partition", "j") == ("TL-S005", nothing)
    s = tl.Schedule(triangular(9))
    assert code_and_reason(s, "partition", "Y.k", across="Y.k") == ("TL-S105", "'k' does not stand around 'k'")
    s.vectorize("Y.k")
    assert code_and_reason(s, "partition", "Y.k") == ("TL-S107", "the loop is already vector; partition it before")
    at, kept = tl.placeholder((9,), "int32", name="at"), tl.placeholder((9, 9), name="X")
    k = tl.reduce_axis(9, name="k")
    s = tl.Schedule(tl.compute((9,), lambda i: tl.sum(kept[i, k], axis=k, where=k < at[i]), name="Y"))
    assert code_and_reason(s, "partition", "Y.k")[0] == "TL-S005"


def test_bounds_that_would_follow_a_lane_are_refused() -> None:
    """Lanes run one loop together; over all of them the bounds may be."""
    s = tl.Schedule(triangular(24))
    lane = s.split("Y.i", 8)[1]
    s.vectorize(lane)
    code, reason = code_and_reason(s, "partition", "Y.k")
    assert code == "TL-S104" and "partition it before, or across='i_i'" in reason
    s.partition("Y.k", across=lane)
    check(s)


def test_fission_after_a_loop_that_is_not_there_is_refused() -> None:
    s = tl.Schedule(solved(9))
    assert code_and_reason(s, "fission", "X.j", after="X.i") == ("TL-S105", "'i' does not stand directly in 'j'")
    x = tl.placeholder((4, 5), name="X")
    y = tl.compute((4, 5), lambda i, j: x[i, j] + 1, name="Y")
    z = tl.compute((4, 5), lambda i, j: y[i, j] * 2, name="Z")
    s = tl.Schedule(z)
    s.compute_at("Y", "Z.i")
    assert code_and_reason(s, "fission", "Z.i", after="Z.j") == ("TL-S105", "nothing in 'i' runs after 'j'")


def test_bounds_that_follow_the_loop_itself_are_none() -> None:
    s = tl.Schedule(triangular(9))
    s.reorder("Y.k", "Y.i")
    s.skew("Y.i", by="Y.k")
    if s.can("partition", "Y.k"):
        s.partition("Y.k")
    check(s)


def test_conditions_on_data_stay() -> None:
    rng = np.random.default_rng(0)
    x, at, k = tl.placeholder((9, 9), name="X"), tl.placeholder((9,), "int32", name="at"), tl.reduce_axis(9, name="k")
    s = tl.Schedule(tl.compute((9,), lambda i: tl.sum(x[i, k], axis=k, where=(k < at[i]) & (k <= i)), name="Y"))
    s.partition("Y.k")
    given, ends = rng.random((9, 9), dtype=np.float32), rng.integers(0, 9, 9).astype(np.int32)
    wanted = [given[i, : min(ends[i], i + 1)].sum() for i in range(9)]
    np.testing.assert_allclose(tl.build(s)(*(given if buffer.name == "X" else ends for buffer in s.nest.inputs)), wanted, rtol=1e-5)
