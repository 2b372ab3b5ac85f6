"""Where temporaries stand: one copy for each lane inside vector loops, outside loops that only repeat them."""

from __future__ import annotations

from dataclasses import replace

from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Expr, For, Load, Prefetch, Stmt, Store
from tensorlang.simplify import simplify
from tensorlang.traverse import axes_of, map_children, map_expressions, map_statements


def privatise(stmt: Stmt, vector: For | None = None) -> Stmt:
    """Storage inside a vector loop gets a last dimension: the lane."""
    if isinstance(stmt, For) and stmt.kind == "vector":
        vector = stmt
    if isinstance(stmt, Alloc) and vector is not None:
        lane = simplify(Binary("sub", Axis(vector.loop), vector.lo))
        lanes = simplify(Binary("sub", vector.hi, vector.lo))
        wide = replace(stmt.buffer, shape=(*stmt.buffer.shape, lanes))
        return Alloc(wide, privatise(_widened(stmt.body, stmt.buffer, wide, lane), vector))
    return map_statements(stmt, lambda part: privatise(part, vector))


def _widened(stmt: Stmt, old: Buffer, new: Buffer, lane: Expr) -> Stmt:
    def load(expr: Expr) -> Expr:
        expr = map_children(expr, load)
        return Load(new, (*expr.index, lane)) if isinstance(expr, Load) and expr.buffer == old else expr

    def store(part: Stmt) -> Stmt:
        if isinstance(part, Store) and old in part.buffers:
            return replace(part, buffers=tuple(new if buffer == old else buffer for buffer in part.buffers), index=(*part.index, lane))
        if isinstance(part, Prefetch) and part.buffer == old:
            return Block(())
        return map_statements(part, store)

    return store(map_expressions(stmt, load))


def hoist_allocations(stmt: Stmt) -> Stmt:
    """Large storage moves out of serial loops, so that it is taken once."""
    stmt = map_statements(stmt, hoist_allocations)
    if isinstance(stmt, For) and stmt.kind == "serial" and isinstance(stmt.body, Alloc):
        buffer = stmt.body.buffer
        if buffer.memory != "register" and not any(axes_of(extent) for extent in buffer.shape):
            return Alloc(buffer, hoist_allocations(replace(stmt, body=stmt.body.body)))
    return stmt
