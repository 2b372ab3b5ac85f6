"""Where temporaries stand: one copy for each lane inside vector loops, outside loops that only repeat them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Expr, For, Load, Prefetch, Stmt, Store, allocate
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import axes_of, map_children, map_expressions, map_statements


def privatise(stmt: Stmt) -> Stmt:
    """Storage inside a vector loop gets a last dimension: the lane."""
    if isinstance(stmt, For) and stmt.kind == "vector":
        lanes = simplify(Binary("sub", stmt.hi, stmt.lo))
        wide = {buffer: replace(buffer, shape=(*buffer.shape, lanes)) for buffer in allocations(stmt.body)}
        return _widened(stmt, wide, simplify(Binary("sub", Axis(stmt.loop), stmt.lo))) if wide else stmt
    return map_statements(stmt, privatise)


def _widened(stmt: Stmt, wide: dict[Buffer, Buffer], lane: Expr) -> Stmt:
    """Every access to the old buffers, at the lane's own element of the new ones."""

    def load(expr: Expr) -> Expr:
        expr = map_children(expr, load)
        if isinstance(expr, Load) and isinstance(expr.buffer, Buffer) and expr.buffer in wide:
            return Load(wide[expr.buffer], (*expr.index, lane))
        return expr

    def rewrite(part: Stmt) -> Stmt:
        match part:
            case Store(buffers=buffers) if any(buffer in wide for buffer in buffers):
                return replace(part, buffers=tuple(wide.get(buffer, buffer) for buffer in buffers), index=(*part.index, lane))
            case Alloc(buffers, body):
                return allocate((wide[buffer] for buffer in buffers), rewrite(body))
            case Prefetch(buffer=buffer) if buffer in wide:
                return Block(())
            case _:
                return map_statements(part, rewrite)

    return rewrite(map_expressions(stmt, load))


def hoist_allocations(stmt: Stmt) -> Stmt:
    """Large storage moves out of serial loops, so that it is taken once: that of a body, or of its parts, which follow each other."""
    stmt = map_statements(stmt, hoist_allocations)
    if not isinstance(stmt, For) or stmt.kind != "serial":
        return stmt
    every, found = Counter(buffer.name for buffer in allocations(stmt.body)), Counter(_large(stmt.body))
    moved = [buffer for buffer, times in found.items() if times == every[buffer.name]]  # not where another has the name
    return allocate(moved, replace(stmt, body=_without(stmt.body, moved))) if moved else stmt


def _large(stmt: Stmt) -> Iterator[Buffer]:
    """The storage of each part of a body that is as large in every iteration, and in no register."""
    match stmt:
        case Block(parts):
            for part in parts:
                yield from _large(part)
        case Alloc(buffers, body):
            yield from (buffer for buffer in buffers if buffer.memory != "register" and not any(map(axes_of, buffer.shape)))
            yield from _large(body)
        case _:
            pass


def _without(stmt: Stmt, moved: Collection[Buffer]) -> Stmt:
    match stmt:
        case Block(parts):
            return replace(stmt, body=tuple(_without(part, moved) for part in parts))
        case Alloc(buffers, body):
            return allocate((buffer for buffer in buffers if buffer not in moved), _without(body, moved))
        case _:
            return stmt
