"""What is known of indices is true of every iteration, and enough for reads in strips whose last one is short."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.known import Known
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Expr, For, Load, Store, block, const
from tensorlang.ir.traverse import loads_of, statements

OUTER, INNER = Axis("o"), Axis("i")


def plus(*parts: Expr) -> Expr:
    whole, *others = parts
    for part in others:
        whole = Binary("add", whole, part)
    return whole


def times(expr: Expr, factor: int) -> Expr:
    return Binary("mul", expr, const(factor))


def inside(strips: int, rows: int, more: int, extent: int, first: int) -> Known:
    """A loop over strips, and in it one over rows and `more`, as far as the extent."""
    lo, hi = plus(times(OUTER, rows), const(first)), Binary("min", plus(times(OUTER, rows), const(rows + more)), const(extent))
    return Known().inside(For("o", const(0), const(strips), "serial", block())).inside(For("i", lo, hi, "serial", block()))


small = st.integers(0, 5)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), small, small, small, st.integers(1, 4), st.integers(-3, 3))
def test_an_interval_holds_every_value(strips: int, rows: int, more: int, short: int, first: int, by: int, offset: int) -> None:
    extent = max(1, strips * rows - short)
    known, weight = inside(strips, rows, more, extent, first), rows // by
    index = plus(Binary("floordiv", plus(INNER, const(first)), const(by)), times(OUTER, -weight), const(offset))
    pairs = [(o, i) for o in range(strips) for i in range(o * rows + first, min(o * rows + rows + more, extent))]
    values = [(i + first) // by - weight * o + offset for o, i in pairs]
    ends = known.interval(index)
    assert all(ends is None or ends[0] <= value <= ends[1] for value in values)


@pytest.mark.parametrize(("rows", "by"), [(32, 1), (32, 2), (12, 3)])
def test_a_short_last_strip_hides_nothing(rows: int, by: int) -> None:
    known = inside(49, rows, 0, 49 * rows - 5, 0)
    assert known.interval(plus(Binary("floordiv", INNER, const(by)), times(OUTER, -(rows // by)))) == (0, rows // by - 1)


def test_what_strips_choose_is_read_by_all_lanes() -> None:
    """Of words AVX2 has no masked loads: each lane would be a branch, and a camera's pipeline took five times its time."""
    x = tl.placeholder((80, 64), "int16", name="x")
    made = tl.compute((79, 64), lambda i, j: x[i, j] * 2, name="made")
    y = tl.compute((78, 64), lambda i, j: tl.select(x[i, j] > 3, made[i, j], made[i + 1, j]), name="y")
    z: Any = tl.compute((77, 64), lambda i, j: y[i, j] + y[i + 1, j], name="z")
    s = tl.Schedule(z)
    strip = s.split("z.i", 16, "peel")[0]
    s.compute_at("y", strip)
    s.compute_at("made", strip)
    for stage in ("made", "y", "z"):
        s.vectorize(s.split(f"{stage}.j", 16)[1])
    assert "minimum(16 * i_o" in str(s)
    nest = lower(s.nest, target("x86-64-v3"))
    stores = [part for part in statements(nest.body) if isinstance(part, Store) and part.stage == "y"]
    chosen = [load for store in stores for value in store.values for load in loads_of(value) if isinstance(load, Load)]
    assert stores
    assert all(load.exists for load in chosen if getattr(load.buffer, "name", "") == "made")
