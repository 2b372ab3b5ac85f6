"""Copies of parts of a nest under new loop names: what `peel`, `specialize`, `fission` and `rfactor` share.

A copy knows its tails: every derived axis that follows from a renamed loop gets a name of its own, and the relation that says how it
follows is repeated for the new names. Statements keep their stages and buffers keep their names, because a copy computes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Buffer, Expr, For, Nest, Prefetch, Relation, Stmt, Store
from tensorlang.ir.names import unique
from tensorlang.ir.relations import bounds, in_scope, relation_names, renamed, sides
from tensorlang.ir.traverse import axes_of, map_expressions, map_statements, substatements, substitute
from tensorlang.schedules.rewriting.edit import axis_names, loops
from tensorlang.schedules.rewriting.intermediates import stored_in


@dataclass(frozen=True, slots=True)
class Copy:
    """A statement over renamed axes, the relations of the new names, and which axis became which."""

    body: Stmt
    relations: tuple[Relation, ...]
    names: dict[str, str]

    def of(self, expr: Expr) -> Expr:
        """An expression over the renamed axes."""
        return substitute(expr, {old: Axis(new) for old, new in self.names.items()})


@dataclass(slots=True)
class FreshNames:
    """Unused axis names."""

    taken: set[str]

    @classmethod
    def of(cls, nest: Nest) -> FreshNames:
        """Names that the nest does not use."""
        return cls(set(axis_names(nest)))

    def fresh(self, wanted: str) -> str:
        """`wanted`, or the first of `wanted_1`, `wanted_2`, ... that is free; taken from now on."""
        return unique(wanted, self.taken)


def copied(nest: Nest, stmt: Stmt, around: Sequence[str], chosen: Iterable[str], rename: Callable[[str], str]) -> Copy:
    """`stmt` with the `chosen` loops, and every axis that follows from them, renamed; `around` are the loops outside it."""
    names = {loop: rename(loop) for loop in chosen}
    relations: list[Relation] = []
    for relation in in_scope(nest, (*around, *(part.loop for part in loops(stmt)))):
        used = set(relation_names(relation)).union(*(axes_of(expr) for expr in bounds(relation)))
        if used & names.keys():
            for axis in sides(relation)[1]:
                names.setdefault(axis, rename(axis))
            relations.append(renamed(relation, names))
    return Copy(over(stmt, names), tuple(reversed(relations)), names)


def over(stmt: Stmt, names: dict[str, str]) -> Stmt:
    """A statement over renamed axes, of statements of its own: edits find a statement by what it is, not by what it says."""
    values: dict[str, Expr] = {old: Axis(new) for old, new in names.items()}

    def renamed_in(expr: Expr) -> Expr:
        return simplify(substitute(expr, values)) if axes_of(expr) & names.keys() else expr

    def resized(buffer: Buffer) -> Buffer:
        return replace(buffer, shape=tuple(map(renamed_in, buffer.shape)))

    def loop(part: Stmt) -> Stmt:
        part = map_statements(part, loop)
        match part:
            case For():
                follows = None if part.follows is None else names.get(part.follows, part.follows)
                return replace(part, loop=names.get(part.loop, part.loop), follows=follows)
            case Alloc(buffers):  # an extent may speak of a loop around
                for buffer in buffers:
                    if any(axes_of(extent) & names.keys() for extent in buffer.shape):
                        part = stored_in(part, (buffer.name,), resized)
                return part
            case Store() | Prefetch():
                return replace(part)
            case _:
                return part

    return loop(map_expressions(stmt, renamed_in))


def derived(relations: Iterable[Relation], axes: Iterable[str]) -> frozenset[str]:
    """The axes, and every axis that follows from one of them: as a digit of it, or by where its range lies."""
    found, waiting, grew = set(axes), list(relations), True
    while grew:
        rest = []
        for relation in waiting:
            if found.isdisjoint(sides(relation)[0]) and all(found.isdisjoint(axes_of(bound)) for bound in bounds(relation)):
                rest.append(relation)
            else:
                found.update(sides(relation)[1])
        waiting, grew = rest, len(rest) < len(waiting)
    return frozenset(found)


def pruned(nest: Nest) -> Nest:
    """The nest without relations whose loops no store or hint has around it any more."""
    if not nest.relations:
        return nest
    used: set[Relation] = set()
    for around in set(_scopes(nest.body, ())):
        used.update(in_scope(nest, around))
    return replace(nest, relations=tuple(relation for relation in nest.relations if relation in used))


def _scopes(stmt: Stmt, around: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    match stmt:
        case Store() | Prefetch():
            yield around
        case For(loop):
            yield from _scopes(stmt.body, (*around, loop))
        case _:
            for part in substatements(stmt):
                yield from _scopes(part, around)
