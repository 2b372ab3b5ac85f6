"""Statements that say which instance of the program is executed.

Each statement that computes something adds an element of an operand of its own, the *mark*, at the values of its loops: `C[i] = A[i] + 1`
becomes `C[i] = A[i] + 1 + mark0[i]`. A directive takes that for any other read: wherever it moves, copies, inlines or renames the
statement, it rewrites the index of the mark with the rest, and what the index is when the scheduled nest runs tells the instance. Loops
that say nothing of a value which reads nothing that they change are 0 there: which of their iterations came last makes no difference. Marks
are 0, so all values stay. Statements that only copy, or that store constants, have none: they hand on what others made.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Final

from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Expr, For, If, Load, Nest, Prefetch, Stmt, Store, const
from tensorlang.ir.traverse import axes_of, dtype_of, loads_of, map_children, reads_data, statements, walk

PREFIX: Final = "mark of "


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the unscheduled nest, with the loops, conditions and positions around it, outermost first."""

    label: str
    store: Store
    loops: tuple[For, ...]
    conditions: tuple[tuple[Expr, bool], ...]
    time: tuple[int | str, ...]
    """Positions and loops in turn: what orders instances."""
    apart: tuple[bool, ...] = ()
    """For each loop, whether it tells instances apart: where nothing that a value reads changes meanwhile, only those it speaks of do."""

    def instance(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """The iteration that stands for all those that store the same."""
        return tuple(value if apart else 0 for value, apart in zip(at, self.apart, strict=True))

    @property
    def computes(self) -> bool:
        """Does it make values, and not only hand them on? What is combined counts each time, also where it is a constant.

        One that stores a copy beside another value makes both: each of them alone would hand on something else. One that looks up
        where it copies from depends on that besides.
        """
        values = self.store.values
        copies = len(values) == 1 and isinstance(values[0], Load) and not any(map(reads_data, values[0].index))
        handed = all(map(is_constant, values)) or copies
        return self.store.reducer is not None or not handed


def is_constant(value: Expr) -> bool:
    """Is a value the same for all instances, so that it does not tell which of them stored it?"""
    return not any(isinstance(part, (Axis, Load)) for part in walk(value))


def statements_of(nest: Nest) -> tuple[Statement, ...]:
    """The statements of a nest, in program order; two of one stage are told apart."""
    found: list[Statement] = []
    for statement in _inside(nest.body, (), (), (), itertools.count()):
        taken = sum(other.label.split("#")[0] == statement.label for other in found)
        label = f"{statement.label}#{taken}" if taken else statement.label
        found.append(dataclasses.replace(statement, label=label, apart=_apart(statement)))
    return tuple(found)


def _apart(statement: Statement) -> tuple[bool, ...]:
    store = statement.store
    changing = (
        {buffer for part in statements(statement.loops[0]) if isinstance(part, Store) for buffer in part.buffers}
        if statement.loops
        else set()
    )
    every = store.reducer is not None or any(load.buffer in changing for value in store.values for load in loads_of(value))
    spoken = frozenset[str]().union(*map(axes_of, store.values))
    return tuple(every or loop.loop in spoken for loop in statement.loops)


def _inside(
    stmt: Stmt, loops: tuple[For, ...], conditions: tuple[tuple[Expr, bool], ...], time: tuple[int | str, ...], position: Iterator[int]
) -> Iterator[Statement]:
    """The statements within one; `position` counts those that follow each other inside the innermost loop."""
    match stmt:
        case Store():
            yield Statement(stmt.stage, stmt, loops, conditions, (*time, next(position)))
        case For(loop=loop, body=body):
            yield from _inside(body, (*loops, stmt), conditions, (*time, next(position), loop), itertools.count())
        case Block(body):
            for part in body:
                yield from _inside(part, loops, conditions, time, position)
        case If(cond, then, orelse):
            yield from _inside(then, loops, (*conditions, (cond, True)), time, position)
            if orelse is not None:
                yield from _inside(orelse, loops, (*conditions, (cond, False)), time, position)
        case Alloc(_, body):
            yield from _inside(body, loops, conditions, time, position)
        case Prefetch():
            return


def marked(nest: Nest, *, constants: bool = False) -> Nest:
    """The unscheduled nest with a mark in each statement that computes something, or stores `constants` that start no reduction.

    With `constants`, all iterations count as different, whatever they store.
    """
    marks: list[Buffer] = []
    stores: dict[int, Store] = {}
    for statement in statements_of(nest):
        stored = statement.store.reducer is None and all(map(is_constant, statement.store.values))
        if statement.computes or (constants and stored and not statement.store.stage.endswith(".init")):
            stores[id(statement.store)], used = _marked(statement, every=constants)
            marks += used
    return dataclasses.replace(nest, inputs=(*nest.inputs, *marks), body=_replaced(nest.body, stores))


def _marked(statement: Statement, *, every: bool) -> tuple[Store, list[Buffer]]:
    """The store with a mark for each value, at `every` loop or at those that tell instances apart."""
    loops = zip(statement.loops, statement.apart, strict=True)
    index = tuple(Axis(loop.loop) if apart or every else const(0) for loop, apart in loops)
    shape = tuple(loop.hi for loop in statement.loops)
    marks = [Buffer(f"{PREFIX}{statement.label}.{place}", shape, dtype_of(value)) for place, value in enumerate(statement.store.values)]
    values = tuple(
        Binary("xor" if mark.dtype == "bool" else "add", value, Load(mark, index))
        for mark, value in zip(marks, statement.store.values, strict=True)
    )
    return dataclasses.replace(statement.store, values=values), marks


def _replaced(stmt: Stmt, stores: dict[int, Store]) -> Stmt:
    match stmt:
        case Store():
            return stores.get(id(stmt), stmt)
        case For() | Alloc():
            return dataclasses.replace(stmt, body=_replaced(stmt.body, stores))
        case Block(body):
            return Block(tuple(_replaced(part, stores) for part in body))
        case If(cond, then, orelse):
            return If(cond, _replaced(then, stores), None if orelse is None else _replaced(orelse, stores))
        case Prefetch():
            return stmt


def label_of(buffer: str) -> str | None:
    """The statement whose mark a buffer is; None where it is none."""
    return buffer[len(PREFIX) :].rsplit(".", 1)[0] if buffer.startswith(PREFIX) else None


def unmarked(nest: Nest) -> Nest:
    """A nest without its marks."""
    inputs = tuple(buffer for buffer in nest.inputs if label_of(buffer.name) is None)
    return dataclasses.replace(nest, inputs=inputs, body=_without(nest.body))


def _without(stmt: Stmt) -> Stmt:
    match stmt:
        case Store():
            return dataclasses.replace(stmt, index=tuple(map(_bare, stmt.index)), values=tuple(map(_bare, stmt.values)))
        case For():
            return dataclasses.replace(stmt, lo=_bare(stmt.lo), hi=_bare(stmt.hi), body=_without(stmt.body))
        case Alloc():
            return dataclasses.replace(stmt, body=_without(stmt.body))
        case Block(body):
            return Block(tuple(map(_without, body)))
        case If(cond, then, orelse):
            return If(_bare(cond), _without(then), None if orelse is None else _without(orelse))
        case Prefetch():
            return stmt


def _bare(expr: Expr) -> Expr:
    match expr:
        case Binary("add" | "xor", value, Load(buffer)) if label_of(getattr(buffer, "name", "")) is not None:
            return _bare(value)
        case Binary("add" | "xor", Load(buffer), value) if label_of(getattr(buffer, "name", "")) is not None:
            return _bare(value)
        case _:
            return map_children(expr, _bare)
