"""Division by a literal as a product and a multiply-add, rounded as the division is.

    x / c  =  fma(x, high, x * low)         where high + low is 1 / c to twice the precision

Brisebarre, Muller, Raina 2004, "Accelerating correctly rounded floating-point division when the divisor is known in advance" (their
second method). It is wrong only where x / c lies nearer to the middle of two floats than both roundings are: for a divisor these x are
few, and each of them is tried. `high` is rounded towards zero, so that both parts have one sign, and infinities stay what they are.
Quotients that are nearly subnormal (below 2**-99 in float32, 2**-966 in float64) may differ in their last bit, as the product loses bits
there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tensorlang.ir.dtype import DType

_BITS: Final = {32: 24, 64: 53}
_SCALES: Final = {32: 80, 64: 800}
"""Powers of two between which divisors lie: beyond, a part of the reciprocal would be subnormal, or overflow."""
_NEAR: Final = 8
"""Halves of units in the last place, by the divisor's significand, that the roundings of both steps move a quotient by, at most."""


@lru_cache(maxsize=1024)
def reciprocal(divisor: float, dtype: DType) -> tuple[float, float] | None:
    """Both parts of 1 / divisor; None where a division is exact anyway, or some quotient would be rounded the other way."""
    bits = _BITS[dtype.bits]
    value = float(dtype.numpy.type(divisor))
    if not value or not math.isfinite(value) or abs(math.frexp(value)[1]) > _SCALES[dtype.bits]:
        return None
    whole = abs(Fraction(value))
    if whole.numerator & (whole.numerator - 1) == 0:  # a power of two
        return None
    parts = halves(whole, bits)
    if any(quotient(x, *parts, bits) != nearest(x / whole, bits) for x in doubtful(whole, bits)):
        return None
    high, low = (math.copysign(float(part), value) for part in parts)
    return high, low


def halves(divisor: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """1 / divisor, towards zero, and what is left of it, each of so many bits."""
    scale = _scale(1 / divisor, bits)
    high = math.floor(1 / divisor / scale) * scale
    return high, nearest(1 / divisor - high, bits)


def quotient(x: Fraction, high: Fraction, low: Fraction, bits: int) -> Fraction:
    """What the two steps give."""
    return nearest(x * high + nearest(x * low, bits), bits)


def doubtful(divisor: Fraction, bits: int) -> Iterator[Fraction]:
    """The numbers of so many bits whose quotients lie so near to the middle of two floats that the steps could miss them.

    With X and C, the significands as integers, that is 2**(t + 1) X = (2 Q + 1) C + d for a small d: a congruence for each.
    """
    odd = divisor.numerator // (divisor.numerator & -divisor.numerator)
    shift = bits - odd.bit_length()
    least = 1 << (bits - 1)
    for power in (bits - shift, bits + 1 - shift):  # t + 1, by the odd part of C
        back = pow(1 << power, -1, odd)
        for near in range(-_NEAR, _NEAR + 1):
            if near % 2 and abs(near) << shift <= _NEAR:
                first = near * back % odd
                yield from map(Fraction, range(first + -(-(least - first) // odd) * odd, 2 * least, odd))


def nearest(value: Fraction, bits: int) -> Fraction:
    """A number of so many bits, ties to even; exponents have no bounds."""
    scale = _scale(value, bits)
    return round(value / scale) * scale


def _scale(value: Fraction, bits: int) -> Fraction:
    """What the last of so many bits of a positive number is worth."""
    scale = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - bits)
    return scale if value < scale * (1 << bits) else 2 * scale
