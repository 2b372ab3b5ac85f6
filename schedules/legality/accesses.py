"""Accesses: every read and write of a buffer element within a statement, with the loops and conditions around it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang.ir import Axis, Buffer, Compare, Expr, For, If, Load, Nest, Select, Stmt, Store, Unary
from tensorlang.ir.mentions import mentions
from tensorlang.ir.traverse import children, expressions, loads_of, statements, substatements
from tensorlang.schedules.rewriting.edit import path_to
from tensorlang.system.frozen import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True)
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
    position = itertools.count() if position is None else position
    match stmt:
        case Store(stage, buffers, index, values, reducer):
            here = next(position)
            for expr in (*index, *values):
                yield from _reads(stage, expr, loops, conditions, here, id(stmt))
            for buffer in buffers:
                name = None if reducer is None else reducer.name
                yield Access(stage, buffer, index, True, name, loops, conditions, here, id(stmt))
        case For():
            for part in substatements(stmt):
                yield from accesses(part, (*loops, stmt), conditions, position)
        case If(cond, then, orelse):
            yield from _reads("", cond, loops, conditions, next(position))
            yield from accesses(then, loops, (*conditions, cond), position)
            if orelse is not None:
                yield from accesses(orelse, loops, (*conditions, Unary("not", cond)), position)
        case _:
            for part in substatements(stmt):
                yield from accesses(part, loops, conditions, position)


def conditions_around(nest: Nest, stmt: Stmt) -> tuple[Expr, ...]:
    """What holds wherever a statement of the nest runs, as far as conditions around it say."""
    path = path_to(nest.body, lambda part: part is stmt, mentions(stmt).stages or None)
    return tuple(
        above.cond if above.then is below else Unary("not", above.cond)
        for above, below in itertools.pairwise(path)
        if isinstance(above, If)
    )


def _reads(
    stage: str, expr: Expr, loops: tuple[For, ...], conditions: tuple[Expr, ...], position: int, source: int = 0
) -> Iterator[Access]:
    """The reads of an expression, each under the conditions of the selects around it."""
    match expr:
        case Select(cond, yes, no):
            yield from _reads(stage, cond, loops, conditions, position, source)
            yield from _reads(stage, yes, loops, (*conditions, cond), position, source)
            yield from _reads(stage, no, loops, (*conditions, Unary("not", cond)), position, source)
        case _:
            for part in children(expr):
                yield from _reads(stage, part, loops, conditions, position, source)
            if isinstance(expr, Load) and isinstance(expr.buffer, Buffer):
                yield Access(stage, expr.buffer, expr.index, False, None, loops, conditions, position, source)


def facts_of(loop: For) -> tuple[Expr, Expr]:
    """What the bounds of a loop say of it."""
    return Compare("le", loop.lo, Axis(loop.loop)), Compare("lt", Axis(loop.loop), loop.hi)


def reads(stmt: Stmt) -> Iterator[Load]:
    """Every load within a statement, its bounds and conditions included."""
    for part in statements(stmt):
        for expr in expressions(part):
            yield from loads_of(expr)
