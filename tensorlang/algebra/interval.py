"""Arithmetic of intervals: what an operator gives on all values between two bounds.

An `Interval` of an integer or bool is (least, most), both reached or not, as Python integers. A row of the tables is exact arithmetic: it
does not wrap, and says nothing of the type. `within` is where the type comes in: what leaves it wraps, and then may be anything in it.

A `Floats` is the same of a floating-point value, with whether it may be NaN. Its rows are rounded outwards by more than an operation of
any type rounds, so that they hold however a target contracts or widens.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from tensorlang.ir.dtype import EPSILON, DType

Interval: TypeAlias = tuple[int, int]
BIT: Final[Interval] = (0, 1)


@cache
def whole(of: DType) -> Interval:
    """All values of an integer type or of bool."""
    return int(of.lowest), int(of.highest)


def inside(part: Interval, all_of: Interval) -> bool:
    """Is the first interval within the second?"""
    return all_of[0] <= part[0] and part[1] <= all_of[1]


def union(a: Interval, b: Interval) -> Interval:
    """The least interval that holds both."""
    return min(a[0], b[0]), max(a[1], b[1])


def meet(a: Interval, b: Interval) -> Interval:
    """What both hold; where that is nothing, nothing is ever evaluated, and the first one is as right as any."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


def within(exact: Interval, of: DType) -> Interval:
    """The values of an exact result once it is of a type: unchanged where all fit, else any, since some wrap."""
    return exact if inside(exact, whole(of)) else whole(of)


def _corners(fn: Callable[[int, int], int], a: Interval, b: Interval) -> Interval:
    found = [fn(x, y) for x in a for y in b]
    return min(found), max(found)


def _width(*parts: Interval) -> int:
    """The least k for which all values are in `-2**k .. 2**k - 1`."""
    return max(max(high, -1 - low, 0).bit_length() for low, high in parts)


def _and(a: Interval, b: Interval) -> Interval:
    nonnegative = [high for low, high in (a, b) if low >= 0]
    if nonnegative:
        return 0, min(nonnegative)
    most = min(a[1], b[1]) if a[1] < 0 and b[1] < 0 else max(a[1], b[1])
    return -(1 << _width(a, b)), most


def inverted(a: Interval) -> Interval:
    """`~x` of a signed type: -1 - x."""
    return -1 - a[1], -1 - a[0]


def _or(a: Interval, b: Interval) -> Interval:
    return inverted(_and(inverted(a), inverted(b)))


def _xor(a: Interval, b: Interval) -> Interval:
    size = 1 << _width(a, b)
    signs = {low < 0 for low, high in (a, b) if (low < 0) == (high < 0)}
    if any((low < 0) != (high < 0) for low, high in (a, b)):
        return -size, size - 1
    return (0, size - 1) if len(signs) == 1 else (-size, -1)


def _shl(a: Interval, b: Interval, bits: int) -> Interval:
    low, high = max(b[0], 0), min(b[1], bits - 1)
    if low > high:
        return 0, 0
    exact = _corners(lambda x, y: x << y, a, (low, high))
    return exact if inside(b, (0, bits - 1)) else union(exact, (0, 0))


def _shr(a: Interval, b: Interval, bits: int) -> Interval:
    by = (max(b[0], 0), min(b[1], bits)) if b[0] >= 0 else (0, bits)
    return _corners(lambda x, y: x >> y, a, (min(by[0], bits), by[1]))


