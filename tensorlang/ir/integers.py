"""Integer operators on Python's integers, and the value that an extent has where its dims are known.

A row is exact: what it gives is not wrapped to a type yet, which is the caller's part. Rows are total, as the language is: a division by
zero gives 0, a shift by the width or more gives 0 or the sign. The same operators on arrays are in `semantics.arithmetic`, on intervals
in `algebra.interval`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Final

from tensorlang.errors import InternalError
from tensorlang.ir import Binary, Const, Dim, Expr, Unary
from tensorlang.ir.printer import text

WIDTH: Final = 64
"""Bits of the widest integer type: of a narrower one, what a longer shift moves out is wrapped away, or is the sign."""

ASSUMED_EXTENT: Final = 1024
"""What is planned for where an extent is known only at run time."""

ARITHMETIC: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a << b if 0 <= b < WIDTH else 0,
    "shr": lambda a, b: a >> (b if 0 <= b < WIDTH else WIDTH),
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
}
COMPARE: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
EXTENT_OPERATORS: Final = ("add", "sub", "mul", "floordiv", "mod", "max", "min")
"""What extents, and bounds of loops that are fixed, are computed with."""


def known_value(extent: Expr, dims: Mapping[str, int]) -> int | None:
    """The value of arithmetic on literals and dims; None where a dim in it is not known, or anything else is in it."""
    match extent:
        case Const(value, _):
            return int(value)
        case Dim(name):
            return dims.get(name)
        case Unary("neg", operand):
            inner = known_value(operand, dims)
            return None if inner is None else -inner
        case Binary(op, left, right) if op in EXTENT_OPERATORS:
            a, b = known_value(left, dims), known_value(right, dims)
            return None if a is None or b is None else ARITHMETIC[op](a, b)
        case _:
            return None


def value_of(extent: Expr, dims: Mapping[str, int]) -> int:
    """The value of arithmetic on literals and dims. Raises `InternalError` where it has none."""
    found = known_value(extent, dims)
    if found is None:
        raise InternalError(f"{text(extent)} has no value where {', '.join(dims) or 'no dim'} is known")
    return found
