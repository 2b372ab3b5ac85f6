"""atan, atan2, asin, acos.

The arc tangent of y / x is that of the lesser over the greater, t in [0, 1], turned into its octant; beyond tan(pi/8) it is pi/4 and the
arc tangent of (t - 1) / (t + 1). The arc sine beyond 1/2 follows from that of sqrt((1 - x) / 2). In float64 quotient and root are
pairs, and multiples of pi/4 are too. float32 is computed in float64, with shorter polynomials. What C's functions (ISO C, annex F) say of
zeros, infinities and signs holds.

Coefficients, fitted as in `exponential` with z = r ** 2: p in atan(r) = r + r * z * p(z) on |r| <= tan(pi/8) and in
asin(r) = r + r * z * p(z) on |r| <= 1/2, each to least |z * error|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorlang.codegen.emission.math.error_free import Pair, fast_two_sum, horner, quotient, two_product, two_sum
from tensorlang.codegen.emission.math.values import Mask, Real, select

# 2 ** -63.4 and, for float32 results, 2 ** -34.5
_ATAN = (
    -0.3333333333333333,
    0.19999999999999007,
    -0.14285714285545242,
    0.11111111097391008,
    -0.09090908458201412,
    0.07692289473984291,
    -0.06666320941049879,
    0.05877900258413891,
    -0.052238047761678535,
    0.04524571482751972,
    -0.03394403342480255,
    0.015653671379060194,
)
_ATAN_SHORT = (
    -0.3333333301278104,
    0.19999946177422287,
    -0.14283139127005115,
    0.11057916384647769,
    -0.08546468557766362,
    0.04882701677234409,
)
# 2 ** -62.8 and 2 ** -34.9
_ASIN = (
    0.16666666666666666,
    0.0750000000000059,
    0.04464285714183321,
    0.03038194452530755,
    0.022372155521607092,
    0.017352862560481668,
    0.013963053535552385,
    0.011574287691288697,
    0.00956333027226546,
    0.00962285638263738,
    0.0019752459395743285,
    0.02200310349335201,
    -0.022522362258948405,
    0.03156459850101375,
)
_ASIN_SHORT = (
    0.16666666839095062,
    0.07499975368904456,
    0.044653126205240444,
    0.03019396012704992,
    0.024114857854589052,
    0.008959144006309778,
    0.032968738966435374,
)
_EIGHTHS = {
    1: (0.7853981633974483, 3.061616997868383e-17),
    2: (1.5707963267948966, 6.123233995736766e-17),
    3: (2.356194490192345, 9.184850993605148e-17),
    4: (3.141592653589793, 1.2246467991473532e-16),
}
"""Multiples of pi/4 as pairs."""
_TAN_EIGHTH = 0.41421356237309503
_FLAT = 2.0**-30
"""Below this, an arc tangent is its argument."""


def _multiple(count: int, like: Real) -> Pair:
    high, low = _EIGHTHS[count] if count else (0.0, 0.0)
    return like.constant(high), like.constant(low)


def _either(mask: Mask, yes: Pair, no: Pair) -> Pair:
    return select(mask, yes[0], no[0]), select(mask, yes[1], no[1])


def _rounded_sum(base: Pair, value: Real, rest: Real) -> Real:
    """base + value + rest, rounded about once: `base` is 0 or at least as great as `value`."""
    high, low = fast_two_sum(base[0], value)
    return high + (low + (base[1] + rest))


def _is_negative(x: Real) -> Mask:
    """Is the sign bit set?"""
    return x.bits().bit_set(x.lanes.bits - 1)


def atan(x: Real) -> Real:
    """Arc tangent, in [-pi/2, pi/2]."""
    return atan2(x, x.constant(1.0))


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y), in [-pi, pi], with the sign of y."""
    if y.lanes.bits == 32:
        return _angle(y.widen(), x.widen(), _ATAN_SHORT, paired=False).narrow()
    return _angle(y, x, _ATAN, paired=True)


