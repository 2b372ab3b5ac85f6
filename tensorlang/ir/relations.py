"""What relations say: the values of derived axes, which axes they tie together, what an axis is derived from.

The value of a derived axis and the condition on it stand here once: code generation and footprints read `derived_values` and `condition`,
the legality proof the `equations` that are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, cast

from tensorlang import ir
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, FuseRelation, Nest, Relation, SplitRelation, WindowRelation
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.system.identity import Identity

_KEPT: Final = 64
"""Relations of nests whose derived axes are kept: each directive gives a nest others."""
_NOTHING: Final = frozenset[str]()


def relation_names(relation: Relation) -> tuple[str, ...]:
    """The axes that a relation ties together."""
    match relation:
        case SplitRelation(parent, outer, inner):
            return (parent, outer, inner)
        case FuseRelation(fused, outer, inner):
            return (fused, outer, inner)
        case WindowRelation(parent, inner):
            return (parent, inner)


def bounds(relation: Relation) -> tuple[Expr, ...]:
    """The expressions in a relation."""
    match relation:
        case SplitRelation(_, _, _, _, lo, hi):
            return (lo, hi)
        case FuseRelation(_, _, _, outer_lo, inner_lo, extent):
            return (outer_lo, inner_lo, extent)
        case WindowRelation(_, _, base, hi):
            return (base, hi)


def renamed(relation: Relation, names: dict[str, str]) -> Relation:
    """The relation over other axes."""
    values: dict[str, Expr] = {old: Axis(new) for old, new in names.items()}

    def axis(name: str) -> str:
        return names.get(name, name)

    changed = rebounded(relation, lambda expr: substitute(expr, values))
    match changed:
        case SplitRelation(parent, outer, inner):
            return replace(changed, parent=axis(parent), outer=axis(outer), inner=axis(inner))
        case FuseRelation(fused, outer, inner):
            return replace(changed, fused=axis(fused), outer=axis(outer), inner=axis(inner))
        case WindowRelation(parent, inner):
            return replace(changed, parent=axis(parent), inner=axis(inner))


def rebounded(relation: Relation, fn: Callable[[Expr], Expr]) -> Relation:
    """The relation over `fn` of each expression in it."""
    match relation:
        case SplitRelation(lo=lo, hi=hi):
            return replace(relation, lo=fn(lo), hi=fn(hi))
        case FuseRelation(outer_lo=outer_lo, inner_lo=inner_lo, extent=extent):
            return replace(relation, outer_lo=fn(outer_lo), inner_lo=fn(inner_lo), extent=fn(extent))
        case WindowRelation(base=base, hi=hi):
            return replace(relation, base=fn(base), hi=fn(hi))


def tile_start(split: SplitRelation) -> Expr:
    """Where the tile of a split begins: the value of its parent where the inner loop is at 0."""
    start: Expr = Binary("mul", ir.const(split.factor), Axis(split.outer))
    if split.tail == "shift":
        last = Binary("max", ir.const(0), Binary("sub", Binary("sub", split.hi, split.lo), ir.const(split.factor)))
        start = Binary("min", start, last)
    return Binary("add", split.lo, start)


def tile_count(split: SplitRelation) -> Expr:
    """How many tiles a split has: the extent of its outer loop, unless a directive has cut it."""
    extent = Binary("sub", split.hi, split.lo)
    return Binary("floordiv", Binary("add", extent, ir.const(split.factor - 1)), ir.const(split.factor))


def derived_values(relation: Relation) -> dict[str, Expr]:
    """The values of the axes that a relation derives."""
    match relation:
        case SplitRelation(parent, inner=inner):
            return {parent: Binary("add", tile_start(relation), Axis(inner))}
        case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent):
            high, low = Binary("floordiv", Axis(fused), extent), Binary("mod", Axis(fused), extent)
            return {outer: Binary("add", outer_lo, high), inner: Binary("add", inner_lo, low)}
        case WindowRelation(parent, inner, base):
            return {parent: Binary("add", base, Axis(inner))}


def condition(relation: SplitRelation | WindowRelation) -> Expr:
    """Where the statements inside run: the last tile may reach beyond the end."""
    return Compare("lt", Axis(relation.parent), relation.hi)


def equations(relation: Relation) -> tuple[Expr, ...]:
    """What a relation says, as conditions on its axes."""
    match relation:
        case SplitRelation() | WindowRelation():
            ((parent, value),) = derived_values(relation).items()
            return (Compare("eq", Axis(parent), value), condition(relation))
        case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent):
            inside = (
                Compare("ge", Axis(inner), inner_lo),
                Compare("lt", Axis(inner), Binary("add", inner_lo, extent)),
                Compare("ge", Axis(outer), outer_lo),
            )
            if not isinstance(extent, Const):
                return inside
            tie = Binary("add", Binary("mul", extent, Binary("sub", Axis(outer), outer_lo)), Binary("sub", Axis(inner), inner_lo))
            return (*inside, Compare("eq", Axis(fused), tie))


def closure(nest: Nest, names: Iterable[str]) -> frozenset[str]:
    """The axes, and every axis that their values are derived from."""
    made_of, found = _made_of(Identity((nest.relations,))), set(names)
    waiting = [*found]
    while waiting:
        further = made_of.get(waiting.pop(), _NOTHING) - found
        found |= further
        waiting += further
    return frozenset(found)


@lru_cache(maxsize=_KEPT)
def _made_of(key: Identity) -> Mapping[str, frozenset[str]]:
    """The axes that each derived one is computed from: kept, since a directive asks of many expressions under the same relations."""
    (relations,) = cast("tuple[tuple[Relation, ...]]", key.parts)
    found: dict[str, frozenset[str]] = {}
    for relation in relations:
        for axis, parts in _sources(relation):
            found[axis] = found.get(axis, _NOTHING).union(*parts)
    return found


def _sources(relation: Relation) -> Iterator[tuple[str, tuple[Collection[str], ...]]]:
    """The axes that a relation derives, each with those that it is computed from."""
    match relation:
        case SplitRelation(parent, outer, inner, _, lo, hi):
            yield parent, ((outer, inner), axes_of(lo), axes_of(hi))
        case FuseRelation(fused, outer, inner, outer_lo, inner_lo, extent):
            yield outer, ((fused,), axes_of(outer_lo), axes_of(extent))
            yield inner, ((fused,), axes_of(inner_lo), axes_of(extent))
        case WindowRelation(parent, inner, base, hi):
            yield parent, ((inner,), axes_of(base), axes_of(hi))


def axes_counted_with(nest: Nest, exprs: Iterable[Expr]) -> frozenset[str]:
    """The axes that expressions count with: those in them, and the loops whose values these axes alone are made of.

    A loop that only says where a range begins, or that counts something else as well, is not among them.
    """
    found = set().union(*(axes_of(expr) for expr in exprs))
    grew = True
    while grew:
        before = len(found)
        for relation in nest.relations:
            given, follow = sides(relation)
            if found.issuperset(follow):
                found.update(given)
        grew = len(found) > before
    return frozenset(found)


def depends_on(nest: Nest, exprs: Iterable[Expr], loops: set[str]) -> bool:
    """Do expressions depend on any of the loops, directly or through derived axes?"""
    names = set().union(*(axes_of(expr) for expr in exprs)) if exprs else set()
    return bool(closure(nest, names) & loops)


def in_scope(nest: Nest, loops: Iterable[str]) -> tuple[Relation, ...]:
    """The relations whose axes all follow from the given loops, in an order in which each follows from earlier ones."""
    known = set(loops)
    found: list[Relation] = []
    waiting = _reached(nest, known)
    while waiting:
        later: list[Relation] = []
        for relation in waiting:
            if is_ready(relation, known):
                known.update(sides(relation)[1])
                found.append(relation)
            else:
                later.append(relation)
        if len(later) == len(waiting):
            break
        waiting = later
    return tuple(found)


def _reached(nest: Nest, loops: Iterable[str]) -> list[Relation]:
    """The relations, newest first, that loops lead to whatever bounds say: in a program of many stages most are of the loops of others."""
    needing, known, found = _needing(Identity((nest.relations,))), set(loops), dict[int, Relation]()
    pending = [*known]
    while pending:
        for place, needed, made, relation in needing.get(pending.pop(), ()):
            if place not in found and known.issuperset(needed):
                found[place] = relation
                known.update(made)
                pending += made
    return [found[place] for place in sorted(found, reverse=True)]


@lru_cache(maxsize=_KEPT)
def _needing(key: Identity) -> Mapping[str, list[tuple[int, tuple[str, ...], tuple[str, ...], Relation]]]:
    """The relations that need an axis, by its name: their places, what they need and make, and themselves."""
    (relations,) = cast("tuple[tuple[Relation, ...]]", key.parts)
    found: dict[str, list[tuple[int, tuple[str, ...], tuple[str, ...], Relation]]] = {}
    for place, relation in enumerate(relations):
        needed, made = sides(relation)
        for axis in needed:
            found.setdefault(axis, []).append((place, needed, made, relation))
    return found


def is_ready(relation: Relation, known: Collection[str]) -> bool:
    """Do the axes that a relation derives follow from those that are known?"""
    return all(map(known.__contains__, sides(relation)[0])) and all(
        isinstance(bound, Const) or axes_of(bound).issubset(known) for bound in bounds(relation)
    )


def sides(relation: Relation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The axes that a relation needs, and those that it then gives."""
    match relation:
        case SplitRelation(parent, outer, inner):
            return (outer, inner), (parent,)
        case FuseRelation(fused, outer, inner):
            return (fused,), (outer, inner)
        case WindowRelation(parent, inner):
            return (inner,), (parent,)
