"""Vector loops move to the stores and take the width of registers.

    vector j in range(48):              for k in range(n):
        for k in range(n):      ->          unroll c in range(3):
            C[j] += A[k] * B[k, j]              vector l in range(16):
                                                    C[16 c + l] += A[k] * B[k, 16 c + l]

Lanes are independent, or combine in any order, so a vector loop distributes over the statements inside it, whose loops have the same
bounds for all lanes and whose storage has a dimension for them (`storage.privatise`). What is left around each store are conditions that
differ by lane: masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.bounds import asked_first, bounded
from tensorlang.ir import Alloc, Axis, Binary, Block, Const, Expr, For, If, Prefetch, Stmt, Store, allocate, block
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import axes_of, loads_of, map_expressions, map_statements, read_in, statements, substitute, written_in


def distribute(stmt: Stmt) -> Stmt:
    """The statement with every vector loop directly around a store, but for the conditions that differ by lane."""
    if isinstance(stmt, For) and stmt.kind == "vector":
        return _distributed(stmt.body, stmt, ())
    return map_statements(stmt, distribute)


def _distributed(stmt: Stmt, vector: For, masks: tuple[Expr, ...]) -> Stmt:
    match stmt:
        case Store():
            return _leaf(vector, stmt, masks)
        case Prefetch(index=index):
            return replace(stmt, index=tuple(simplify(substitute(part, {vector.loop: vector.lo})) for part in index))
        case Block(body=parts):
            return block(*(_distributed(part, vector, masks) for part in parts))
        case For():
            return replace(stmt, body=_distributed(stmt.body, vector, masks))
        case Alloc(buffers, body):
            return allocate(buffers, _distributed(body, vector, masks))
        case If(cond, then, orelse) if vector.loop not in axes_of(cond):
            return If(cond, _distributed(then, vector, masks), None if orelse is None else _distributed(orelse, vector, masks))
        case If(cond, then, orelse):
            if _changes(stmt, cond):
                return _leaf(vector, stmt, masks)
            yes = _distributed(then, vector, (*masks, cond))
            return yes if orelse is None else block(yes, _distributed(orelse, vector, (*masks, ir.Unary("not", cond))))


def _leaf(vector: For, body: Stmt, masks: tuple[Expr, ...]) -> For:
    for mask in reversed(masks):
        body = If(mask, body)
    return replace(vector, body=body)


def narrow(stmt: Stmt, lanes: Callable[[DType], int]) -> Stmt:
    """The statement with every vector loop no wider than a register of the widest type in it, or than the lanes that its masks let through.

    Lanes that share an element are left only where at most one of them runs; those take turns.
    """
    if isinstance(stmt, For) and stmt.kind == "vector":
        stmt = _without_idle_lanes(stmt)
        shared = any(
            isinstance(part, Store) and all(stmt.loop not in axes_of(index) for index in part.index) for part in statements(stmt.body)
        )
        return replace(stmt, kind="serial") if shared else _chunks(stmt, stmt.body, lanes)
    return map_statements(stmt, lambda part: narrow(part, lanes))


def _without_idle_lanes(vector: For) -> For:
    """A vector loop without the upper half of its lanes, or more, where a mask holds in none of them.

    Rows of 7 have half a vector of 16 lanes, which many cores take twice as often as a whole one.
    """
    if vector.lo != ir.const(0) or not isinstance(vector.hi, Const):
        return vector
    extent = least = int(vector.hi.value)
    for condition in asked_first(vector.body)[0]:
        last = bounded(vector, condition)
        if last is not None and isinstance(last.hi, Const) and last.lo == vector.lo:
            least = min(least, max(1, int(last.hi.value)))
    wanted = 1 << (least - 1).bit_length()
    return replace(vector, hi=ir.const(wanted)) if 2 * wanted <= extent else vector


def _changes(stmt: Stmt, cond: Expr) -> bool:
    """Do the stores inside write what the condition reads?"""
    return bool(read_in(cond) & written_in(stmt))


def _chunks(vector: For, body: Stmt, lanes: Callable[[DType], int]) -> Stmt:
    extent = simplify(Binary("sub", vector.hi, vector.lo))
    width = int(getattr(extent, "value", 0))
    native = max(1, min(lanes(dtype) for dtype in _types(body)))
    if width <= native:
        return replace(vector, body=body)
    whole, rest = divmod(width, native)
    parts: list[Stmt] = []
    chunk = Axis(f"{vector.loop}.chunk")
    start = Binary("add", vector.lo, Binary("mul", ir.const(native), chunk))
    inner = For(vector.loop, ir.const(0), ir.const(native), _shifted(body, vector.loop, start), "vector")
    parts.append(For(chunk.name, ir.const(0), ir.const(whole), inner, "unroll"))
    if rest:
        last = Binary("add", vector.lo, ir.const(native * whole))
        parts.append(For(vector.loop, ir.const(0), ir.const(rest), _shifted(body, vector.loop, last), "vector"))
    return block(*parts)


def _shifted(body: Stmt, loop: str, start: Expr) -> Stmt:
    value: dict[str, Expr] = {loop: Binary("add", start, Axis(loop))}
    return map_expressions(body, lambda expr: simplify(substitute(expr, value)))


def _types(body: Stmt) -> set[DType]:
    found: set[DType] = set()
    for part in statements(body):
        if isinstance(part, Store):
            found |= {buffer.dtype for buffer in part.buffers}
            found |= {load.buffer.dtype for value in part.values for load in loads_of(value)}
    return found
