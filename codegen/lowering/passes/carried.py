"""What a loop wrote in its last iterations stays in registers, and a choice that data decides reads both sides.

    for j in range(1, n):                           past = S[0]
        S[j] = a * S[j - 1] + X[j]      ->          for j in range(1, n):
                                                        now = a * past + X[j]
                                                        S[j] = now
                                                        past = now

A recurrence that reads its past from memory waits in each step for the store of the step before to be found again. Right because one
statement of the loop writes the buffer, once in each iteration and one element further, so that what is k behind was written k iterations
ago, or before the loop. It is read in the first iteration or lies between what that reads and what it writes, so the buffer has it.

    if K[i]: S[i] = S[i - 1] + 1                    past = S[i - 1]
    else: S[i] = 0                      ->          S[i] = select(K[i], past + 1, 0)

A side of a choice is read only where it is chosen, since it may not exist elsewhere; in scalar code that is a branch, which data makes
unpredictable. Where the reads are proved inside their buffers whatever is chosen, and there are few, they are made before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.rules import TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Block, Buffer, Call, Compare, Expr, For, If, Load, Nest, Select, Stmt, Store, allocate, block
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import allocations
from tensorlang.ir.names import unique
from tensorlang.ir.traverse import axes_of, children, map_statements, reads_data, rewrite, substitute, walk
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.in_bounds import sides_left
from tensorlang.schedules.rewriting.edit import literal_extent

FARTHEST: Final = 4
"""Iterations that a value is carried over at most."""
MOST_READS: Final = 4
"""Reads of a choice that are made before it at most."""
SHORTEST: Final = 4
"""Iterations below which a loop carries nothing."""


def carried(nest: Nest) -> Nest:
    """The nest with what scalar loops carry in registers."""
    taken = {buffer.name for buffer in (*nest.inputs, *nest.outputs, *allocations(nest.body))}
    return replace(nest, body=_rewritten(nest.body, taken, ()))


def _rewritten(stmt: Stmt, taken: set[str], facts: tuple[Expr, ...]) -> Stmt:
    if not isinstance(stmt, For):
        inside = (*facts, stmt.cond) if isinstance(stmt, If) and stmt.orelse is None else facts
        return map_statements(stmt, lambda part: _rewritten(part, taken, inside))
    if stmt.kind == "vector":
        return stmt
    within = (*facts, *facts_of(stmt))
    stores = _stores(stmt.body)
    extent = literal_extent(stmt)
    if stores is None or (stmt.kind == "serial" and extent is not None and extent < SHORTEST):
        return map_statements(stmt, lambda part: _rewritten(part, taken, within))
    read = [part for store in stores for part in _read_before(store, taken, within)]
    temporaries = [part.buffers[0] for part in read if part.buffers[0].memory == "register" and not part.buffers[0].shape]
    loop = replace(stmt, body=block(*read))
    return _around(_carrying(loop, read, taken) if stmt.kind == "serial" else loop, temporaries)


def _around(stmt: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    return allocate(tuple(dict.fromkeys(buffers)), stmt)


def _stores(stmt: Stmt) -> list[Store] | None:
    """The plain stores that the body of a loop is, or None."""
    parts = stmt.body if isinstance(stmt, Block) else (stmt,)
    stores = [part for part in parts if isinstance(part, Store) and part.reducer is None and len(part.buffers) == 1]
    return stores if len(stores) == len(parts) else None


# Choices -------------------------------------------------------------------------------------------------------------------------


def _read_before(store: Store, taken: set[str], facts: tuple[Expr, ...]) -> Iterator[Store]:
    """What a store's choices on data read, in temporaries, and then the store."""
    found: dict[Expr, Buffer] = {}
    for node in (node for value in store.values for node in walk(value)):
        if not isinstance(node, Select) or not reads_data(node.cond):
            continue
        sides = [part for side in (node.yes, node.no) for part in walk(side)]
        loads = dict.fromkeys(part for part in sides if isinstance(part, Load) and not _is_register(part))
        if len(loads) > MOST_READS or any(isinstance(part, (Call, Select)) for part in sides):
            continue
        if all(_exists(load, facts) for load in loads):
            for load in loads:
                if load not in found:
                    found[load] = Buffer(unique("read", taken), (), load.buffer.dtype, "register")
    yield from (Store(f"{store.stage}.read", (buffer,), (), (read,)) for read, buffer in found.items())
    yield replace(store, values=tuple(_with(value, {load: Load(buffer, ()) for load, buffer in found.items()}) for value in store.values))


