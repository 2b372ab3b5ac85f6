"""floor, ceil, round, trunc, and the tests for NaN and infinity.

Without a rounding instruction (x86-64 before SSE4.1) the LLVM intrinsics would call libm. There, adding and subtracting 2 ** 23
(2 ** 52) rounds to nearest, and a comparison corrects by one; at and above that power every number is an integer. The sign is that of
the argument, so that -0.0 stays and ceil(-0.5) is -0.0.
"""

from __future__ import annotations

import math

from tensorlang.codegen.emission.math.error_free import MANTISSA
from tensorlang.codegen.emission.math.lane_operations import RoundingMode
from tensorlang.codegen.emission.math.values import Mask, Real, select


def _nearest_magnitude(x: Real) -> Real:
    """|x| rounded to nearest, halves to even, for |x| below 2 ** (mantissa bits)."""
    power = 2.0 ** MANTISSA[x.lanes.bits]
    return (abs(x) + power) - power


def _round(mode: RoundingMode, x: Real) -> Real:
    if x.lanes.has_round:
        return Real(x.lanes, x.lanes.round(mode, x.raw))
    magnitude = abs(x)
    rounded = _nearest_magnitude(x)
    match mode:
        case "even":
            pass
        case "trunc":
            rounded = select(rounded > magnitude, rounded - 1.0, rounded)
        case "floor":
            signed = rounded.with_sign_of(x)
            rounded = abs(select(signed > x, signed - 1.0, signed))
        case "ceil":
            signed = rounded.with_sign_of(x)
            rounded = abs(select(signed < x, signed + 1.0, signed))
    return select(magnitude < 2.0 ** MANTISSA[x.lanes.bits], rounded.with_sign_of(x), x)


def round_even(x: Real) -> Real:
    """Nearest integer, halves to even."""
    return _round("even", x)


def floor(x: Real) -> Real:
    """Greatest integer not above x."""
    return _round("floor", x)


def ceil(x: Real) -> Real:
    """Least integer not below x."""
    return _round("ceil", x)


def trunc(x: Real) -> Real:
    """Towards zero."""
    return _round("trunc", x)


def isnan(x: Real) -> Mask:
    """Is it not a number."""
    return x.compare("!=", x)


def isinf(x: Real) -> Mask:
    """Is it plus or minus infinity."""
    return abs(x).compare("==", math.inf)


def isfinite(x: Real) -> Mask:
    """Is it neither infinite nor NaN."""
    return abs(x) < math.inf
