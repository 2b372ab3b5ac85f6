"""Positions that ascend: where iterations come in the order of the positions that they bring, a later one is never the first of equals.

    for k in range(n): best, at = argmax(best, at, X[k], k)         # X[k] > best, or as great and k < at: the latter never

What `argmax` and `argmin` ask to break ties is so decided, and what is left are two comparisons, and one of whether there is any position
yet, where there were seven. The same for each combination of states of which a component is one of the two that it is given.

Right because every state that the statement finds has either no position, which is less than all, or that of an iteration before: of the
loops that stand around it those that the element does not tell come in ascending order of the position, no two iterations of the others
are about one element, no other statement combines into it, and each begins with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import permutations
from typing import Final

from tensorlang.algebra.bounds import Bounds, chooses, negated
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Compare, Const, Expr, For, Nest, Param, Reducer, Select, Stmt, Store, Unary
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.integers import COMPARE
from tensorlang.ir.linear import Linear, linear
from tensorlang.ir.traverse import axes_of, dtype_of, map_statements, rewrite, statements
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.rewriting.region import trip_bound

ORDERED: Final = ("serial", "unroll")
"""The kinds of loops whose iterations follow one another."""


def in_ascending_order(nest: Nest) -> Nest:
    """The nest with ties of positions decided where iterations come in their order."""
    return replace(nest, body=_decided(nest.body, _scopes(nest.body)))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known of storage.

    The loops around a statement and inside of its declaration, how many statements combine into it, and what others store there.
    """

    loops: tuple[For, ...]
    combined: int
    stored: tuple[Expr, ...]


def _scopes(stmt: Stmt) -> dict[Buffer, _Scope]:
    """The storage that a statement writes to."""
    found: dict[Buffer, _Scope] = {}
    for part in (part for part in statements(stmt) if isinstance(part, Store)):
        for buffer, value in zip(part.buffers, part.values, strict=True):
            known = found.get(buffer, _Scope((), 0, ()))
            combines = part.reducer is not None
            found[buffer] = replace(known, combined=known.combined + combines, stored=(*known.stored, *(() if combines else (value,))))
    return found


def _decided(stmt: Stmt, scopes: Mapping[Buffer, _Scope]) -> Stmt:
    match stmt:
        case For():
            inside = {buffer: replace(scope, loops=(*scope.loops, stmt)) for buffer, scope in scopes.items()}
            return map_statements(stmt, lambda part: _decided(part, inside))
        case Alloc(buffers, body):  # anew in each iteration of the loops around, and other storage than another one of the name
            found = _scopes(body)
            inside = {**scopes, **{buffer: found[buffer] for buffer in buffers if buffer in found}}
            return map_statements(stmt, lambda part: _decided(part, inside))
        case Store(reducer=Reducer() as reducer):
            around = max((scopes[buffer].loops for buffer in stmt.buffers), key=len)
            fresh = (
                scopes[buffer].combined == 1 and set(scopes[buffer].stored) == {identity}
                for buffer, identity in zip(stmt.buffers, reducer.identities, strict=True)
            )
            if not all(fresh) or not _once(stmt, around):
                return stmt
            made = _of_positions(stmt, reducer, around)
            return stmt if made is reducer else replace(stmt, reducer=made)
        case Store():
            return stmt
        case _:
            return map_statements(stmt, lambda part: _decided(part, scopes))


def _of_positions(store: Store, reducer: Reducer, around: Sequence[For]) -> Reducer:
    """The combination of a statement with the ties of its components decided that are positions, in ascending order."""
    bounds = Bounds().under([fact for loop in around for fact in facts_of(loop)])
    for component, value in enumerate(store.values if len(store.values) > 1 else ()):
        if dtype_of(value) == INT64 and chooses(reducer, component) and _ascends(value, store.index, around):
            none = int(reducer.identities[component].value)
            least, _ = bounds.interval(value) or (none, none)
            if least > none:
                reducer = _without_ties(reducer, component, least)
    return reducer


