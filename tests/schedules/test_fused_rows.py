"""What caches hold of rows does not depend on how the loops over these are written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.footprints import scope
from tensorlang.schedules.model.fused_rows import rows_apart
from tensorlang.schedules.model.parts import Loop, statements
from tensorlang.schedules.model.program import program
from tests.draws import examples
from tests.schedules.test_model import addresses

ZEN = tl.machine("znver4")


def columns_of(rows: int, columns: int, taps: int = 5) -> tl.Tensor:
    """Sums of some rows, one above the other: none is read again before the next row is begun."""
    x = tl.placeholder((rows + taps - 1, columns), name="X")
    found: tl.Tensor = tl.compute((rows, columns), lambda i, j: sum((x[i + k, j] for k in range(1, taps)), start=x[i, j]), name="Y")
    return found


def scheduled(rows: int, columns: int, lanes: int, *, fused: bool) -> tl.Schedule:
    """In vectors of a row, or of all rows as one."""
    s = tl.Schedule(columns_of(rows, columns))
    _, inner = s.split(s.fuse("i", "j") if fused else "j", lanes)
    s.vectorize(inner)
    return s


@pytest.mark.parametrize("columns", [320, 2000, 40000])
def test_rows_that_are_fused_are_fetched_as_often_as_others(columns: int) -> None:
    """Five rows of 2,000 floats leave the first level before the next one comes: predicted to be read once, they took 1.4 times as long."""
    apart, fused = (estimate(scheduled(200, columns, 64, fused=fused).nest, ZEN).bytes for fused in (False, True))
    for level in ("L2", "L3", "memory"):
        assert fused[level] == pytest.approx(apart[level], rel=0.1, abs=0.1 * apart["L1"])


@examples(2)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_rows_taken_apart_touch_the_same_lines(planes: int, rows: int, columns: int, turned: bool) -> None:
    """Of three loops that are one, also where a tensor lies in another order."""
    x = tl.placeholder((planes, rows, columns), name="X")
    y = tl.placeholder((rows, planes, columns) if turned else (planes, rows, columns), name="Z")
    s = tl.Schedule(tl.compute((planes, rows, columns), lambda p, i, j: x[p, i, j] + (y[i, p, j] if turned else y[p, i, j]), name="Y"))
    s.fuse(s.fuse("p", "i"), "j")
    parts = program(s.nest)
    before, after = ({box.name: box.units(4).total for box in scope(tuple(part)).whole} for part in (parts, rows_apart(tuple(parts))))
    assert after == pytest.approx(before)
    assert len(list(addresses(list(parts)))) == len(list(addresses(list(rows_apart(tuple(parts))))))


def test_a_row_that_is_fused_is_a_loop_of_its_own() -> None:
    (outer,) = rows_apart(tuple(program(scheduled(40, 640, 64, fused=True).nest)))
    assert isinstance(outer, Loop) and outer.trips == pytest.approx(40)
    (inner,) = (part for part in outer.body if isinstance(part, Loop))
    assert inner.trips == pytest.approx(10)
    plain = tuple(program(scheduled(40, 640, 64, fused=False).nest))
    assert rows_apart(plain) == plain


def test_ends_of_rows_that_are_peeled_are_not_what_rows_are_read_by() -> None:
    """Two pixels at the begin of a row and two at its end, each by itself: the lines between them are a run, and fetched ahead."""
    h, w = 1000, 1500
    x, k = tl.placeholder((h, w), name="X"), range(-2, 3)
    y = tl.compute((h, w), lambda i, j: sum((x[i, tl.clamp(j + a, 0, w - 1)] for a in k), start=0.0), name="Y")
    made = []
    for first in (0, 2):
        s = tl.Schedule(y)
        if first:
            s.peel("j", first=2, last=2)
        _, inner = s.split("j", 32)
        s.vectorize(inner)
        made.append(s)
    whole, peeled = (estimate(s.nest, ZEN) for s in made)
    assert peeled.shares["memory"] < 1.1 * whole.shares["memory"]
    given = np.random.default_rng(0).random((h, w), "float32")
    np.testing.assert_array_equal(*(tl.build(s)(given) for s in made))
    assert {statement.stage for statement in statements(program(made[1].nest))} == {"Y"}
