"""Extents in the file of a kernel: arithmetic on literals and dims as JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from tensorlang import ir
from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Const, Dim, Expr, Unary
from tensorlang.ir.integers import EXTENT_OPERATORS

_DEEPEST: Final = 100
_LARGEST: Final = 1 << 100
"""Beyond what any count of operations comes to."""


def to_json(extent: Expr) -> Any:
    """A number, a dim's name, or `[op, operand, ...]`."""
    match extent:
        case Const(value, _):
            return int(value)
        case Dim(name):
            return name
        case Unary("neg", value):
            return ["neg", to_json(value)]
        case Binary(op, left, right) if op in EXTENT_OPERATORS:
            return [op, to_json(left), to_json(right)]
        case _:
            raise InternalError(f"{extent!r} is not an extent")


def from_json(value: Any, dims: Collection[str]) -> Expr:
    """The extent that `to_json` wrote, over these dims. Raises `ValueError` for anything else, too large or too deep ones included."""
    return _from_json(value, dims, _DEEPEST)


def _from_json(value: Any, dims: Collection[str], depth: int) -> Expr:
    match value:
        case int() if not isinstance(value, bool) and abs(value) < _LARGEST:
            return ir.const(value)
        case str() if value in dims:
            return Dim(value)
        case ["neg", operand] if depth:
            return Unary("neg", _from_json(operand, dims, depth - 1))
        case [str(op), left, right] if depth and op in EXTENT_OPERATORS:
            return Binary(op, _from_json(left, dims, depth - 1), _from_json(right, dims, depth - 1))
        case _:
            raise ValueError(f"expected an extent, found a {type(value).__name__}")
