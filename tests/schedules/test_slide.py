"""The sliding window of `store_at`: an iteration computes what those before it have not, and every value stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.tensor import Tensor
from tensorlang.ir import For, Select
from tensorlang.ir.traverse import substatements, walk
from tensorlang.schedules.rewriting.edit import loops
from tests.schedules.programs import blur, check, matmul
from tests.thinned import crossed


def slides(s: tl.Schedule) -> set[str]:
    """The loops that start where earlier iterations ended."""
    return {loop.loop for loop in loops(s.nest.body) if any(isinstance(node, Select) for node in walk(loop.lo))}


def computed(s: tl.Schedule, stage: str) -> int:
    """How often a stage is computed, where all bounds are known."""

    def value(expr: Any, at: dict[str, int]) -> int:
        match expr:
            case tl.ir.Const(found, _):
                return int(found)
            case tl.ir.Axis(name):
                return at[name]
            case Select(tl.ir.Compare(_, left, right), yes, no):
                return value(yes if value(left, at) > value(right, at) else no, at)
            case tl.ir.Binary(op, left, right):
                a, b = value(left, at), value(right, at)
                return {"add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b)}[op]
        raise AssertionError(expr)

    def count(stmt: Any, at: dict[str, int]) -> int:
        match stmt:
            case For():
                return sum(count(stmt.body, {**at, stmt.loop: i}) for i in range(value(stmt.lo, at), value(stmt.hi, at)))
            case tl.ir.Store():
                return int(stmt.stage == stage)
        return sum(count(part, at) for part in substatements(stmt))

    return count(s.nest.body, {})


def placed(rows: int = 12, columns: int = 6, factor: int = 4, tail: Any = "guard") -> tl.Schedule:
    """A blur whose rows are computed where they are needed and kept for a strip of `factor` of them."""
    s = tl.Schedule(blur(rows, columns))
    outer, inner = s.split("v.y", factor, tail)
    s.compute_at("h", inner)
    s.store_at("h", outer)
    return s


def pyramid(rows: int = 13, columns: int = 9) -> Tensor:
    """g = 2 X; h and v each sum three rows."""
    x = tl.placeholder((rows + 4, columns), name="X")
    g = tl.compute((rows + 4, columns), lambda i, j: x[i, j] * 2, name="g")
    h = tl.compute((rows + 2, columns), lambda i, j: g[i, j] + g[i + 1, j] + g[i + 2, j], name="h")
    result: Tensor = tl.compute((rows, columns), lambda i, j: h[i, j] + h[i + 1, j] + h[i + 2, j], name="v")
    return result


def test_each_row_of_a_strip_is_computed_once() -> None:
    s = placed()
    assert computed(s, "h") == 3 * 6 * 6  # strips, rows, columns
    assert computed(tl.Schedule.from_json(s.outputs, s.to_json()), "h") == 3 * 6 * 6
    check(s)


def test_without_reuse_an_iteration_computes_all_that_it_needs() -> None:
    s = tl.Schedule(blur(12, 6))
    outer, inner = s.split("v.y", 4)
    s.compute_at("h", inner)
    s.store_at("h", outer, reuse="none")
    assert repr(s).endswith("s.store_at('h', 'v.y_o', reuse='none')")
    assert not slides(s)
    assert computed(s, "h") == 12 * 3 * 6
    s.unroll("h.y")
    check(s)
    e = s.can("store_at", "h", outer, "slid").error
    assert e is not None
    assert (e.code, e.reason) == ("TL-S005", "reuse is 'slid', not one of 'slide', 'none'")


@crossed({"tail": ["guard", "mask", "peel", "shift"], "rows": [0, 1, 2, 7, 13]})
def test_strips_of_every_tail_and_extent_keep_their_values(rows: int, tail: Any) -> None:
    s = placed(rows, 5, 4, tail)
    check(s)
    if tail != "shift":
        s.parallel("v.y_o")
    s.vectorize("h.x")
    check(s)


def test_rows_and_columns_slide_along_loops_of_their_own() -> None:
    x = tl.placeholder((16, 18), name="X")
    h = tl.compute((15, 17), lambda i, j: x[i, j] + x[i + 1, j + 1], name="h")
    s = tl.Schedule(tl.compute((12, 14), lambda i, j: h[i, j] + h[i + 2, j] + h[i, j + 3] + h[i + 2, j + 3], name="v"))
    io, jo, _, ji = s.tile("v.i", "v.j", 4, 7)
    s.compute_at("h", ji)
    s.store_at("h", jo)
    assert slides(s) == {"h.i", "h.j"}
    assert computed(s, "h") == 3 * 2 * (4 + 2) * (7 + 3)
    check(s)
    s.parallel(io)
    s.unroll(ji)
    check(s)


@pytest.mark.parametrize("order", [("h", "g"), ("g", "h")])
def test_a_chain_of_producers_slides_together(order: tuple[str, str]) -> None:
    s = tl.Schedule(pyramid())
    outer, inner = s.split("v.i", 4)
    s.compute_at("h", inner)
    s.compute_at("g", inner)
    for stage in order:
        s.store_at(stage, outer)
    assert slides(s) == {"g.i", "h.i"}
    check(s)
    again = tl.Schedule(pyramid())
    again.split("v.i", 4)
    again.compute_at("h", inner)
    again.store_at("h", outer)
    again.compute_at("g", inner)  # its box is that of the whole window
    again.store_at("g", outer)
    assert slides(again) == {"g.i", "h.i"}
    check(again)


def test_a_reduction_is_initialised_and_summed_once() -> None:
    c = matmul(9, 5, 4)
    s = tl.Schedule(tl.compute((7, 5), lambda i, j: c[i, j] + c[i + 2, j], name="D"))
    outer, inner = s.split("D.i", 3)
    s.compute_at("C", inner)
    s.store_at("C", outer)
    assert slides(s) == {"C.i", "C.init.i"}
    check(s)


def test_what_no_loop_moves_is_computed_in_its_first_iteration() -> None:
    x = tl.placeholder((6, 5), name="X")
    h = tl.compute((6, 5), lambda i, j: x[i, j] * 3, name="h")
    k = tl.reduce_axis(4, name="k")
    s = tl.Schedule(tl.compute((6, 5), lambda i, j: tl.sum(h[i, j] * x[k, j], axis=k), name="v"))
    s.compute_at("h", "v.k")
    s.store_at("h", "v.j")
    assert computed(s, "h") == 30
    check(s)


def test_a_box_that_moves_diagonally_is_computed_as_before() -> None:
    x = tl.placeholder((12, 12), name="X")
    h = tl.compute((12, 12), lambda i, j: x[i, j] + 1, name="h")
    s = tl.Schedule(tl.compute((10, 9), lambda i, j: h[i, i] + h[i + 2, i + 1] + x[i, j], name="v"))
    s.reorder("v.j", "v.i")
    s.compute_at("h", "v.i")
    s.store_at("h", "v.j")
    assert not slides(s)
    check(s)


def test_a_window_stops_sliding_where_an_iteration_could_be_left_out() -> None:
    s = tl.Schedule(blur(12, 6))
    s.tile("v.y", "v.x", 4, 3)
    s.fuse("v.x_o", "v.y_i")
    s.compute_at("h", "v.x_o_y_i")
    s.store_at("h", "v.y_o")
    assert not slides(s)
    check(s)


def test_iterations_that_share_a_window_stay_in_order() -> None:
    s = placed()
    e = s.can("parallel", "v.y_i").error
    assert e is not None
    assert e.code == "TL-S101"
    assert e.counterexample is not None
    assert e.counterexample["first"]["stage"] == "h"
    s.shift("v.y_i", 3)
    s.peel("v.y_i_s", first=1)
    check(s)


def test_storage_that_moves_again_slides_along_more_loops() -> None:
    s = tl.Schedule(blur(24, 6))
    outer, inner = s.split("v.y", 12)
    middle, inner = s.split(inner, 4)
    s.compute_at("h", inner)
    s.store_at("h", middle)
    assert computed(s, "h") == 6 * 6 * 6
    s.store_at("h", outer)
    check(s)
    s.compute_root("h")
    assert str(s) == str(_split_twice())


def _split_twice() -> tl.Schedule:
    s = tl.Schedule(blur(24, 6))
    s.split("v.y", 12)
    s.split("v.y_i", 4)
    return s


def test_windows_over_run_time_extents() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    x = tl.placeholder((n + 2, m), name="X")
    h = tl.compute((n + 2, m), lambda i, j: x[i, j] * 2, name="h")
    s = tl.Schedule(tl.compute((n, m), lambda i, j: h[i, j] + h[i + 2, j], name="v"))
    outer, inner = s.split("v.i", 4)
    s.compute_at("h", inner)
    s.store_at("h", outer)
    assert slides(s) == {"h.i"}
    s.parallel(outer)
    for rows, columns in ((0, 3), (1, 1), (5, 0), (8, 9), (11, 4)):
        check(s, dims={"n": rows, "m": columns, "n + 2": rows + 2})


def test_what_partial_results_tell_only_of_their_iteration_is_computed_in_each() -> None:
    A, k = tl.placeholder((12, 5), "int32", name="A"), tl.reduce_axis(5, "k")
    Y = tl.compute((12,), lambda i: tl.sum(A[i, k], axis=k) * 2, name="Y")
    s = tl.Schedule(Y)
    s.rfactor("Y.1.k")
    outer, inner = s.split("Y.i", 4)
    s.reorder(inner, outer)
    s.fission(outer)
    s.store_root("Y.1")
    a = np.arange(60, dtype="i4").reshape(12, 5)
    np.testing.assert_array_equal(tl.build(s)(a), 2 * a.sum(axis=1))
