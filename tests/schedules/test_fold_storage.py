"""`store_root` and `fold_storage`: a window along the outermost loop, in as many rows as it is high."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.judged import judge
from tests.schedules.programs import blur, check, refused
from tests.thinned import crossed


def window(height: int = 3, step: int = 1, rows: Any = 12) -> tl.Schedule:
    """v[y] = sum of h[step * y + r] for r < height, over h of all rows."""
    image = tl.placeholder((step * rows + height, 9), "int32", name="X")
    h = tl.compute((step * rows + height, 9), lambda y, x: image[y, x] * 2 + y, name="h")
    r = tl.reduce_axis(height, name="r")
    s = tl.Schedule(tl.compute((rows, 9), lambda y, x: tl.sum(h[step * y + r, x], axis=r), name="v"))
    s.compute_at("h", "v.y")
    s.store_root("h")
    return s


def test_storage_outside_all_loops_lets_the_window_slide_along_the_outermost_one() -> None:
    s = tl.Schedule(blur())
    s.compute_at("h", "v.y")
    s.store_root("h")
    assert "for h.y in range(v.y + select(v.y > 0, 2, 0), v.y + 3):" in str(s)
    check(s)
    assert s.can("store_root", "h").error.code == "TL-S301"


@crossed({"height, step": [(1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (5, 2), (5, 3), (2, 2), (2, 3)]}, count=4)
def test_a_window_needs_as_many_rows_as_it_is_high(height: int, step: int) -> None:
    s = window(height, step)
    for extent in range(1, height):
        assert s.can("fold_storage", "h", 0, extent).error.code == "TL-S305"
    for extent in (height, height + 1, height + 4):
        folded = s.copy()
        folded.fold_storage("h", 0, extent)
        check(folded)


def test_a_folded_axis_counts_from_either_end() -> None:
    s = window()
    s.fold_storage("h", -2, 3)
    assert "h: int64[3, 9]" in str(s)
    assert s.can("fold_storage", "h", 2, 3).error.code == "TL-S005"
    assert s.can("fold_storage", "h", 0, 0).error.code == "TL-S005"


def test_a_tensor_that_is_whole_before_it_is_read_is_not_folded() -> None:
    s = tl.Schedule(blur())
    assert s.can("fold_storage", "h", 0, 3).error.code == "TL-S305"
    s.fold_storage("h", 0, 15)
    check(s)


def test_storage_of_one_tile_is_folded_in_each() -> None:
    s = tl.Schedule(blur())
    y_o, x_o, y_i, _ = s.tile("v.y", "v.x", 5, 8)
    s.compute_at("h", y_i)
    s.store_at("h", x_o)
    s.fold_storage("h", 0, 3)
    assert s.can("parallel", y_i).error.code == "TL-S101"
    s.parallel(y_o)
    s.vectorize(s.split("h.x", 8)[1])
    check(s)


def test_rows_of_run_time_extent_are_folded_too() -> None:
    n = tl.dim("n")
    image = tl.placeholder((n + 2, 9), "int32", name="X")
    h = tl.compute((n + 2, 9), lambda y, x: image[y, x] * 2, name="h")
    s = tl.Schedule(tl.compute((n, 9), lambda y, x: h[y, x] + h[y + 2, x], name="v"))
    s.compute_at("h", "v.y")
    s.store_root("h")
    s.fold_storage("h", 0, 3)
    given = {image: np.arange(63, dtype="int32").reshape(7, 9)}
    assert (tl.build(s)(*given.values()) == tl.evaluate(s.outputs, given)).all()


def test_a_reduction_that_fills_its_rows_is_folded_with_its_initialisation() -> None:
    image = tl.placeholder((14, 9, 4), "int32", name="X")
    c = tl.reduce_axis(4, name="c")
    h = tl.compute((14, 9), lambda y, x: tl.sum(image[y, x, c], axis=c), name="h")
    s = tl.Schedule(tl.compute((12, 9), lambda y, x: h[y, x] + h[y + 2, x], name="v"))
    s.compute_at("h", "v.y")
    s.store_root("h")
    assert not s.can("fold_storage", "h", 0, 2)
    s.fold_storage("h", 0, 3)
    check(s)


@pytest.mark.parametrize("tail", [None, "shift"])
def test_a_stage_inside_whose_loops_another_is_folded_is_not_written_into_its_readers(tail: Any) -> None:
    """A split may leave it as many loops as it has axes, without the one around both."""
    x = tl.placeholder((16, 4), name="X")
    c = tl.compute((16, 4), lambda i, j: x[i, j] + 1, name="C")
    r = tl.compute((16, 4), lambda i, j: c[i, j] * 2, name="R")
    s = tl.Schedule(tl.compute((16, 4), lambda i, j: r[i, j] - 3, name="D"))
    if tail:
        s.split("R.j", 8, tail)
    s.compute_at("C", "R.i")
    s.store_root("C")
    s.fold_storage("C", 0, 2)
    refused(s, "TL-S301", "the loops of 'R' are already scheduled", "compute_inline", "R")
    check(s)


def test_storage_is_not_folded_into_more_places_than_it_has() -> None:
    x = tl.placeholder((8,), "int32", name="X")
    h = tl.compute((8,), lambda i: x[i] + 1, name="h")
    s = tl.Schedule(tl.compute((8,), lambda i: h[i] * 2, name="v"))
    assert s.can("fold_storage", "h", 0, 9).error.reason == "'h' has 8 places along axis 0, which are not folded into 9"
    s.fold_storage("h", 0, 8)
    judge(s)


def in_place(apart: int) -> tl.Schedule:
    """U = T + 1 of all states T of a scan in one row, whose element i is made by way of `h` of the last state's element i - apart."""
    b = tl.placeholder((7,), "int32", name="B")

    def step(t: Any, state: tl.Tensor) -> tl.Tensor:
        def of(i: Any) -> Any:
            return tl.select(i >= apart, state[i - apart], 0) if apart else state[i]

        h = tl.compute((7,), lambda i: tl.maximum(of(i), 3), name="h")
        result: tl.Tensor = tl.compute((7,), lambda i: h[i] + h[i], name="N")
        return result

    states = tl.scan(step, b, 5, name="T")
    s = tl.Schedule(tl.compute((5, 7), lambda t, i: states[t, i] + 1, name="U"))
    s.fuse_loops("T.t", "U.t")
    s.fold_storage("T", 0, 1)
    return s


def test_an_expression_is_written_into_a_reader_that_writes_just_where_it_reads() -> None:
    s = in_place(0)
    s.compute_inline("h")
    assert "h:" not in str(s)
    judge(s)


def test_an_expression_is_not_written_into_a_reader_that_writes_what_another_iteration_reads() -> None:
    s = in_place(1)
    refused(s, "TL-S103", "which 'N' writes before it is used", "compute_inline", "h")
    judge(s)
