"""What fused loops of run-time extents say.

    f = (outer - outer_lo) * extent + (inner - inner_lo),    0 <= inner - inner_lo < extent

Where `extent` is a literal, that is an equation between integers like any other (`relations.equations`). Where it is not, it is a product
of two unknowns, and what follows from it is said in its place. Of one instance:

    f < count * extent                  ->  outer - outer_lo < count
    outer = outer_lo                    ->  f = inner - inner_lo
    extent = 0 modulo c                 ->  f = inner - inner_lo modulo c, of literals c by which f is split

and of two, f and g = (p - outer_lo) * extent + (j - inner_lo), with o and i the outer and inner axis of f (g is a copy of f, or of the
loop in a part that a directive has cut off):

    f < g                               ->  o < p, or o = p and i < j
    o = p                               ->  f - g = i - j
    i = j and f != g                    ->  |f - g| >= extent
    o - p = 0, or extent = 0, modulo c  ->  f - g = i - j modulo c
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import reduce

from tensorlang import ir
from tensorlang.ir import Binary, Compare, Const, Expr, FuseRelation, Nest, Relation, SplitRelation, WindowRelation
from tensorlang.ir.relations import bounds, closure, in_scope, relation_names
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.legality.instances import Instance


def fused_loop_facts(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[Expr]:
    """What the fused loops of two copies say, each for itself and of each other, where the inner extent is no literal."""
    for copy, relation in _each(nest, one, two, shared):
        counts = [count for count in _most_rows(nest, copy, relation) if _is_fixed(nest, one, two, shared, count)]
        yield from (Compare("lt", _row(copy, relation), count) for count in counts)
    for first, second in _pairs(nest, one, two, shared):
        yield from _of_two(one, two, first, second)


def fused_tile_facts(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[Expr]:
    """What tiles of such loops say besides: it makes a question harder, so it is for one that has an answer without."""
    scope = in_scope(nest, [loop.loop for copy in (one, two) for loop in copy.access.loops])
    for copy, relation in _each(nest, one, two, shared):
        rest = Binary("sub", copy.at(relation.fused), Binary("sub", copy.at(relation.inner), relation.inner_lo))
        yield _any(Compare("ne", _row(copy, relation), ir.const(0)), Compare("eq", rest, ir.const(0)))
        factors = [factor for factor in _factors(scope, relation.fused) if _is_multiple(relation.extent, factor)]
        yield from (Compare("eq", Binary("mod", rest, ir.const(factor)), ir.const(0)) for factor in factors)
    for first, second in _pairs(nest, one, two, shared):
        yield from (_modulo(one, two, first, second, factor) for factor in _factors(scope, first.fused, second.fused))


def _is_fixed(nest: Nest, one: Instance, two: Instance, shared: frozenset[str], *exprs: Expr) -> bool:
    """Are expressions the same for both copies?"""
    both = {loop.loop for copy in (one, two) for loop in copy.access.loops}
    return closure(nest, frozenset().union(*map(axes_of, exprs))) & both <= shared


def _each(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[tuple[Instance, FuseRelation]]:
    """The fused axes of either copy whose inner extent is no literal."""
    for copy in (one, two):
        for relation in in_scope(nest, [loop.loop for loop in copy.access.loops]):
            if (
                isinstance(relation, FuseRelation)
                and not isinstance(relation.extent, Const)
                and _is_fixed(nest, one, two, shared, relation.extent, relation.outer_lo)
            ):
                yield copy, relation


def _pairs(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[tuple[FuseRelation, FuseRelation]]:
    """Those of both copies that say the same."""
    scopes = [in_scope(nest, [loop.loop for loop in copy.access.loops]) for copy in (one, two)]
    for first, second in itertools.product(*scopes):
        if (
            isinstance(first, FuseRelation)
            and isinstance(second, FuseRelation)
            and not isinstance(first.extent, Const)
            and bounds(first) == bounds(second)
            and (first == second or (first not in scopes[1] and second not in scopes[0]))
            and first.fused in one.names
            and second.fused in two.names
            and _is_fixed(nest, one, two, shared, *bounds(first))
        ):
            yield first, second


def _row(copy: Instance, relation: FuseRelation) -> Expr:
    return Binary("sub", copy.at(relation.outer), relation.outer_lo)


def _factors(scope: Iterable[Relation], *fused: str) -> list[int]:
    """The literals by which one of the fused axes is split."""
    return sorted({relation.factor for relation in scope if isinstance(relation, SplitRelation) and relation.parent in fused})


def _most_rows(nest: Nest, copy: Instance, relation: FuseRelation) -> Iterator[Expr]:
    """How many times the extent the fused axis may be at most, where its end is a multiple of it."""
    ends = [loop.hi for loop in copy.access.loops if loop.loop == relation.fused]
    ends += [
        other.hi
        for other in in_scope(nest, [loop.loop for loop in copy.access.loops])
        if isinstance(other, (SplitRelation, WindowRelation)) and other.parent == relation.fused
    ]
    for end in ends:
        match end:
            case Binary("mul", count, extent) if extent == relation.extent:
                yield count
            case Binary("mul", extent, count) if extent == relation.extent:
                yield count
            case extent if extent == relation.extent:
                yield ir.const(1)
            case _:
                pass


def _of_two(one: Instance, two: Instance, first: FuseRelation, second: FuseRelation) -> Iterator[Expr]:
    (f, o, i), (g, p, j) = ([copy.at(axis) for axis in relation_names(of)] for copy, of in ((one, first), (two, second)))
    for a, b, c, d, e, h in ((f, g, o, p, i, j), (g, f, p, o, j, i)):
        yield _any(Compare("ge", a, b), Compare("lt", c, d), Binary("and", Compare("eq", c, d), Compare("lt", e, h)))
    yield _any(Compare("ne", f, g), Binary("and", Compare("eq", o, p), Compare("eq", i, j)))
    yield _any(Compare("ne", o, p), Compare("eq", Binary("sub", f, g), Binary("sub", i, j)))
    far = [Compare("ge", Binary("sub", a, b), first.extent) for a, b in ((f, g), (g, f))]
    yield _any(Compare("ne", i, j), Compare("eq", f, g), *far)


def _modulo(one: Instance, two: Instance, first: FuseRelation, second: FuseRelation, factor: int) -> Expr:
    """Outer axes that are apart by a multiple of a literal are so however long the inner axis is: tiles of a ring of few places."""
    (f, o, i), (g, p, j) = ([copy.at(axis) for axis in relation_names(of)] for copy, of in ((one, first), (two, second)))
    rest = Compare("eq", Binary("mod", Binary("sub", Binary("sub", f, g), Binary("sub", i, j)), ir.const(factor)), ir.const(0))
    if _is_multiple(first.extent, factor):
        return rest
    return _any(Compare("ne", Binary("mod", Binary("sub", o, p), ir.const(factor)), ir.const(0)), rest)


def _is_multiple(expr: Expr, of: int) -> bool:
    match expr:
        case Const(value):
            return int(value) % of == 0
        case Binary("mul", left, right):
            return _is_multiple(left, of) or _is_multiple(right, of)
        case Binary("max" | "min" | "add" | "sub", left, right):
            return _is_multiple(left, of) and _is_multiple(right, of)
        case _:
            return False


def _any(*conditions: Expr) -> Expr:
    return reduce(lambda left, right: Binary("or", left, right), conditions)
