"""Accesses: every read and write of a buffer element within a statement, with the loops and conditions around it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Final, TypeAlias, cast

from tensorlang.ir import Axis, Buffer, Compare, Const, Expr, For, If, Load, Nest, Select, Stmt, Store, Unary
from tensorlang.ir.mentions import mentions
from tensorlang.ir.traverse import children, expressions, loads_of, statements, substatements, written_in
from tensorlang.schedules.rewriting.edit import path_to
from tensorlang.system.frozen import frozen
from tensorlang.system.identity import Identity

KEPT: Final = 512
"""Statements of which the reads are kept, and conditions: a nest that is being scheduled has a hundred."""
_Read: TypeAlias = tuple[Buffer, tuple[Expr, ...], tuple[Expr, ...]]
"""A buffer, the index, and the conditions of the choices around."""


@frozen
class Access:
    """One read or write of a buffer element, with the loops and conditions around it (outermost first)."""

    stage: str
    buffer: Buffer
    index: tuple[Expr, ...]
    writes: bool
    reducer: str | None
    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    position: int
    source: int = 0
    """The identity of the store that it is of."""


def accesses(
    stmt: Stmt, loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = (), position: Iterator[int] | None = None
) -> Iterator[Access]:
    """Every access within a statement, in program order. A combining store is one access that reads and writes."""
    found: list[Access] = []
    _collect(found, stmt, loops, conditions, itertools.count() if position is None else position)
    return iter(found)


def accesses_to(names: Collection[str], stmt: Stmt, loops: tuple[For, ...] = (), conditions: tuple[Expr, ...] = ()) -> Iterator[Access]:
    """Those of some tensors, in program order: what mentions none of them is passed by, and counts as no position."""
    found: list[Access] = []
    _collect(found, stmt, loops, conditions, itertools.count(), names)
    return (access for access in found if access.buffer.name in names)


def distinct(found: Iterable[Access]) -> list[Access]:
    """Accesses of one list, those once that a statement makes alike: each copy of a subexpression reads what the others read.

    Whoever asks about pairs would ask the same of each copy with each other one.
    """
    known = {(access.position, access.buffer.name, access.writes, access.index, access.conditions): access for access in found}
    return list(known.values())


def _collect(
    found: list[Access],
    stmt: Stmt,
    loops: tuple[For, ...],
    conditions: tuple[Expr, ...],
    position: Iterator[int],
    names: Collection[str] | None = None,
) -> None:
    """Append the accesses within a statement to those that were found: generators inside of one another would take twice as long.

    Of statements that mention any of some `names`, where these are given.
    """
    if names is not None and mentions(stmt).names.isdisjoint(names):
        return
    match stmt:
        case Store():
            here = next(position)
            found += _reads(stmt.stage, _of_store(Identity((stmt,))), loops, conditions, here, id(stmt))
            name = None if stmt.reducer is None else stmt.reducer.name
            found += [Access(stmt.stage, buffer, stmt.index, True, name, loops, conditions, here, id(stmt)) for buffer in stmt.buffers]
        case For():
            _collect(found, stmt.body, (*loops, stmt), conditions, position, names)
        case If(cond, then, orelse):
            found += _reads("", _of_condition(Identity((cond,))), loops, conditions, next(position))
            _collect(found, then, loops, (*conditions, cond), position, names)
            if orelse is not None:
                _collect(found, orelse, loops, (*conditions, Unary("not", cond)), position, names)
        case _:
            for part in substatements(stmt):
                _collect(found, part, loops, conditions, position, names)


def conditions_around(nest: Nest, stmt: Stmt) -> tuple[Expr, ...]:
    """What holds wherever a statement of the nest runs, as far as conditions around it say."""
    path = path_to(nest.body, lambda part: part is stmt, mentions(stmt).stages or None)
    return tuple(
        above.cond if above.then is below else Unary("not", above.cond)
        for above, below in itertools.pairwise(path)
        if isinstance(above, If)
    )


def _reads(
    stage: str, read: Iterable[_Read], loops: tuple[For, ...], conditions: tuple[Expr, ...], position: int, source: int = 0
) -> list[Access]:
    return [
        Access(stage, buffer, index, False, None, loops, (*conditions, *chosen) if chosen else conditions, position, source)
        for buffer, index, chosen in read
    ]


@lru_cache(maxsize=KEPT)
def _of_store(key: Identity) -> tuple[_Read, ...]:
    """The reads of a statement: kept, since a directive leaves most statements as they are, and legality asks for them many times."""
    (stmt,) = key.parts
    assert isinstance(stmt, Store)
    return tuple(read for expr in (*stmt.index, *stmt.values) for read in _of_expression(expr))


@lru_cache(maxsize=KEPT)
def _of_condition(key: Identity) -> tuple[_Read, ...]:
    (cond,) = cast("tuple[Expr]", key.parts)
    return tuple(_of_expression(cond))


def _of_expression(expr: Expr) -> list[_Read]:
    """The reads of an expression, as often as it uses them, each under the conditions of the selects around it."""
    found: list[_Read] = []

    def collect(expr: Expr, chosen: tuple[Expr, ...]) -> None:
        match expr:
            case Axis() | Const():
                pass
            case Select(cond, yes, no):
                collect(cond, chosen)
                collect(yes, (*chosen, cond))
                collect(no, (*chosen, Unary("not", cond)))
            case _:
                for part in children(expr):
                    collect(part, chosen)
                if isinstance(expr, Load) and isinstance(expr.buffer, Buffer):
                    found.append((expr.buffer, expr.index, chosen))

    collect(expr, ())
    return found


def facts_of(loop: For) -> tuple[Expr, Expr]:
    """What the bounds of a loop say of it."""
    return Compare("le", loop.lo, Axis(loop.loop)), Compare("lt", Axis(loop.loop), loop.hi)


def reads(stmt: Stmt) -> Iterator[Load]:
    """Every load within a statement, its bounds and conditions included."""
    for part in statements(stmt):
        for expr in expressions(part):
            yield from loads_of(expr)


def read_of(stmt: Stmt) -> frozenset[str]:
    """The names of the buffers that a statement reads, in its bounds and conditions too."""
    return frozenset(getattr(load.buffer, "name", "") for load in reads(stmt))


def touched(stmt: Stmt) -> frozenset[str]:
    """The names of the buffers that a statement reads or writes."""
    return read_of(stmt) | written_in(stmt)


def touch(one: Stmt, other: Stmt) -> bool:
    """Does one of two statements write what the other one reads or writes?"""
    return not written_in(one).isdisjoint(touched(other)) or not written_in(other).isdisjoint(read_of(one))
