"""Extents at a call: arithmetic over run-time dims, evaluated, solved for a dim, and as JSON.

An extent is an `ir` expression of constants and dims. Arithmetic is that of the nest: floored division, total (a division by zero
gives 0).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tensorlang import ir
from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Const, Dim, Expr, Unary
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import walk

_MEANING: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "max": max,
    "min": min,
}

_DEEPEST: Final = 100
_LARGEST: Final = 1 << 100
"""Beyond what any count of operations comes to."""


def evaluate(extent: Expr, dims: Mapping[str, int]) -> int:
    """The value of an extent. `dims` holds every dim that it names."""
    match extent:
        case Const(value, _):
            return int(value)
        case Dim(name):
            return dims[name]
        case Unary("neg", value):
            return -evaluate(value, dims)
        case Binary(op, left, right) if op in _MEANING:
            return _MEANING[op](evaluate(left, dims), evaluate(right, dims))
        case _:
            raise InternalError(f"{extent!r} is not an extent")


def dims_of(extent: Expr) -> frozenset[str]:
    """Names of the dims in an extent."""
    return frozenset(node.name for node in walk(extent) if isinstance(node, Dim))


@dataclass(frozen=True, slots=True)
class Affine:
    """`scale * dim + offset`; without a dim, the constant `offset`."""

    dim: str | None
    scale: int
    offset: int


def affine(extent: Expr) -> Affine | None:
    """An extent as an affine function of at most one dim, else None."""
    form = linear(extent)
    match tuple(form.terms.items()):
        case ():
            return Affine(None, 0, form.constant)
        case ((Dim(name), scale),):
            return Affine(name, scale, form.constant)
        case _:
            return None


def solve(extent: Expr, value: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
    """The dim, and its value, that gives an extent the value `value`; None where more than one dim is unknown or none fits.

    `2 * n == 10` gives n = 5; `2 * n == 9` and `n // 2 == 4` give None: the first has no solution, the second has two.
    """
    form = affine(_substituted(extent, dims))
    if form is None or form.dim is None:
        return None
    solution, rest = divmod(value - form.offset, form.scale)
    return None if rest or solution < 0 else (form.dim, solution)


def _substituted(extent: Expr, dims: Mapping[str, int]) -> Expr:
    match extent:
        case Dim(name) if name in dims:
            return ir.const(dims[name])
        case Binary(op, left, right):
            whole = Binary(op, _substituted(left, dims), _substituted(right, dims))
            return ir.const(evaluate(whole, dims)) if not dims_of(whole) else whole
        case Unary(op, value):
            return Unary(op, _substituted(value, dims))
        case _:
            return extent


def to_json(extent: Expr) -> Any:
    """A number, a dim's name, or `[op, operand, ...]`."""
    match extent:
        case Const(value, _):
            return int(value)
        case Dim(name):
            return name
        case Unary("neg", value):
            return ["neg", to_json(value)]
        case Binary(op, left, right) if op in _MEANING:
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
        case [str(op), left, right] if depth and op in _MEANING:
            return Binary(op, _from_json(left, dims, depth - 1), _from_json(right, dims, depth - 1))
        case _:
            raise ValueError(f"expected an extent, found a {type(value).__name__}")
