"""Clamps, remainders and comparisons that the conditions around a statement decide, as those of the last tile ask how long a row is.

    vector j_i in range(8):                         vector j_i in range(8):
        if j_i + 194 < 199:             ->              if j_i + 194 < 199:
            Y[..] = X[(j_i + 195) % 200]                    Y[..] = X[j_i + 195]

What lanes that are off would read is nobody's concern, and the others are contiguous now. By intervals alone, of axes (`algebra.bounds`)
and of the sums that conditions speak of; what holds for most tiles, and not for all, is parted from the rest by `interiors`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.bounds import Bounds, conjuncts, negated
from tensorlang.algebra.extrema import by_intervals, side_of
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.questions import is_question
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For, If, Nest, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, loads_of, map_own_expressions, map_statements, nodes, rewrite, statements

Terms: TypeAlias = "frozenset[tuple[Expr, int]]"
"""A sum of axes without its constant."""
_ANY: Final = (-inf, inf)
_AT_MOST: Final = {"lt": -1, "le": 0, "gt": -1, "ge": 0}
"""What the lesser side of an inequality exceeds the other one by, at most."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of axes, and the least and greatest values of sums of them."""

    bounds: Bounds = field(default_factory=Bounds)
    sums: Mapping[Terms, tuple[float, float]] = field(default_factory=dict)

    def under(self, facts: Sequence[Expr]) -> _Known:
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
        return _Known(self.bounds.under(facts), sums)

    def interval(self, expr: Expr) -> tuple[float, float] | None:
        """The least and the greatest value of an index; None where nothing is known of it."""
        form, known = linear(expr), self.bounds.interval(expr)
        least, greatest = self.sums.get(frozenset(form.terms.items()), _ANY)
        low, high = (-inf, inf) if known is None else known
        found = max(low, least + form.constant), min(high, greatest + form.constant)
        return None if found == _ANY else found

    def never_greater(self, one: Expr, other: Expr) -> bool:
        """Is the first of two never greater than the second?"""
        apart = self.interval(Binary("sub", one, other))
        return by_intervals(self.bounds)(one, other) or (apart is not None and apart[1] <= 0)


def _negative(terms: Terms) -> Terms:
    return frozenset((atom, -factor) for atom, factor in terms)


def settled_by_guards(nest: Nest) -> Nest:
    """The nest with what conditions and loops around each store decide."""
    return replace(nest, body=_settled(nest.body, _Known())) if _asks(nest.body) else nest


def _asks(stmt: Stmt) -> bool:
    stores = (part for part in statements(stmt) if isinstance(part, Store))
    return any(_of_axes_alone(node) for part in stores for expr in expressions(part) for node in nodes(expr))


def _of_axes_alone(node: Expr) -> bool:
    """Is it a question that axes decide, and no data?"""
    return is_question(node) and bool(axes_of(node)) and not any(True for _ in loads_of(node))


def _settled(stmt: Stmt, known: _Known) -> Stmt:
    match stmt:
        case For(name, lo, hi):
            axis = Axis(name)
            inside = known.under([Compare("le", lo, axis), Compare("lt", axis, hi)])
            return map_statements(stmt, lambda part: _settled(part, inside))
        case If(cond, then, orelse):
            made = _settled(then, known.under(_of_axes(cond)))
            other = None if orelse is None else _settled(orelse, known.under(_of_axes(negated(cond))))
            return stmt if made is then and other is orelse else If(cond, made, other)
        case Store():
            return map_own_expressions(stmt, lambda expr: _decided(expr, known))
        case _:
            return map_statements(stmt, lambda part: _settled(part, known))


def _of_axes(cond: Expr) -> list[Expr]:
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


def _decided(expr: Expr, known: _Known) -> Expr:
    def side(node: Expr) -> Expr:
        if not _of_axes_alone(node):
            return node
        match node:
            case Compare():
                return {(1, 1): TRUE, (0, 0): FALSE}.get(known.bounds.values(node), node)
            case Binary("mod", left, Const(by)):
                ends = known.interval(left)
                turns = None if ends is None or inf in map(abs, ends) or ends[0] // by != ends[1] // by else ends[0] // by
                return node if turns is None else Binary("sub", left, ir.const(int(turns * by)))
            case Binary("min" | "max"):
                return side_of(node, known.never_greater)
            case _:
                return node

    new = rewrite(expr, side)
    return expr if new is expr else simplify(new)
