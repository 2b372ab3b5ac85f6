"""Bounds of loops of which a range around them leaves less: `min(4, j + 1)` is 4 where j is at least 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Compare, Expr, For, Stmt
from tensorlang.ir.traverse import map_statements
from tensorlang.schedules.legality.accesses import facts_of


def narrowed(stmt: Stmt, facts: Sequence[Expr]) -> Stmt:
    """The statement with the extrema in its loops' bounds decided, as far as facts about the loops around it tell."""
    if not isinstance(stmt, For):
        return map_statements(stmt, lambda part: narrowed(part, facts))
    lo, hi = extremum("max", _sides("max", stmt.lo), facts), extremum("min", _sides("min", stmt.hi), facts)
    loop = stmt if (lo, hi) == (stmt.lo, stmt.hi) else replace(stmt, lo=lo, hi=hi)
    return map_statements(loop, lambda part: narrowed(part, [*facts, *facts_of(loop)]))


def extremum(op: str, bounds: Sequence[Expr], facts: Sequence[Expr]) -> Expr:
    """The extremum of bounds, without those that another one implies."""
    kept = list(dict.fromkeys(bounds))
    for bound in tuple(kept):
        beyond = "gt" if op == "max" else "lt"
        if any(other is not bound and find(*facts, Compare(beyond, bound, other)) is None for other in kept):
            kept.remove(bound)
    return simplify(reduce(lambda left, right: Binary(op, left, right), kept))


def _sides(op: str, bound: Expr) -> list[Expr]:
    if isinstance(bound, Binary) and bound.op == op:
        return [*_sides(op, bound.left), *_sides(op, bound.right)]
    return [bound]
