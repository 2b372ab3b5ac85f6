"""What loops and conditions tell of indices: intervals of axes, and of the sums that conditions speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds, conjuncts
from tensorlang.algebra.extrema import by_intervals
from tensorlang.ir import Axis, Binary, Compare, Expr, For
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.traverse import dtype_of

Terms: TypeAlias = "frozenset[tuple[Expr, int]]"
"""A sum of axes without its constant."""
_ANY: Final = (-inf, inf)
_AT_MOST: Final = {"lt": -1, "le": 0, "gt": -1, "ge": 0}
"""What the lesser side of an inequality exceeds the other one by, at most."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of axes, and the least and greatest values of sums of them."""

    bounds: Bounds = field(default_factory=Bounds)
    sums: Mapping[Terms, tuple[float, float]] = field(default_factory=dict)

    def under(self, facts: Sequence[Expr]) -> Known:
        """The same, where conditions hold as well."""
        sums = dict(self.sums)
        for fact in facts:
            if isinstance(fact, Compare) and fact.op in _AT_MOST and dtype_of(fact.left) == INT64:
                form = linear(Binary("sub", *((fact.left, fact.right) if fact.op in ("lt", "le") else (fact.right, fact.left))))
                terms, most = frozenset(form.terms.items()), _AT_MOST[fact.op] - form.constant
                least, greatest = sums.get(terms, _ANY)
                sums[terms] = least, min(greatest, most)
                negative = _negative(terms)
                least, greatest = sums.get(negative, _ANY)
                sums[negative] = max(least, -most), greatest
        return Known(self.bounds.under(facts), sums)

    def inside(self, loop: For) -> Known:
        """The same in the iterations of a loop."""
        axis = Axis(loop.loop)
        return self.under([Compare("le", loop.lo, axis), Compare("lt", axis, loop.hi)])

    def interval(self, expr: Expr) -> tuple[float, float] | None:
        """The least and the greatest value of an index; None where nothing is known of it."""
        form, found = linear(expr), self.bounds.interval(expr) or _ANY
        terms = frozenset(form.terms.items())
        for part, ends in self.sums.items():
            if part <= terms:
                rest = expression(Linear(form.constant, dict(terms - part)))
                others = self.bounds.interval(rest) or _ANY
                found = max(found[0], ends[0] + others[0]), min(found[1], ends[1] + others[1])
        return None if found == _ANY else found

    def never_greater(self, one: Expr, other: Expr) -> bool:
        """Is the first of two never greater than the second?"""
        apart = self.interval(Binary("sub", one, other))
        return by_intervals(self.bounds)(one, other) or (apart is not None and apart[1] <= 0)


def _negative(terms: Terms) -> Terms:
    return frozenset((atom, -factor) for atom, factor in terms)


def of_axes(cond: Expr) -> list[Expr]:
    """A condition, and what its parts say of a single axis: `j + 194 < 199` of `j`."""
    found = list(conjuncts([cond]))
    for part in tuple(found):
        if isinstance(part, Compare) and part.op in ("lt", "le", "gt", "ge") and dtype_of(part.left) == INT64:
            form = linear(Binary("sub", part.left, part.right))
            match list(form.terms.items()):
                case [(Axis() as axis, 1)]:
                    found.append(Compare(part.op, axis, ir.const(-form.constant)))
                case [(Axis() as axis, -1)]:
                    found.append(Compare(part.op, ir.const(form.constant), axis))
                case _:
                    pass
    return found