def _angle(y: Real, x: Real, coefficients: Sequence[float], *, paired: bool) -> Real:
    a, b = abs(y), abs(x)
    swapped, left = a > b, _is_negative(x)
    less, greater = select(swapped, b, a), select(swapped, a, b)
    endless = greater.compare("==", math.inf)
    less = select(endless, select(less.compare("==", math.inf), less.constant(1.0), 0.0), less)
    greater = select(endless, greater.constant(1.0), greater)
    greater = select(greater.compare("==", 0.0), greater.constant(1.0), greater)
    plain = less / greater
    far = plain > _TAN_EIGHTH
    if paired:
        # Away from the ends of the range, so that no product of the division leaves it.
        factor = select(greater > 2.0**500, plain.constant(2.0**-600), select(greater < 2.0**-500, plain.constant(2.0**500), 1.0))
        less, greater = less * factor, greater * factor
        numerator = _either(far, two_sum(less, -greater), (less, less.constant(0.0)))
        denominator = _either(far, fast_two_sum(greater, less), (greater, less.constant(0.0)))
        value, correction = quotient(numerator, denominator)
        flat = plain < _FLAT
        value, correction = select(flat, plain, value), select(flat, plain.constant(0.0), correction)
    else:
        value, correction = select(far, less - greater, less) / select(far, greater + less, greater), plain.constant(0.0)
    z = value * value
    rest = value * z * horner(z, coefficients) + correction * (1.0 - z)
    near = _either(swapped, _multiple(2, y), _either(left, _multiple(4, y), _multiple(0, y)))
    base = _either(far, _either(left, _multiple(3, y), _multiple(1, y)), near)
    sign = select(swapped, select(left, y.constant(1.0), -1.0), select(left, y.constant(-1.0), 1.0))
    result = _rounded_sum(base, value * sign, rest * sign).with_sign_of(y)
    return select(y.compare("!=", y), y, select(x.compare("!=", x), x, result))


def _arc(x: Real) -> tuple[Mask, Real, Real]:
    """Is |x| at most 1/2? Then the arc sine of |x|, else that of sqrt((1 - |x|) / 2): its argument and the rest."""
    magnitude = abs(x)
    near = magnitude <= 0.5
    half = (1.0 - magnitude) * 0.5
    root = half.sqrt()
    product, error = two_product(root, root)
    missed = select(root > 0.0, ((half - product) - error) / (root + root), 0.0)
    value = select(near, magnitude, root)
    z = select(near, magnitude * magnitude, half)
    return near, value, value * z * horner(z, _ASIN) + select(near, missed.constant(0.0), missed)


def _short_arc(x: Real) -> tuple[Mask, Real, Real]:
    """The same for float32 results."""
    magnitude = abs(x)
    near = magnitude <= 0.5
    z = select(near, magnitude * magnitude, (1.0 - magnitude) * 0.5)
    value = select(near, magnitude, z.sqrt())
    return near, value, value * z * horner(z, _ASIN_SHORT)


def asin(x: Real) -> Real:
    """Arc sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""
    wide = x.widen() if x.lanes.bits == 32 else x
    near, value, rest = _short_arc(wide) if x.lanes.bits == 32 else _arc(wide)
    factor = select(near, wide.constant(1.0), -2.0)
    result = _rounded_sum(_either(near, _multiple(0, wide), _multiple(2, wide)), value * factor, rest * factor)
    return (result.narrow() if x.lanes.bits == 32 else result).with_sign_of(x)


def acos(x: Real) -> Real:
    """Arc cosine, in [0, pi]; NaN outside [-1, 1]."""
    wide = x.widen() if x.lanes.bits == 32 else x
    near, value, rest = _short_arc(wide) if x.lanes.bits == 32 else _arc(wide)
    left = _is_negative(x)
    factor = select(near, select(left, wide.constant(1.0), -1.0), select(left, wide.constant(-2.0), 2.0))
    far = _either(left, _multiple(4, wide), _multiple(0, wide))
    result = _rounded_sum(_either(near, _multiple(2, wide), far), value * factor, rest * factor)
    return result.narrow() if x.lanes.bits == 32 else result
