"""Simplification: the rows of `rules`, applied bottom up.

One pass reaches the normal form, because operands are simplified first and every row's result is already simple. Bounds and indices of a
program are few expressions that every step and pass asks for again, so what becomes of those is kept.
"""

from __future__ import annotations

from typing import Any, Final

from tensorlang.algebra.rules import ROWS_OF, kind_of
from tensorlang.ir import Axis, Binary, Compare, Const, Dim, Expr, Param, Select, Unary
from tensorlang.ir.traverse import rewrite

LEAVES: Final = (Axis, Const, Dim, Param)
DEEPEST: Final = 24
"""How deep an expression may be that is kept: indices are not deeper, and nothing deep is worth the frames to spell it."""
MOST_KEPT: Final = 1 << 14

_kept: Final[dict[tuple[Any, ...], Expr | None]] = {}
"""What becomes of an expression; None where it is simple already, so that it stays the one that was asked about."""


def simplify(expr: Expr) -> Expr:
    """An equal expression, with literals folded, like terms collected and decided conditions gone."""
    if isinstance(expr, LEAVES):
        return expr
    key = _spelled(expr, DEEPEST)
    if key is None:
        return rewrite(expr, _simplified)
    found = _kept.get(key, expr)  # another thread may clear it at any time
    if found is expr:
        made = rewrite(expr, _simplified)
        found = None if made is expr else made
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = found
    return expr if found is None else found


def _spelled(expr: Expr, depth: int) -> Any:
    """What an expression of axes and whole literals says; None for others, whose operands may be equal and mean something else (dims)."""
    kind = type(expr)
    if kind is Axis:
        return expr.name  # type: ignore[union-attr]
    if kind is Const:
        return None if expr.dtype.is_floating else (expr.value, expr.dtype)  # type: ignore[union-attr]
    if not depth:
        return None
    match expr:
        case Binary() | Compare():
            left = _spelled(expr.left, depth - 1)
            right = None if left is None else _spelled(expr.right, depth - 1)
            return None if right is None else (kind, expr.op, left, right)
        case Unary():
            value = _spelled(expr.value, depth - 1)
            return None if value is None else (kind, expr.op, value)
        case Select():
            parts = [_spelled(part, depth - 1) for part in (expr.cond, expr.yes, expr.no)]
            return None if None in parts else (kind, *parts)
        case _:
            return None


def _simplified(node: Expr) -> Expr:
    """A node over simple operands: each row in turn, of those that are about nodes of its kind."""
    first = 0
    while True:
        for place, rule in ROWS_OF.get(kind_of(node), ()):
            result = rule(node) if place >= first else None
            if result is not None and result != node:
                node, first = result, place + 1
                break
        else:
            return node
