"""What fused loops of run-time extents say.

    f = (outer - outer_lo) * extent + (inner - inner_lo),    0 <= inner - inner_lo < extent

Where `extent` is a literal, that is an equation between integers like any other (`relations.equations`). Where it is not, it is a product
of two unknowns, and what follows from it is said in its place. Of one instance:

    f < count * extent             ->  outer - outer_lo < count

and of two, f and g = (p - outer_lo) * extent + (j - inner_lo), with o and i the outer and inner axis of f (g is a copy of f, or of the
loop in a part that a directive has cut off):

    f < g                          ->  o < p, or o = p and i < j
    o = p                          ->  f - g = i - j
    i = j and f != g               ->  |f - g| >= extent
    o - p = 0 modulo c             ->  f - g = i - j modulo c, of literals c by which f is split
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import reduce

from tensorlang import ir
from tensorlang.ir import Binary, Compare, Const, Expr, FuseRelation, Nest, SplitRelation, WindowRelation
from tensorlang.ir.relations import bounds, closure, in_scope, relation_names
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.legality.instances import Instance


def fused_loop_facts(nest: Nest, one: Instance, two: Instance, shared: frozenset[str]) -> Iterator[Expr]:
    """What the fused loops of two copies say, each for itself and of each other, where the inner extent is no literal."""
    around = [loop.loop for loop in one.access.loops], [loop.loop for loop in two.access.loops]
    both = set(around[0]) | set(around[1])

    def is_fixed(*exprs: Expr) -> bool:
        return closure(nest, frozenset().union(*map(axes_of, exprs))) & both <= shared

    scopes = in_scope(nest, around[0]), in_scope(nest, around[1])
    for place, copy in enumerate((one, two)):
        for relation in scopes[place]:
            if (
                isinstance(relation, FuseRelation)
                and not isinstance(relation.extent, Const)
                and is_fixed(relation.extent, relation.outer_lo)
            ):
                counts = [count for count in _most_rows(nest, copy, relation) if is_fixed(count)]
                digit = Binary("sub", copy.at(relation.outer), relation.outer_lo)
                yield from (Compare("lt", digit, count) for count in counts)
    for first, second in itertools.product(*scopes):
        if (
            isinstance(first, FuseRelation)
            and isinstance(second, FuseRelation)
            and not isinstance(first.extent, Const)
            and bounds(first) == bounds(second)
            and (first == second or (first not in scopes[1] and second not in scopes[0]))
            and first.fused in one.names
            and second.fused in two.names
            and is_fixed(*bounds(first))
        ):
            yield from _of_two(one, two, first, second)
            factors = {
                split.factor
                for split in (*scopes[0], *scopes[1])
                if isinstance(split, SplitRelation) and split.parent in (first.fused, second.fused)
            }
            yield from (_modulo(one, two, first, second, factor) for factor in sorted(factors))


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
    rows, rest = Binary("sub", o, p), Binary("sub", Binary("sub", f, g), Binary("sub", i, j))
    apart, same = (Compare(op, Binary("mod", part, ir.const(factor)), ir.const(0)) for op, part in (("ne", rows), ("eq", rest)))
    return _any(apart, same)


def _any(*conditions: Expr) -> Expr:
    return reduce(lambda left, right: Binary("or", left, right), conditions)
