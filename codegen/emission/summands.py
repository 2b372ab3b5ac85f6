"""The offset of an element as a sum over axes, found once for an index.

The copies of an unrolled body hold the same index, and differ in what its axes are: the sum is the same for all of them.
"""

from __future__ import annotations

from typing import TypeAlias

from tensorlang import ir

Summands: TypeAlias = tuple[tuple[str, int], ...]
"""Axes by name, each with its factor; the literal is a summand without a name."""


def summands(index: tuple[ir.Expr, ...], shape: tuple[ir.Expr, ...]) -> Summands | None:
    """The summands of an element's offset in a row-major buffer, as the index has them; None where one is no axis and no literal."""
    found: list[tuple[str, int]] = []
    for place, extent in zip(index, shape, strict=True):
        if not isinstance(extent, ir.Const):
            return None
        found = [(name, factor * int(extent.value)) for name, factor in found]
        if not _add(place, 1, found):
            return None
    return tuple(found)


def _add(expr: ir.Expr, factor: int, found: list[tuple[str, int]]) -> bool:
    """Add the summands of an expression; were all of them axes, times literals, and literals?"""
    match expr:
        case ir.Axis(name):
            found.append((name, factor))
        case ir.Const(value):
            found.append(("", factor * int(value)))
        case ir.Binary("add" | "sub" as op, left, right):
            return _add(left, factor, found) and _add(right, factor if op == "add" else -factor, found)
        case ir.Binary("mul", ir.Const(value), ir.Axis(name)) | ir.Binary("mul", ir.Axis(name), ir.Const(value)):
            found.append((name, factor * int(value)))
        case _:
            return False
    return True
