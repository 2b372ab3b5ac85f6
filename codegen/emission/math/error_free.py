"""Error-free transformations: sums and products without loss, and the pairs of reals that carry what rounding drops.

A pair `(high, low)` stands for the unrounded sum of its parts. The transformations are those of Dekker (1971) and Knuth (TAOCP 2,
section 4.2.2); they hold in round-to-nearest, which is why no fast-math flag may ever reach these operations. A product is split by
clearing low bits of the encoding where the target has no fused multiply-add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tensorlang.codegen.emission.math.values import Integer, Real, fma

Pair: TypeAlias = tuple[Real, Real]

MANTISSA = {32: 23, 64: 52}
BIAS = {32: 127, 64: 1023}
LEAST_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
TINY = {32: 2.0**-60, 64: 2.0**-200}
"""Below this, functions with slope 1 at 0 return their argument: the sign of zero and subnormal numbers stay."""


def horner(x: Real, coefficients: Sequence[float]) -> Real:
    """The polynomial with these coefficients, constant term first."""
    value = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = fma(value, x, coefficient)
    return value


def fast_two_sum(a: Real, b: Real) -> Pair:
    """a + b without loss, where a is 0 or |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Real, b: Real | float) -> Pair:
    """a + b without loss."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Real, b: Real) -> Pair:
    """a * b without loss (without FMA: to about 2 ** -106 in float64), barring underflow of the low part."""
    product = a * b
    if a.lanes.has_fma:
        return product, fma(a, b, -product)
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Real) -> Pair:
    dropped = {32: 12, 64: 27}[a.lanes.bits]
    high = (a.bits() & -(1 << dropped)).real()
    return high, a - high


def pair_product(a: Pair, b: Pair) -> Pair:
    """The product of two pairs, to about twice the precision of a real."""
    high, low = two_product(a[0], b[0])
    return fast_two_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def pair_sum(a: Pair, b: Pair) -> Pair:
    """The sum of two pairs, accurate where a[0] is 0 or |a[0]| >= |b[0]|."""
    high, low = fast_two_sum(a[0], b[0])
    return fast_two_sum(high, low + (a[1] + b[1]))


def quotient(a: Pair, b: Pair) -> Pair:
    """a / b for pairs whose low parts are within half an ulp of the high ones: high part and correction."""
    high = a[0] / b[0]
    product, low = two_product(high, b[0])
    return high, (((a[0] - product) - low) + (a[1] - high * b[1])) / b[0]


def shifter(bits: int) -> float:
    """The number to add for rounding to an integer in the low bits of the encoding: 1.5 * 2 ** (mantissa bits)."""
    return 1.5 * 2.0 ** MANTISSA[bits]


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer that scales reals: as a real, and as the encoding of it plus `shifter` and twice the bias of exponents.

    Of that encoding each half, moved to the exponent, is a power of two: the bias is there, and what `shifter` adds is moved out.
    """

    real: Real
    encoding: Integer

    def power_of_two(self, less: int = 0) -> Real:
        """2 ** (n - less), which is in the range of normal exponents."""
        bits = self.real.lanes.bits
        return ((self.encoding - (BIAS[bits] + less)) << MANTISSA[bits]).real()

    def inverse_square(self) -> Real:
        """2 ** (-2 * n), which is in the range of normal exponents."""
        bits = self.real.lanes.bits
        return ((self.real.constant(0.0).bits() + 5 * BIAS[bits] - self.encoding - self.encoding) << MANTISSA[bits]).real()

    def halves(self) -> tuple[Real, Real]:
        """Two powers of two, of which 2 ** n is the product, for n within twice the range of exponents."""
        mantissa = MANTISSA[self.real.lanes.bits]
        half = self.encoding.logical_shift(1)
        return (half << mantissa).real(), ((self.encoding - half) << mantissa).real()

    def scale(self, x: Real) -> Real:
        """x * 2 ** n for 0.5 <= |x| <= 2 and n up to twice the range of exponents; one rounding, also to subnormal numbers."""
        if x.lanes.has_scale:
            return Real(x.lanes, x.lanes.scale(x.raw, self.real.raw))
        first, second = self.halves()
        return x * first * second

    def scale_next(self, x: Real) -> Real:
        """(1 + x) * 2 ** n, as `scale`: where that is two products the first one adds."""
        if x.lanes.has_scale:
            return self.scale(x + 1.0)
        first, second = self.halves()
        return fma(x, first, first) * second


def nearest(x: Real, factor: float = 1.0) -> Whole:
    """The integer nearest to x * factor, for |x * factor| below 2 ** (mantissa bits - 2)."""
    bits = x.lanes.bits
    shift = shifter(bits) + 2 * BIAS[bits]
    shifted = x + shift if factor == 1.0 else fma(x, factor, shift)
    return Whole(shifted - shift, shifted.bits())


def as_real(n: Integer, like: Real) -> Real:
    """An integer of less than 2 ** (mantissa bits - 2) as a real; `like` gives the format."""
    shift = like.constant(shifter(like.lanes.bits))
    return (n + shift.bits()).real() - shift


def power_of_two(n: Integer) -> Real:
    """2 ** n for n in the range of normal exponents."""
    return ((n + BIAS[n.lanes.bits]) << MANTISSA[n.lanes.bits]).real()
