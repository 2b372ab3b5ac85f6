"""What is made of Python numbers alone, in the type of what it meets: `x[i] * tl.select(c, 0.1, 0.2)` has 0.1 as precise as x is."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang import ir
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import dtype_of


def retyped(root: ir.Expr, to: DType) -> ir.Expr | None:
    """An expression of literals in a wider floating type; None where it has anything else in it, or is as wide.

    Converted afterwards they would have been rounded to `float32` before.
    """
    if not (to.is_floating and dtype_of(root).is_floating and to.bits > dtype_of(root).bits):
        return None
    known: dict[int, ir.Expr] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        operands = _operands(node)
        if operands is None:
            return None
        missing = [operand for operand in operands if id(operand) not in known]
        stack += missing
        if not missing:
            stack.pop()
            known[id(node)] = _with_operands(node, [known[id(operand)] for operand in operands], to)
    return known[id(root)]


def _operands(node: ir.Expr) -> tuple[ir.Expr, ...] | None:
    """The operands that have the type of a floating-point node; None where it is not made of literals."""
    match node:
        case ir.Const():
            return ()
        case ir.Cast(value, _) if dtype_of(value).is_integer:
            return ()
        case ir.Unary(_, operand):
            return (operand,)
        case ir.Binary(_, left, right):
            return left, right
        case ir.Select(_, yes, no):
            return yes, no
        case ir.Call(_, args, result) if result.is_floating:
            return args
        case _:
            return None


def _with_operands(node: ir.Expr, operands: Sequence[ir.Expr], to: DType) -> ir.Expr:
    """A node on operands of another type."""
    match node:
        case ir.Const(number, _):
            return ir.Const(float(number), to)
        case ir.Cast(value, _):
            return ir.Cast(value, to)
        case ir.Unary(op, _):
            return ir.Unary(op, *operands)
        case ir.Binary(op, _, _):
            return ir.Binary(op, *operands)
        case ir.Select(cond, _, _):
            return ir.Select(cond, *operands)
        case _:
            assert isinstance(node, ir.Call), "the other nodes have no operands here"
            return ir.Call(node.function, tuple(operands), to)
