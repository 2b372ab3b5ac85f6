"""What a program costs by its definition: arithmetic, compulsory traffic, workspace."""

from __future__ import annotations

from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.ir import Alloc, Binary, Call, Const, Expr, For, If, Nest, Stmt, Store, Unary
from tensorlang.simplify import simplify
from tensorlang.traverse import children, statements, substatements, walk

STACK_LIMIT: Final = 16 << 10
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "fmin", "fmax"})


def flops(nest: Nest) -> Expr:
    """Arithmetic operations of an unscheduled nest, as an expression over its dims; conditions count as if they always held."""
    return simplify(_flops(nest.body))


def _flops(stmt: Stmt) -> Expr:
    match stmt:
        case Store():
            return ir.const(operations(stmt))
        case For(_, lo, hi, body):
            inner = _flops(body)
            if inner == ir.const(0):
                return inner
            trips = simplify(Binary("max", simplify(Binary("sub", hi, lo)), ir.const(0)))
            if any(isinstance(node, ir.Axis) for node in walk(trips)):
                trips = ir.const(1)
            return simplify(Binary("mul", trips, inner))
        case If(_, then, orelse):
            return _flops(then) if orelse is None else simplify(Binary("max", _flops(then), _flops(orelse)))
        case _:
            total: Expr = ir.const(0)
            for part in substatements(stmt):
                total = Binary("add", total, _flops(part))
            return simplify(total)


def operations(store: Store) -> int:
    """Arithmetic operations of one execution of a statement."""
    terms = list(store.values) + ([] if store.reducer is None else list(store.reducer.results))
    return sum(_operations(term) for term in terms)


def _operations(expr: Expr) -> int:
    own = (isinstance(expr, Binary) and expr.op in _ARITHMETIC) or isinstance(expr, Call) or (isinstance(expr, Unary) and expr.op != "not")
    if isinstance(expr, ir.Load):
        return 0
    return int(own) + sum(_operations(child) for child in children(expr))


def traffic(nest: Nest) -> Expr:
    """Bytes of all inputs and outputs: what any schedule must move at least."""
    total: Expr = ir.const(0)
    for buffer in (*nest.inputs, *nest.outputs):
        size: Expr = ir.const(buffer.dtype.bytes)
        for extent in buffer.shape:
            size = Binary("mul", size, extent)
        total = Binary("add", total, size)
    return simplify(total)


def workspace(nest: Nest) -> int:
    """Bytes that the temporaries of a lowered nest take from the heap, where their extents are literals."""
    total = 0
    for part in statements(nest.body):
        if isinstance(part, Alloc) and all(isinstance(extent, Const) for extent in part.buffer.shape):
            size = prod(int(extent.value) for extent in part.buffer.shape if isinstance(extent, Const)) * part.buffer.dtype.bytes
            if part.buffer.memory == "heap" or (part.buffer.memory == "auto" and size > STACK_LIMIT):
                total += size
    return total
