"""Quotients that stand for loops: of `F[(i + 1) // 2 + a]` what moves with `i` moves with `q = (i + 1) // 2` alone.

An image that is enlarged reads each pixel for several of its own, whose windows overlap as those of `F[q + a]` do. Where a loop stands in
expressions as one quotient and nowhere else, that takes its place, as a loop over the values that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tensorlang import ir
from tensorlang.ir import Axis, Binary, Const, Expr, For
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, children, map_children, substitute
from tensorlang.schedules.rewriting.coordinates import Coordinate, coordinates, forms
from tensorlang.schedules.rewriting.edit import literal_extent


@dataclass(frozen=True, slots=True)
class Quotients:
    """Loops by whose names quotients stand in expressions, in place of loops that are found in nothing else."""

    quotients: dict[Expr, For]

    @classmethod
    def of(cls, exprs: Sequence[Expr], loops: Sequence[For]) -> Quotients:
        """Those of loops with literal bounds."""
        found: dict[str, set[Expr]] = {}
        for expr in exprs:
            for axis, quotient in _uses(expr):
                found.setdefault(axis, set()).add(quotient)
        taken = {quotient: loop for loop in loops for quotient in found.get(loop.loop, ()) if len(found[loop.loop]) == 1}
        stands = {quotient: _stand(quotient, loop) for quotient, loop in taken.items()}
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
        return [stand.get(loop.loop, loop) for loop in loops]

    def undone(self, expr: Expr) -> Expr:
        """An expression with quotients for their loops."""
        return substitute(expr, {loop.loop: quotient for quotient, loop in self.quotients.items()}) if self.quotients else expr


def coordinates_of(expr: Expr, own: Sequence[For]) -> tuple[Quotients, list[Coordinate]]:
    """What an expression moves with of the loops of a stage, in some of which quotients may stand."""
    quotients = Quotients.of((expr,), own)
    return quotients, coordinates(forms(quotients.within(expr)), quotients.loops(own))


def _uses(expr: Expr) -> Iterator[tuple[str, Expr]]:
    """Each axis in an expression, with the quotient of it alone that it stands in, or itself."""
    match expr:
        case Axis(name):
            yield name, expr
        case Binary("floordiv", left, Const()) if len(axes_of(expr)) == 1 and linear(left).terms.keys() == {Axis(*axes_of(expr))}:
            yield next(iter(axes_of(expr))), expr
        case _:
            for part in children(expr):
                yield from _uses(part)


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
