"""What a loop wrote in its last iterations stays in registers, and a choice that data decides reads both sides.

    for j in range(1, n):                           past = S[0]
        S[j] = a * S[j - 1] + X[j]      ->          for j in range(1, n):
                                                        now = a * past + X[j]
                                                        S[j] = now
                                                        past = now

A recurrence that reads its past from memory waits in each step for the store of the step before to be found again: some nine cycles of a
Zen 4. So is kept what an iteration computes in lanes, of few vectors: of more the steps wait side by side. Right because one
statement of the loop writes the buffer, once in each iteration and one element further, so that what is k behind was written k iterations
ago, or before the loop. It is read in the first iteration or lies between what that reads and what it writes, so the buffer has it.

    if K[i]: S[i] = S[i - 1] + 1                    past = S[i - 1]
    else: S[i] = 0                      ->          S[i] = select(K[i], past + 1, 0)

A side of a choice is read only where it is chosen, since it may not exist elsewhere; in scalar code that is a branch, which data makes
unpredictable. Where the reads are proved inside their buffers whatever is chosen, and there are few, they are made before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.algebra.rules import TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Block, Buffer, Call, Compare, Expr, For, If, Load, Nest, Select, Stmt, Store, allocate, block
from tensorlang.ir.dtype import DType
from tensorlang.ir.linear import linear
from tensorlang.ir.mentions import allocations
from tensorlang.ir.names import unique
from tensorlang.ir.traverse import axes_of, children, map_statements, reads_data, rewrite, substitute, walk
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.in_bounds import sides_left
from tensorlang.schedules.rewriting.edit import literal_extent, nested

FARTHEST: Final = 4
"""Iterations that a value is carried over at most."""
MOST_READS: Final = 4
"""Reads of a choice that are made before it at most."""
SHORTEST: Final = 4
"""Iterations below which a loop carries nothing."""
MOST_VECTORS: Final = 4
"""Vectors of an iteration that are carried at most: as many steps of a few cycles wait side by side for one that goes through memory."""


def carried(nest: Nest, lanes: Callable[[DType], int]) -> Nest:
    """The nest with what loops carry in registers; a vector has so many `lanes` of a type."""
    taken = {buffer.name for buffer in (*nest.inputs, *nest.outputs, *allocations(nest.body))}
    return replace(nest, body=_rewritten(nest.body, taken, (), lanes))


def _rewritten(stmt: Stmt, taken: set[str], facts: tuple[Expr, ...], lanes: Callable[[DType], int]) -> Stmt:
    if not isinstance(stmt, For):
        inside = (*facts, stmt.cond) if isinstance(stmt, If) and stmt.orelse is None else facts
        return map_statements(stmt, lambda part: _rewritten(part, taken, inside, lanes))
    if stmt.kind == "vector":
        return stmt
    within = (*facts, *facts_of(stmt))
    across, body = _in_lanes(stmt.body) if stmt.kind == "serial" else ((), stmt.body)
    stores = _stores(body)
    extent = literal_extent(stmt)
    if stores is None or (stmt.kind == "serial" and extent is not None and extent < SHORTEST):
        return map_statements(stmt, lambda part: _rewritten(part, taken, within, lanes))
    if across:
        elements = prod(literal_extent(loop) or 0 for loop in across)
        few = all(elements <= MOST_VECTORS * lanes(buffer.dtype) for store in stores for buffer in store.buffers)
        return _carrying(stmt, stores, taken, across) if few else stmt
    read = [part for store in stores for part in _read_before(store, taken, within)]
    temporaries = [part.buffers[0] for part in read if part.buffers[0].memory == "register" and not part.buffers[0].shape]
    loop = replace(stmt, body=block(*read))
    return _around(_carrying(loop, read, taken) if stmt.kind == "serial" else loop, temporaries)


def _around(stmt: Stmt, buffers: Sequence[Buffer]) -> Stmt:
    return allocate(tuple(dict.fromkeys(buffers)), stmt)


def _in_lanes(stmt: Stmt) -> tuple[tuple[For, ...], Stmt]:
    """The loops over the lanes of an iteration, vectors beside one another, and what they do; none where it is something else."""
    loops, body = list[For](), stmt
    while isinstance(body, For) and body.lo == ir.const(0) and (extent := literal_extent(body)) is not None:
        if body.kind not in ("unroll", "vector") and extent != 1:
            break
        loops.append(body)
        body = body.body
    return (tuple(loops), body) if loops and loops[-1].kind == "vector" else ((), stmt)


def _stores(stmt: Stmt) -> list[Store] | None:
    """The plain stores that the body of a loop is, or None."""
    parts = stmt.body if isinstance(stmt, Block) else (stmt,)
    stores = [part for part in parts if isinstance(part, Store) and part.reducer is None]
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
    """The reads of what a store wrote to one of its buffers in iterations before, by how many."""

    store: Store
    target: Buffer
    reads: dict[Expr, int]
    depth: int


def _carrying(loop: For, stores: Sequence[Store], taken: set[str], across: tuple[For, ...] = ()) -> Stmt:
    """The loop with the past of its stores, in the lanes of the loops `across`, in registers."""
    every = [(store, buffer) for store in stores for buffer in store.buffers]
    pasts = [past for store, buffer in every if (past := _past(loop, store, buffer, stores)) is not None]
    if not pasts:
        return loop
    shape, lane = tuple(ir.const(literal_extent(part) or 0) for part in across), tuple(Axis(part.loop) for part in across)
    body, before, buffers, after = list(stores), list[Stmt](), list[Buffer](), list[Stmt]()
    for past in pasts:
        own = [Buffer(unique("past", taken), shape, past.target.dtype, "register") for _ in range(past.depth + 1)]
        stage, now = f"{past.store.stage}.past", Load(own[0], lane)
        values: dict[Expr, Expr] = {load: Load(own[distance], lane) for load, distance in past.reads.items()}
        rest: list[Store] = []
        for part in body:
            new = replace(part, values=tuple(_with(value, values) for value in part.values))
            if past.target in part.buffers:
                place = part.buffers.index(past.target)
                rest.append(Store(stage, (own[0],), lane, (new.values[place],)))
                new = replace(new, values=(*new.values[:place], now, *new.values[place + 1 :]))
            rest.append(new)
        body = rest
        for distance in range(1, past.depth + 1):
            at: dict[str, Expr] = {loop.loop: Binary("sub", loop.lo, ir.const(distance))}
            index = tuple(simplify(substitute(part, at)) for part in past.store.index)
            before.append(nested(across, Store(stage, (own[distance],), lane, (Load(past.target, index),))))
        after += [Store(stage, (own[distance],), lane, (Load(own[distance - 1], lane),)) for distance in range(past.depth, 0, -1)]
        buffers += own
    start = block(*before)
    test = simplify(Compare("lt", loop.lo, loop.hi))
    if test != TRUE:
        start = If(test, start)
    steps = (nested(across, part) for part in (*body, *after))
    return allocate(tuple(buffers), block(start, replace(loop, body=block(*steps))))


def _past(loop: For, store: Store, target: Buffer, stores: Sequence[Store]) -> _Past | None:
    """What a store reads of its own buffer from iterations before, all of it unconditionally; None where that is not known."""
    axis, written = Axis(loop.loop), [buffer for part in stores for buffer in part.buffers]
    moving = [linear(part).terms.get(axis) if loop.loop in axes_of(part) else 0 for part in store.index]
    if written.count(target) != 1 or sorted(map(str, moving)) != ["0"] * (len(moving) - 1) + ["1"]:
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
    return _Past(store, target, reads, max(reads.values())) if reads else None


def _unconditional(expr: Expr) -> Iterator[Load]:
    """The reads that are made whatever the expression chooses."""
    stack: list[Expr] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Load):
            yield node
        stack.extend((node.cond,) if isinstance(node, Select) else children(node))
