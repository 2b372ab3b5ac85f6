"""Conditions on which the effect of a statement depends: where they fail it does nothing, and loops around it may stop.

    for k_1 in range(16):                           for k_1 in range(min(16, (n + 31) // 32)):
        acc = 0                                         acc = 0
        for k_0 in range(min(32, n - 32 * k_1)):  ->    for k_0 in range(min(32, n - 32 * k_1)):
            acc += A[32 * k_1 + k_0]                        acc += A[32 * k_1 + k_0]
        C[] += acc                                      C[] += acc

A nest of loops does nothing where none of its iterations runs, nor does a partial result to which nothing was added: it is the identity.
Nor does a sum that takes it, of a choice.
Each condition is taken at the iteration of the loops inside at which it holds soonest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.identities import takes_where
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Block, Buffer, Compare, Const, Expr, For, If, Load, Stmt, Store
from tensorlang.ir.linear import below_zero, bound_terms, expression
from tensorlang.ir.traverse import axes_of, map_children, substitute


def effect_conditions(stmt: Stmt) -> Iterator[Expr]:
    """Comparisons over loops outside of a statement without which it does nothing; not all of them."""
    ranges: dict[str, tuple[Expr, Expr]] = {}
    while True:
        match stmt:
            case For(loop, lo, hi, body):
                begins = [expression(term) for term in bound_terms(lo, lower=True)]
                ends = [expression(term) for term in bound_terms(hi, lower=False)]
                for begin, end in product(begins, ends):
                    yield from _soonest(Compare("lt", begin, end), ranges)
                first = next((begin for begin in begins if isinstance(begin, Const)), None)
                last = next((end for end in ends if isinstance(end, Const)), None)
                if first is None or last is None:
                    return
                ranges[loop] = first, ir.const(int(last.value) - 1)
                stmt = body
            case If(cond, then, None):
                for part in conjuncts((cond,)):
                    yield from _soonest(part, ranges)
                stmt = then
            case Alloc():
                inside = _summed(stmt)
                if inside is None:
                    return
                stmt = inside
            case Store():
                for part in takes_where(stmt):
                    yield from _soonest(part, ranges)
                return
            case _:
                return


def _soonest(condition: Expr, ranges: dict[str, tuple[Expr, Expr]]) -> Iterator[Expr]:
    """The condition where the loops inside make it hold soonest, if they enter linearly and it says anything of the loops outside."""
    form = below_zero(condition)
    if form is not None and all(isinstance(atom, Axis) or not axes_of(atom) & ranges.keys() for atom in form.terms):
        at = {axis: first if form.terms.get(Axis(axis), 0) > 0 else last for axis, (first, last) in ranges.items()}
        found = simplify(map_children(condition, lambda side: substitute(side, at)))
        if axes_of(found):
            yield found


def _summed(stmt: Alloc) -> Stmt | None:
    """What adds to a partial result that starts from the identity, lives here, and is combined into something else; or None."""
    own: set[Buffer] = set()
    inside: Stmt = stmt
    while isinstance(inside, Alloc):
        own.update(inside.buffers)
        inside = inside.body
    if not isinstance(inside, Block) or len(inside.body) != 3:
        return None
    start, middle, end = _store(inside.body[0]), inside.body[1], _store(inside.body[2])
    if start is None or end is None or end.reducer is None or start.reducer is not None or not set(start.buffers) <= own:
        return None
    taken = tuple(value.buffer for value in end.values if isinstance(value, Load))
    return middle if taken == start.buffers and len(taken) == len(end.values) and start.values == end.reducer.identities else None


def _store(stmt: Stmt) -> Store | None:
    """The one statement of a nest of loops and conditions."""
    while isinstance(stmt, For) or (isinstance(stmt, If) and stmt.orelse is None):
        stmt = stmt.body if isinstance(stmt, For) else stmt.then
    return stmt if isinstance(stmt, Store) else None
