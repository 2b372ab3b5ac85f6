"""Quotients that stand for loops: of `F[(i + 1) // 2 + a]` what moves with `i` moves with `q = (i + 1) // 2` alone.

An image that is enlarged reads each pixel for several of its own, whose windows overlap as those of `F[q + a]` do. Where a loop stands in
expressions as one quotient and nowhere else, that takes its place, as a loop over the values that it has.

So do places that floats tell, for all loops that they are made of: in `F[i + a, clamp(int64(floor(j * 0.37)) + b, 0, n - 1)]` the column
stands for `j` and `b`, as a loop over all columns that it may be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import Axis, Binary, Cast, Const, Expr, For, Load
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, children, dtype_of, map_children, nodes, reads_data, substitute
from tensorlang.schedules.rewriting.coordinates import Coordinate, coordinates, forms
from tensorlang.schedules.rewriting.edit import literal_extent

MOST: Final = 1 << 30
"""Values of a place that stands for loops: of others too little is known."""


@dataclass(frozen=True, slots=True)
class Quotients:
    """Loops by whose names quotients and places stand in expressions, in place of loops that are found in nothing else."""

    quotients: dict[Expr, For]

    @classmethod
    def of(cls, exprs: Sequence[Expr], loops: Sequence[For]) -> Quotients:
        """Those of loops with literal bounds."""
        names, found = {loop.loop for loop in loops}, dict[str, set[Expr]]()
        for expr in exprs:
            for axis, use in _uses(expr, names):
                found.setdefault(axis, set()).add(use)
        stands: dict[Expr, For | None] = {}
        for loop in loops:
            for use in found.get(loop.loop, ()):
                if all(found[name] == {use} for name in axes_of(use)):
                    stands[use] = _rounded_stand(use, loops) if is_rounded(use) else _stand(use, loop)
        return cls({quotient: loop for quotient, loop in stands.items() if loop is not None})

    def within(self, expr: Expr) -> Expr:
        """An expression with loops for quotients."""
        if not self.quotients:
            return expr
        loop = self.quotients.get(expr)
        return map_children(expr, self.within) if loop is None else Axis(loop.loop)

    def loops(self, loops: Sequence[For]) -> list[For]:
        """Loops with those for quotients in place of their own."""
        stand = {name: loop for quotient, loop in self.quotients.items() for name in axes_of(quotient)}
        return list({loop.loop: loop for loop in (stand.get(loop.loop, loop) for loop in loops)}.values())

    def undone(self, expr: Expr) -> Expr:
        """An expression with quotients for their loops."""
        return substitute(expr, {loop.loop: quotient for quotient, loop in self.quotients.items()}) if self.quotients else expr


def coordinates_of(expr: Expr, own: Sequence[For]) -> tuple[Quotients, list[Coordinate]]:
    """What an expression moves with of the loops of a stage, in some of which quotients may stand."""
    quotients = Quotients.of((expr,), own)
    return quotients, coordinates(forms(quotients.within(expr)), quotients.loops(own))


def is_rounded(expr: Expr) -> bool:
    """Do floats tell, and no data, where something is?"""
    return any(isinstance(node, Cast) and dtype_of(node.value).is_floating for node in nodes(expr)) and not reads_data(expr)


def _uses(expr: Expr, names: Collection[str]) -> Iterator[tuple[str, Expr]]:
    """Each axis in an expression, with the quotient of it alone, or the place of loops of these names, that it stands in, or itself."""
    match expr:
        case Axis(name):
            yield name, expr
        case Binary("floordiv", left, Const()) if len(axes_of(expr)) == 1 and linear(left).terms.keys() == {Axis(*axes_of(expr))}:
            yield next(iter(axes_of(expr))), expr
        case Load(_, index):
            for part in index:
                whole = is_rounded(part) and axes_of(part) <= set(names)
                yield from ((name, part) for name in axes_of(part)) if whole else _uses(part, names)
        case _:
            for part in children(expr):
                yield from _uses(part, names)


def _stand(quotient: Expr, loop: For) -> For | None:
    """A loop over the values of a quotient, if it has each between the first and the last."""
    extent = literal_extent(loop)
    if not (isinstance(quotient, Binary) and isinstance(quotient.right, Const) and isinstance(loop.lo, Const)) or not extent:
        return None
    form, by, first = linear(quotient.left), int(quotient.right.value), int(loop.lo.value)
    step = form.terms[Axis(loop.loop)]
    if by <= 0 or abs(step) > by:
        return None
    ends = sorted((form.constant + step * at) // by for at in (first, first + extent - 1))
    return For(f"{loop.loop}_q", ir.const(ends[0]), ir.const(ends[1] + 1), loop.body)


def _rounded_stand(place: Expr, loops: Sequence[For]) -> For | None:
    """A loop over the values that a place may have."""
    own = [loop for loop in loops if loop.loop in axes_of(place)]
    known: dict[Expr, tuple[int, int]] = {}
    for loop in own:
        if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
            return None
        known[Axis(loop.loop)] = int(loop.lo.value), int(loop.hi.value) - 1
    low, high = Bounds(known).values(place)
    return For(f"{own[0].loop}_q", ir.const(low), ir.const(high + 1), own[0].body) if high - low < MOST else None