def _once(store: Store, around: Sequence[For]) -> bool:
    """Is every iteration of the loops that tell the element about another one?"""
    telling = [loop for loop in around if any(loop.loop in axes_of(part) for part in store.index)]
    told = set[str]()
    for form in map(linear, store.index):
        own = [loop for loop in telling if Axis(loop.loop) in form.terms]
        if not form.terms.keys() <= {Axis(loop.loop) for loop in telling} or not _apart(form, own):
            return False
        told |= {loop.loop for loop in own}
    return told == {loop.loop for loop in telling}


def _apart(form: Linear, loops: Sequence[For]) -> bool:
    """Does a form have different values for different iterations of the loops, as numbers with different digits have?"""
    reached = 0
    for loop in sorted(loops, key=lambda loop: abs(form.terms[Axis(loop.loop)])):
        step = abs(form.terms[Axis(loop.loop)])
        if step <= reached:
            return False
        extent = trip_bound(loop)
        reached += step * (extent - 1) if extent is not None else 1 << 62
    return True


def _ascends(value: Expr, index: Sequence[Expr], around: Sequence[For]) -> bool:
    """Does a value grow from iteration to iteration of the loops that the element does not tell?"""
    form, reached = linear(value), 0
    own = [loop for loop in around if not any(loop.loop in axes_of(part) for part in index)]
    if not own or not form.terms.keys() <= {Axis(loop.loop) for loop in own}:
        return False
    for loop in reversed(own):
        step, extent = form.terms.get(Axis(loop.loop), 0), trip_bound(loop)
        if loop.kind not in ORDERED or step <= reached:
            return False
        reached += step * (extent - 1) if extent is not None else 1 << 62
    return True


def _without_ties(reducer: Reducer, component: int, least: int) -> Reducer:
    """The combination with a new state whose component is at least `least` and greater than that of the state so far."""
    before, new = Param(f"a{component}", INT64), Param(f"b{component}", INT64)

    def decided(node: Expr) -> Expr:
        match node:
            case Compare(op, left, right) if (left, right) == (before, new):
                return _literal(COMPARE[op](0, 1))
            case Compare(op, left, right) if (left, right) == (new, before):
                return _literal(COMPARE[op](1, 0))
            case Compare("lt" | "ge" as op, left, Const(bound)) if left == new and least >= int(bound):
                return _literal(op == "ge")
            case _:
                return node

    results = (rewrite(simplify(rewrite(result, decided)), _joined) for result in reducer.results)
    return replace(reducer, results=tuple(map(_replaced, results)))


def _replaced(result: Expr) -> Expr:
    """`select(stays, old, new)` as `select(~stays, new, old)`: where it stays it does so in its register."""
    return Select(_denied(result.cond), result.no, result.yes) if isinstance(result, Select) else result


def _denied(cond: Expr) -> Expr:
    match cond:
        case Binary("and" | "or" as op, left, right):
            return Binary("or" if op == "and" else "and", _denied(left), _denied(right))
        case _:
            return negated(cond)


def _literal(holds: bool) -> Const:
    return TRUE if holds else FALSE


def _joined(node: Expr) -> Expr:
    """`x > y | x == y` is `x >= y`, and `x & ~y | x & y` is `x`: what is left of two ways to be better where ties are decided."""
    if not isinstance(node, Binary) or node.op != "or" or dtype_of(node) != BOOL:
        return node
    parts = _disjuncts(node)
    for one, other in permutations(parts, 2):
        whole = _either(one, other)
        if whole is not None:
            rest = [part for part in parts if part is not one and part is not other]
            return _joined(reduce(lambda left, right: Binary("or", left, right), [whole, *rest]))
    return node


def _disjuncts(node: Expr) -> list[Expr]:
    match node:
        case Binary("or", left, right):
            return [*_disjuncts(left), *_disjuncts(right)]
        case _:
            return [node]


def _either(one: Expr, other: Expr) -> Expr | None:
    match one, other:
        case Compare("gt" | "lt" as op, a, b), Compare("eq", c, d) if (a, b) == (c, d):
            return Compare("ge" if op == "gt" else "le", a, b)
        case Binary("and", a, Unary("not", b)), Binary("and", c, d) if (a, b) == (c, d):
            return a
        case _:
            return None
