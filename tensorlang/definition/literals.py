"""What is made of Python numbers alone, in the type of what it meets: `x[i] * tl.select(c, 0.1, 0.2)` has 0.1 as precise as x is."""

from __future__ import annotations

from tensorlang import ir
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import dtype_of, map_children


class _NoLiteral(Exception):  # noqa: N818 - no error: the expression is converted instead
    """Something in an expression is not made of literals."""


def retyped(root: ir.Expr, to: DType) -> ir.Expr | None:
    """An expression of literals in a wider floating type; None where it has anything else in it, or is as wide.

    Converted afterwards they would have been rounded to `float32` before.
    """
    known: dict[int, ir.Expr] = {}

    def wider(node: ir.Expr) -> ir.Expr:
        if id(node) not in known:
            known[id(node)] = made(node)
        return known[id(node)]

    def made(node: ir.Expr) -> ir.Expr:
        match node:
            case ir.Const(number, _):
                return ir.Const(float(number), to)
            case ir.Cast(value, _) if dtype_of(value).is_integer:
                return ir.Cast(value, to)
            case ir.Unary() | ir.Binary():
                return map_children(node, wider)
            case ir.Select(cond, yes, no):
                return ir.Select(cond, wider(yes), wider(no))
            case ir.Call(function, args, result) if result.is_floating:
                return ir.Call(function, tuple(map(wider, args)), to)
            case _:
                raise _NoLiteral

    if not (to.is_floating and dtype_of(root).is_floating and to.bits > dtype_of(root).bits):
        return None
    try:
        return wider(root)
    except _NoLiteral:
        return None
