"""Integer operations on known numbers: the rows by which conditions on unrolled loops and full vectors vanish.

Python's integers give the exact result, which the caller wraps to the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorlang.codegen.emission.types import I1, Value, in_register, known, lanes_of, literal, wrap
from tensorlang.ir.dtype import BOOL, DType


def _shl(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shr(a: int, b: int) -> int:
    return a >> (b if 0 <= b < 64 else 64)


ARITHMETIC: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": _shl,
    "shr": _shr,
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
}
COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def folded(op: str, dtype: DType, a: Value, b: Value) -> Value | None:
    """`a op b` as a constant where both are known integers, lane by lane; else None."""
    left, right = known(a), known(b)
    if left is None or right is None or dtype.is_floating:
        return None
    kind = I1 if op in COMPARE else in_register(dtype)
    if isinstance(left, int) and isinstance(right, int):
        return literal(kind, fold(op, dtype, left, right))
    count = max(lanes_of(a), lanes_of(b))
    lefts = left if isinstance(left, tuple) else (left,) * count
    rights = right if isinstance(right, tuple) else (right,) * count
    return literal(kind, tuple(fold(op, dtype, x, y) for x, y in zip(lefts, rights, strict=True)))


def fold(op: str, dtype: DType, a: int, b: int) -> int:
    """`a op b` for two integers of a type, not yet wrapped to it."""
    signed, bits = dtype.kind == "signed", 1 if dtype == BOOL else dtype.bits
    left, right = wrap(a, bits, signed=signed), wrap(b, bits, signed=signed)
    return int(COMPARE[op](left, right)) if op in COMPARE else ARITHMETIC[op](left, right)
