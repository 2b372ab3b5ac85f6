"""What loops and conditions tell of indices: intervals of axes, and of the sums that conditions speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isinf
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds, conjuncts
from tensorlang.algebra.extrema import by_intervals
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import Linear, bound_terms, expression, linear
from tensorlang.ir.traverse import dtype_of
from tensorlang.schedules.legality.accesses import facts_of

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
        return self.under([*facts_of(loop), *_of_each_end(loop), *_of_quotients(loop)])

    def interval(self, expr: Expr) -> tuple[float, float] | None:
        """The least and the greatest value of an index; None where nothing is known of it."""
        form, found = linear(expr), self.bounds.interval(expr) or _ANY
        terms = frozenset(form.terms.items())
        for part, ends in self.sums.items():
            if part <= terms:
                rest = expression(Linear(form.constant, dict(terms - part)))
                others = self.bounds.interval(rest) or _ANY
                found = max(found[0], ends[0] + others[0]), min(found[1], ends[1] + others[1])
        for atom, factor in form.terms.items():
            if factor == 1 and isinstance(atom, Binary) and atom.op == "floordiv" and isinstance(by := atom.right, Const) and by.value > 0:
                beside = form.plus(Linear(0, {atom: 1}), -1)  # floor(e / c) + r is floor((e + c r) / c)
                ends = self.interval(expression(linear(atom.left).plus(beside, int(by.value)))) or _ANY
                found = max(found[0], _floor(ends[0], int(by.value))), min(found[1], _floor(ends[1], int(by.value)))
        return None if found == _ANY else found

    def never_greater(self, one: Expr, other: Expr) -> bool:
        """Is the first of two never greater than the second?"""
        apart = self.interval(Binary("sub", one, other))
        return by_intervals(self.bounds)(one, other) or (apart is not None and apart[1] <= 0)


def _of_each_end(loop: For) -> Iterator[Expr]:
    """What bounds that are the least or the greatest of several say of each: `a < min(e, f)` is `a < e` and `a < f`."""
    for lower, op in ((True, "ge"), (False, "lt")):
        terms = bound_terms(loop.lo if lower else loop.hi, lower=lower)
        if len(terms) > 1:
            yield from (Compare(op, Axis(loop.loop), expression(term)) for term in terms)


def _of_quotients(loop: For) -> Iterator[Expr]:
    """What bounds that are quotients say without division: `a < floor(e / c)` is `c (a + 1) <= e`."""
    for lower in (False, True):
        for term in bound_terms(loop.lo if lower else loop.hi, lower=lower):
            quotients = [atom for atom, factor in term.terms.items() if factor == 1 and isinstance(atom, Binary) and atom.op == "floordiv"]
            if len(quotients) == 1 and isinstance(by := quotients[0].right, Const) and by.value > 0:
                rest = term.plus(Linear(0, {quotients[0]: 1}), -1)
                beyond = expression(Linear(int(by.value)).plus(Linear(0, {Axis(loop.loop): 1}).plus(rest, -1), int(by.value)))
                yield Compare("lt", quotients[0].left, beyond) if lower else Compare("le", beyond, quotients[0].left)


def _floor(end: float, by: int) -> float:
    return end if isinf(end) else end // by


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
