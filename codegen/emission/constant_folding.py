"""Constant folding of integer operations, by which conditions on unrolled loops and full vectors vanish.

Python's integers give the exact result, which the caller wraps to the type.
"""

from __future__ import annotations

from tensorlang.codegen.emission.types import I1, Value, in_register, known, lanes_of, literal, wrap
from tensorlang.ir.dtype import BOOL, DType
from tensorlang.ir.integers import ARITHMETIC, COMPARE


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
