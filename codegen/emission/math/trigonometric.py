"""sin, cos, tan.

After the reduction (`reduction`) a polynomial on |r| <= pi/4 gives the sine and the cosine, and the quadrant chooses between them. In
float64 the low part of r and the rounding error of 1 - r ** 2 / 2 are carried along. The tangent is a quotient, of pairs in float64; in
float32 it is computed in float64, as both of its operands would otherwise add their errors.

Coefficients, fitted as in `exponential`, with z = r ** 2 and |r| <= 0.8: s in sin(r) = r + r * z * s(z), relative to r, and c in
cos(r) = 1 - z / 2 + z ** 2 * c(z).
"""

from __future__ import annotations

from tensorlang.codegen.emission.math.error_free import TINY, Pair, fast_two_sum, horner, quotient
from tensorlang.codegen.emission.math.reduction import quarter_turns, quarter_turns_wide
from tensorlang.codegen.emission.math.values import Integer, Real, fma, select

_SIN = {
    # 2 ** -27.8 and 2 ** -62.9
    32: (-0.16666653752326965, 0.00833209790289402, -0.00019506023090798408),
    64: (
        -0.16666666666666666,
        0.008333333333333102,
        -0.00019841269841062084,
        2.75573191332191e-06,
        -2.5052087289437897e-08,
        1.6056447166300208e-10,
        -7.495941361251372e-13,
    ),
}
_COS = {
    # 2 ** -32.9 and 2 ** -63.7
    32: (0.04166664555668831, -0.0013887292006984353, 2.4428854885627516e-05),
    64: (
        0.04166666666666658,
        -0.0013888888888870885,
        2.480158728743064e-05,
        -2.7557313752277753e-07,
        2.0875640817464576e-09,
        -1.1355337894040931e-11,
    ),
}
# For float32 results from float64 arithmetic: 2 ** -37.3 and 2 ** -42.8
_SIN_SHORT = (-0.16666666637823507, 0.008333328945617944, -0.0001983919347312076, 2.716968554729996e-06)
_COS_SHORT = (0.041666666616066134, -0.0013888883167064976, 2.4799365340298376e-05, -2.719750333040264e-07)


def _sine(r: Pair) -> Pair:
    high, low = r
    z = high * high
    odd = horner(z, _SIN[high.lanes.bits])
    if high.lanes.bits == 32:
        return high, high * z * odd
    return high, fma(high * z, odd, fma(z, -0.5, 1.0) * low)


def _cosine(r: Pair) -> Pair:
    high, low = r
    z = high * high
    half = z * 0.5
    even = horner(z, _COS[high.lanes.bits])
    total = 1.0 - half
    if high.lanes.bits == 32:
        return total, z * z * even
    return total, ((1.0 - total) - half) + fma(z * z, even, -(high * low))


def _circular(x: Real, shift: int) -> Real:
    """The sine of x plus `shift` quarter turns."""
    n, r = quarter_turns(x)
    n = n + shift
    sine, cosine = _sine(r), _cosine(r)
    value = select(n.bit_set(0), cosine[0] + cosine[1], sine[0] + sine[1])
    return _flip(value, n)


def _flip(value: Real, n: Integer) -> Real:
    """The value with the sign of quadrant n."""
    return (value.bits() ^ ((n & 2) << (value.lanes.bits - 2))).real()


def sin(x: Real) -> Real:
    """Sine of radians."""
    return select(abs(x) < TINY[x.lanes.bits], x, _circular(x, 0))


def cos(x: Real) -> Real:
    """Cosine of radians."""
    return _circular(x, 1)


def tan(x: Real) -> Real:
    """Tangent of radians: sin / cos in even quadrants, -cos / sin in odd ones."""
    if x.lanes.bits == 32:
        n, r = quarter_turns_wide(x)
        odd = n.bit_set(0)
        z = r * r
        sine = fma(r * z, horner(z, _SIN_SHORT), r)
        cosine = fma(z * z, horner(z, _COS_SHORT), fma(z, -0.5, 1.0))
        value = (select(odd, -cosine, sine) / select(odd, sine, cosine)).narrow()
    else:
        n, reduced = quarter_turns(x)
        odd = n.bit_set(0)
        s, c = fast_two_sum(*_sine(reduced)), fast_two_sum(*_cosine(reduced))
        numerator = (select(odd, -c[0], s[0]), select(odd, -c[1], s[1]))
        denominator = (select(odd, s[0], c[0]), select(odd, s[1], c[1]))
        value, correction = quotient(numerator, denominator)
        value = value + correction
    return select(abs(x) < TINY[x.lanes.bits], x, value)
