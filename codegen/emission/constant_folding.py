"""Constant folding of integer operations, by which conditions on unrolled loops and full vectors vanish.

Python's integers give the exact result, which the caller wraps to the type.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat

from tensorlang.codegen.emission.types import I1, Value, in_register, known, literal, wrap
from tensorlang.ir.dtype import BOOL, DType
from tensorlang.ir.integers import ARITHMETIC, COMPARE


def folded(op: str, dtype: DType, a: Value, b: Value) -> Value | None:
    """`a op b` as a constant where both are known integers, lane by lane; else None."""
    if dtype.is_floating:
        return None
    left = known(a)
    right = None if left is None else known(b)
    if left is None or right is None:
        return None
    return literal(I1 if op in COMPARE else in_register(dtype), _lanewise(op, dtype, left, right))


@lru_cache(maxsize=1024)
def _lanewise(op: str, dtype: DType, left: int | tuple[int, ...], right: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """The operation on two numbers, or in each lane: kept, since the copies of an unrolled body ask the same."""
    if isinstance(left, int) and isinstance(right, int):
        return fold(op, dtype, left, right)
    lefts, rights = (side if isinstance(side, tuple) else repeat(side) for side in (left, right))
    return tuple([fold(op, dtype, x, y) for x, y in zip(lefts, rights, strict=False)])


def fold(op: str, dtype: DType, a: int, b: int) -> int:
    """`a op b` for two integers of a type, not yet wrapped to it."""
    signed, bits = dtype.kind == "signed", 1 if dtype == BOOL else dtype.bits
    left, right = wrap(a, bits, signed=signed), wrap(b, bits, signed=signed)
    return int(COMPARE[op](left, right)) if op in COMPARE else ARITHMETIC[op](left, right)