def _is_register(load: Load) -> bool:
    return isinstance(load.buffer, Buffer) and load.buffer.memory == "register"


def _exists(load: Load, facts: tuple[Expr, ...]) -> bool:
    """Is a read inside its buffer, whatever data says? Its index reads nothing."""
    inside = isinstance(load.buffer, Buffer) and not any(map(reads_data, load.index))
    return inside and isinstance(load.buffer, Buffer) and not sides_left(load.index, load.buffer.shape, facts)


def _with(expr: Expr, values: dict[Expr, Expr]) -> Expr:
    return rewrite(expr, lambda node: values.get(node, node) if isinstance(node, Load) else node) if values else expr


# What is carried -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Past:
    """The reads of what a store wrote in iterations before, by how many."""

    store: Store
    reads: dict[Expr, int]
    depth: int


def _carrying(loop: For, stores: Sequence[Store], taken: set[str]) -> Stmt:
    """The loop with the past of its stores in registers."""
    pasts = [past for store in stores if (past := _past(loop, store, stores)) is not None]
    if not pasts:
        return loop
    body, before, buffers, after = list(stores), list[Stmt](), list[Buffer](), list[Stmt]()
    for past in pasts:
        own = [Buffer(unique("past", taken), (), past.store.buffers[0].dtype, "register") for _ in range(past.depth + 1)]
        stage, (target,) = f"{past.store.stage}.past", past.store.buffers
        values: dict[Expr, Expr] = {load: Load(own[distance], ()) for load, distance in past.reads.items()}
        rest: list[Store] = []
        for part in body:
            new = replace(part, values=tuple(_with(value, values) for value in part.values))
            if part.buffers == (target,):
                rest.append(Store(stage, (own[0],), (), new.values))
                new = replace(new, values=(Load(own[0], ()),))
            rest.append(new)
        body = rest
        for distance in range(1, past.depth + 1):
            at: dict[str, Expr] = {loop.loop: Binary("sub", loop.lo, ir.const(distance))}
            index = tuple(simplify(substitute(part, at)) for part in past.store.index)
            before.append(Store(stage, (own[distance],), (), (Load(target, index),)))
        after += [Store(stage, (own[distance],), (), (Load(own[distance - 1], ()),)) for distance in range(past.depth, 0, -1)]
        buffers += own
    start = block(*before)
    test = simplify(Compare("lt", loop.lo, loop.hi))
    if test != TRUE:
        start = If(test, start)
    return allocate(tuple(buffers), block(start, replace(loop, body=block(*body, *after))))


def _past(loop: For, store: Store, stores: Sequence[Store]) -> _Past | None:
    """What a store reads of its own buffer from iterations before, all of it unconditionally; None where that is not known."""
    (target,), axis = store.buffers, Axis(loop.loop)
    moving = [linear(part).terms.get(axis) if loop.loop in axes_of(part) else 0 for part in store.index]
    if sum(part.buffers == (target,) for part in stores) != 1 or sorted(map(str, moving)) != ["0"] * (len(moving) - 1) + ["1"]:
        return None
    if any(loop.loop in axes_of(atom) for part in store.index for atom in linear(part).terms if atom != axis):
        return None
    place = moving.index(1)
    reads: dict[Expr, int] = {}
    for value in (value for part in stores for value in part.values):
        for load in _unconditional(value):
            if load.buffer != target:
                continue
            apart = [linear(Binary("sub", own, other)) for own, other in zip(store.index, load.index, strict=True)]
            distance = apart[place].constant
            near = all(form.is_constant and (form.constant == 0 or at == place) for at, form in enumerate(apart))
            if near and 1 <= distance <= FARTHEST:
                reads[load] = distance
    return _Past(store, reads, max(reads.values())) if reads else None


def _unconditional(expr: Expr) -> Iterator[Load]:
    """The reads that are made whatever the expression chooses."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.cond,) if isinstance(node, Select) else children(node))
