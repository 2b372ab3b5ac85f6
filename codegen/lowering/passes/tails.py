"""Relations become values, their conditions become `If`s.

Going inwards, each relation is realised at the loop that completes it: the derived axis is replaced by its value everywhere inside, and
its condition `parent < hi`, unless literals prove it, becomes an `If` there (`bounds` then makes it a loop bound where it can; in a
vector loop it is a mask, or later a scalar rest: see `guards`). A "peel" split is realised at its outer loop: a main loop without the
condition, then one more iteration with a shorter inner loop. A "shift" split moves the start of its last tile; its condition can only
fail where the extent is below the factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Compare,
    Const,
    Expr,
    For,
    FuseRelation,
    If,
    Nest,
    Prefetch,
    Relation,
    SplitRelation,
    Stmt,
    Store,
    WindowRelation,
    allocate,
    block,
)
from tensorlang.ir.relations import condition, derived_values, in_scope, tile_count
from tensorlang.ir.traverse import axes_of, loads_of, substitute


@dataclass(frozen=True, slots=True)
class _LoopContext:
    """What is known inside some loops: their names, the values of derived axes, and the state of peeled splits."""

    loops: tuple[str, ...] = ()
    values: dict[str, Expr] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()  # parents of peeled splits inside their main part
    facts: tuple[Expr, ...] = ()  # conditions on dims that hold here

    def of(self, expr: Expr) -> Expr:
        return simplify(substitute(expr, self.values))


def realise(nest: Nest) -> Nest:
    """The nest without relations."""
    return replace(nest, body=_statement(nest, nest.body, _LoopContext()), relations=())


def _statement(nest: Nest, stmt: Stmt, scope: _LoopContext) -> Stmt:
    match stmt:
        case Store():
            return replace(stmt, index=tuple(map(scope.of, stmt.index)), values=tuple(map(scope.of, stmt.values)))
        case Block(body):
            return block(*(_statement(nest, part, scope) for part in body))
        case If(cond, then, orelse):
            test = scope.of(cond)
            if test == TRUE:
                return _statement(nest, then, scope)
            known = scope if axes_of(test) or any(loads_of(test)) else replace(scope, facts=(*scope.facts, test))
            return If(test, _statement(nest, then, known), None if orelse is None else _statement(nest, orelse, scope))
        case Alloc(buffers, body):
            sized = (replace(buffer, shape=tuple(map(scope.of, buffer.shape))) for buffer in buffers)
            return allocate(sized, _statement(nest, body, scope))
        case Prefetch(index=index):
            return replace(stmt, index=tuple(map(scope.of, index)))
        case For():
            return _loop(nest, stmt, scope)


def _loop(nest: Nest, loop: For, scope: _LoopContext) -> Stmt:
    peeled = [
        relation
        for relation in nest.relations
        if isinstance(relation, SplitRelation)
        and relation.tail == "peel"
        and relation.outer == loop.loop
        and relation.inner not in scope.loops
        and loop.kind != "vector"
        and (loop.lo, loop.hi) == (ir.const(0), simplify(tile_count(relation)))
    ]
    if peeled:
        first = peeled[0]
        same = [relation for relation in peeled if (relation.lo, relation.hi, relation.factor) == (first.lo, first.hi, first.factor)]
        extent = scope.of(Binary("sub", first.hi, first.lo))
        rest = simplify(Binary("mod", extent, ir.const(first.factor)))
        if not _divides(scope, extent, first.factor):
            return _peel(nest, loop, scope, same, extent, rest)
    lo = scope.of(loop.lo)
    extent = simplify(Binary("sub", loop.hi, loop.lo))
    hi = Binary("add", lo, extent) if isinstance(extent, Const) and not isinstance(lo, Const) else scope.of(loop.hi)
    return _whole_loop(nest, replace(loop, lo=lo, hi=hi), scope)


def _divides(scope: _LoopContext, extent: Expr, factor: int) -> bool:
    """Is the extent a multiple of the factor, by itself or by what is known of the dims?"""
    rest = simplify(Binary("mod", extent, ir.const(factor)))
    if isinstance(rest, Const) or not scope.facts:
        return rest == ir.const(0)
    return find(*scope.facts, Compare("ne", rest, ir.const(0))) is None


def _peel(nest: Nest, loop: For, scope: _LoopContext, same: list[SplitRelation], extent: Expr, rest: Expr) -> Stmt:
    tiles = simplify(Binary("floordiv", Binary("max", extent, ir.const(0)), ir.const(same[0].factor)))
    parents = frozenset(relation.parent for relation in same)
    main = _whole_loop(nest, replace(loop, lo=ir.const(0), hi=tiles), replace(scope, whole=scope.whole | parents))
    last = _inside(nest, loop, scope, tiles)
    if not isinstance(rest, Const):
        last = If(Compare("gt", extent, simplify(Binary("mul", tiles, ir.const(same[0].factor)))), last)
    return last if tiles == ir.const(0) else block(main, last)


def _inside(nest: Nest, loop: For, scope: _LoopContext, value: Expr) -> Stmt:
    """The body of a loop for one known value of it."""
    inner, conditions = _completed(nest, scope, loop.loop, value)
    return _guarded(_statement(nest, loop.body, inner), conditions)


def _guarded(body: Stmt, conditions: list[Expr]) -> Stmt:
    for cond in reversed(conditions):
        body = If(cond, body)
    return body


def _whole_loop(nest: Nest, loop: For, scope: _LoopContext) -> Stmt:
    inner, conditions = _completed(nest, scope, loop.loop, Axis(loop.loop))
    return replace(loop, body=_guarded(_statement(nest, loop.body, inner), conditions))


def _completed(nest: Nest, scope: _LoopContext, loop: str, value: Expr) -> tuple[_LoopContext, list[Expr]]:
    """The scope inside a loop that has `value`, and the conditions that complete there."""
    before = in_scope(nest, scope.loops)
    loops = (*scope.loops, loop)
    values = dict(scope.values)
    if value != Axis(loop):
        values[loop] = value
    conditions: list[Expr] = []
    for relation in in_scope(nest, loops):
        if relation in before:
            continue
        inner = replace(scope, loops=loops, values=values)
        left = _define(relation, inner, values)
        if left is not None and left != TRUE and left not in conditions:
            conditions.append(left)
    return replace(scope, loops=loops, values=values), conditions


def _define(relation: Relation, scope: _LoopContext, values: dict[str, Expr]) -> Expr | None:
    """Enter the values of a relation's derived axes; the condition that is left."""
    values.update({axis: scope.of(value) for axis, value in derived_values(relation).items()})
    match relation:
        case SplitRelation(parent, inner=inner, factor=factor, lo=lo, hi=hi, tail=tail):
            extent = scope.of(Binary("sub", hi, lo))
            if parent in scope.whole or _divides(scope, extent, factor):
                return None
            if tail != "shift":
                return scope.of(condition(relation))
            fits = isinstance(extent, Const) and extent.value >= factor
            return None if fits else scope.of(Compare("lt", Axis(inner), Binary("sub", hi, lo)))
        case WindowRelation():
            return scope.of(condition(relation))
        case FuseRelation():
            return None
