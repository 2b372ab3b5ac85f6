"""Exchanged loops visit the same iterations: compared with enumeration, for random linear bounds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Expr, For, Nest
from tensorlang.ir.traverse import substitute
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.interchange import exchanged
from tests.draws import examples

OUTER, BODY = "Y.o", ir.Block(())
PLACE = Axis(OUTER)


def value(expr: Expr, at: dict[str, int]) -> int:
    found = simplify(substitute(expr, {name: ir.const(number) for name, number in at.items()}))
    assert isinstance(found, Const)
    return int(found.value)


def visited(first: For, second: For) -> Iterator[tuple[int, int]]:
    """The pairs of (Y.o, Y.p) that two nested loops visit."""
    for a in range(value(first.lo, {}), value(first.hi, {})):
        for b in range(value(second.lo, {first.loop: a}), value(second.hi, {first.loop: a})):
            at = {first.loop: a, second.loop: b}
            yield at[OUTER], at["Y.p"]


@st.composite
def linear_bounds(draw: st.DrawFn) -> Expr:
    """A linear form of the outer loop, at times divided, at times the extremum of two."""

    def form() -> Expr:
        factor, offset = draw(st.integers(-3, 3)), draw(st.integers(-6, 12))
        return Binary("add", Binary("mul", ir.const(factor), PLACE), ir.const(offset))

    match draw(st.sampled_from(("plain", "plain", "floor", "minus floor"))):
        case "plain":
            return simplify(form())
        case "floor":
            return simplify(
                Binary("add", Binary("floordiv", form(), ir.const(draw(st.integers(2, 4)))), ir.const(draw(st.integers(-2, 2))))
            )
        case _:
            return simplify(Binary("sub", ir.const(draw(st.integers(0, 9))), Binary("floordiv", form(), ir.const(draw(st.integers(2, 4))))))


@examples(60)
@given(
    st.integers(-3, 3),
    st.integers(-1, 8),
    st.lists(linear_bounds(), min_size=1, max_size=2),
    st.lists(linear_bounds(), min_size=1, max_size=2),
)
def test_both_orders_visit_the_same_iterations(lo: int, extent: int, lows: list[Expr], highs: list[Expr]) -> None:
    low, high = lows[0], highs[0]
    for other in lows[1:]:
        low = Binary("max", low, other)
    for other in highs[1:]:
        high = Binary("min", high, other)
    inner = For("Y.p", low, high, BODY)
    outer = For(OUTER, ir.const(lo), ir.const(lo + extent), inner)
    nest = Nest("Y", (), (), (), outer)
    first, second = exchanged(nest, outer, inner, ())
    assert (first.loop, second.loop) == ("Y.p", OUTER)
    assert sorted(visited(first, second)) == sorted(visited(outer, inner))


def test_bounds_that_bend_the_wrong_way_are_refused() -> None:
    inner = For("Y.p", Binary("min", PLACE, ir.const(3)), ir.const(9), BODY)
    outer = For(OUTER, ir.const(0), ir.const(9), inner)
    with pytest.raises(Refusal, match="not as a linear form"):
        exchanged(Nest("Y", (), (), (), outer), outer, inner, ())
