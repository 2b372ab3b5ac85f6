"""Loops around an empty loop do not run: the extents of run time on which it depends are tested before the outermost of them.

    for i in range(n):                              if 0 < m:
        for j in range(m):                              for i in range(n):
            B[i, j] = A[i, j] + 1           ->              for j in range(m):
                                                                B[i, j] = A[i, j] + 1

A call of shape (2**40, 0) would otherwise take 2**40 iterations to do nothing. Where no output has an element, nothing runs at all.

A loop that literals say is empty goes before anything else is done: what is inside has bounds that need not make sense (`without_idle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce

from tensorlang import ir
from tensorlang.algebra.bounds import values
from tensorlang.algebra.rules import conjunction
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Binary, Block, Compare, Const, Expr, For, If, Nest, Stmt
from tensorlang.ir.traverse import axes_of, loads_of, map_statements, unless_empty
from tensorlang.schedules.rewriting.edit import literal_extent


def without_idle(stmt: Stmt) -> Stmt:
    """The statement without loops that literals say are empty."""
    if isinstance(stmt, For) and literal_extent(stmt) == 0:
        return Block(())
    return unless_empty(map_statements(stmt, without_idle))


def tested_first(nest: Nest) -> Nest:
    """The nest with tests of dims around loops that do nothing where these fail."""
    due = _of_any([_nonempty(buffer.shape) for buffer in nest.outputs])
    return replace(nest, body=_under(due, _tested(nest.body, frozenset(due))))


def _tested(stmt: Stmt, known: frozenset[Expr]) -> Stmt:
    """The statement with tests before its outermost loops. `known` hold here."""
    if not isinstance(stmt, For):
        return map_statements(stmt, lambda part: _tested(part, known))
    own = _runs(stmt)
    due = [condition for condition in _needed(stmt.body) if condition not in known and condition not in own]
    return _under(due, replace(stmt, body=_tested(stmt.body, known | {*due, *own})))


def _under(conditions: list[Expr], stmt: Stmt) -> Stmt:
    return If(conjunction(conditions), stmt) if conditions else stmt


def _needed(stmt: Stmt) -> list[Expr]:
    """Conditions on dims without which a statement does nothing; not all of them."""
    match stmt:
        case For():
            return [*_runs(stmt), *_needed(stmt.body)]
        case Alloc(_, body) | If(_, body, None):
            return _needed(body)
        case If(_, then, orelse) if orelse is not None:
            return _of_any([_needed(then), _needed(orelse)])
        case Block(body):
            return _of_any([_needed(part) for part in body])
        case _:
            return []


def _runs(loop: For) -> list[Expr]:
    """What has to hold of the dims for a loop to have an iteration, where they alone say."""
    return [] if axes_of(loop.lo) | axes_of(loop.hi) else _nonempty([Binary("sub", loop.hi, loop.lo)])


def _nonempty(extents: Iterable[Expr]) -> list[Expr]:
    """Tests that extents are not empty, where that is neither known nor a question to data."""
    terms = dict.fromkeys(term for extent in extents for term in _terms(simplify(extent)))
    return [Compare("lt", ir.const(0), term) for term in terms if values(term)[0] <= 0 and not any(loads_of(term))]


def _terms(extent: Expr) -> Iterator[Expr]:
    """What is positive where an extent is, without the tiles and the least of several that it may be written as."""
    match extent:
        case Binary("floordiv", left, Const(by)) if by > 0:
            yield from _terms(simplify(Binary("sub", left, ir.const(int(by) - 1))))
        case Binary("min", left, right):
            yield from _terms(left)
            yield from _terms(right)
        case _:
            yield extent


def _of_any(groups: list[list[Expr]]) -> list[Expr]:
    """What holds wherever all conditions of some group do."""
    if not groups or not all(groups):
        return []
    common = [condition for condition in groups[0] if all(condition in group for group in groups)]
    rests = [[condition for condition in group if condition not in common] for group in groups]
    if not all(rests):
        return common
    return [*common, reduce(lambda left, right: Binary("or", left, right), dict.fromkeys(map(conjunction, rests)))]