def _floordiv(a: Interval, b: Interval) -> Interval:
    found = [(0, 0)] if b[0] <= 0 <= b[1] else []
    found += [_corners(lambda x, y: x // y, a, part) for part in ((b[0], min(b[1], -1)), (max(b[0], 1), b[1])) if part[0] <= part[1]]
    return min(part[0] for part in found), max(part[1] for part in found)


def _mod(a: Interval, b: Interval) -> Interval:
    if b[0] > 0:
        if a[0] >= 0 and a[1] < b[0]:
            return a
        return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    most = max(b[1] - 1, 0)
    return min(b[0] + 1, 0), min(most, a[1]) if a[0] >= 0 else most


BINARY: Final[dict[str, Callable[[Interval, Interval, int], Interval]]] = {
    "add": lambda a, b, _: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b, _: (a[0] - b[1], a[1] - b[0]),
    "mul": lambda a, b, _: _corners(lambda x, y: x * y, a, b),
    "min": lambda a, b, _: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda a, b, _: (max(a[0], b[0]), max(a[1], b[1])),
    "fmin": lambda a, b, _: (min(a[0], b[0]), min(a[1], b[1])),
    "fmax": lambda a, b, _: (max(a[0], b[0]), max(a[1], b[1])),
    "and": lambda a, b, _: _and(a, b),
    "or": lambda a, b, _: _or(a, b),
    "xor": lambda a, b, _: _xor(a, b),
    "shl": _shl,
    "shr": _shr,
    "floordiv": lambda a, b, _: _floordiv(a, b),
    "mod": lambda a, b, _: _mod(a, b),
}
"""Of each operator on integers, given the width of the type in bits."""


def magnitude(a: Interval) -> Interval:
    """`abs(x)`."""
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


# Floating point ------------------------------------------------------------------------------------------------------------------

_EXACT: Final[dict[str, Callable[[float, float], float]]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_ROUND: Final[dict[str, Callable[[float], int]]] = {"floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc}
_TINY: Final = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
_LARGEST: Final = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38, "float64": math.inf}


def exact_integers(of: DType) -> Interval:
    """The range in which a floating-point type holds every integer."""
    most = int(2 / EPSILON[of])
    return -most, most


@dataclass(frozen=True, slots=True)
class Floats:
    """`low <= value <= high`, or NaN where it may be."""

    low: float = -math.inf
    high: float = math.inf
    nan: bool = True

    def rounded(self, of: DType) -> Floats:
        """The interval after operations that round to a type, outwards."""
        return Floats(_outwards(self.low, of, -1), _outwards(self.high, of, 1), self.nan)

    @property
    def finite(self) -> bool:
        """Are all values finite, NaN aside?"""
        return math.isfinite(self.low) and math.isfinite(self.high)


def _outwards(value: float, of: DType, sign: int) -> float:
    if math.isinf(value):
        return value if (value > 0) == (sign > 0) else math.copysign(sys.float_info.max if of == "float64" else _LARGEST[of], value)
    if value == 0:  # what rounds keeps its sign
        return value
    moved = value + sign * (abs(value) * 4 * EPSILON[of] + 4 * _TINY[of])
    if abs(moved) > _LARGEST[of]:
        return math.copysign(math.inf if (moved > 0) == (sign > 0) else _LARGEST[of], moved)
    return moved


def float_binary(op: str, a: Floats, b: Floats, of: DType) -> Floats:
    """`a op b` on values of a floating-point type."""
    nan = a.nan or b.nan
    match op:
        case "min":
            return Floats(min(a.low, b.low), min(a.high, b.high), nan)
        case "max":
            return Floats(max(a.low, b.low), max(a.high, b.high), nan)
        case "fmin":
            high = max(part.high for part, other in ((a, b), (b, a)) if other.nan) if nan else min(a.high, b.high)
            return Floats(min(a.low, b.low), high, a.nan and b.nan)
        case "fmax":
            low = min(part.low for part, other in ((a, b), (b, a)) if other.nan) if nan else max(a.low, b.low)
            return Floats(low, max(a.high, b.high), a.nan and b.nan)
        case "add" | "sub" | "mul" if a.finite and b.finite:
            found = [_EXACT[op](x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            return Floats(min(found), max(found), nan).rounded(of)
        case "div" if a.finite and b.finite and (b.low > 0 or b.high < 0):
            found = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Floats(min(found), max(found), nan).rounded(of)
        case _:
            return Floats()


def float_call(function: str, a: Floats) -> Floats:
    """A function of the table in `functions`: the exact ones; of the others nothing is known."""
    round_to = _ROUND.get(function)
    if round_to is None:
        return Floats()
    low, high = (float(round_to(end)) if math.isfinite(end) else end for end in (a.low, a.high))
    return Floats(low, high, a.nan)


def truncated(a: Floats, of: DType) -> Interval:
    """A cast to an integer type: towards zero, saturating, NaN as 0."""
    least, most = whole(of)
    ends = [most if end >= most else least if end <= least else math.trunc(end) for end in (a.low, a.high)]
    found = (ends[0], ends[1])
    return union(found, (0, 0)) if a.nan else found
