"""exp, exp2, expm1.

The argument is written n * log(2) + r with |r| <= log(2) / 2, log(2) being the sum of two constants of which the first has so few bits
that n times it is exact (Cody & Waite, Software Manual for the Elementary Functions, 1980). A polynomial gives e ** r, and 2 ** n is
multiplied in two steps, so that the range ends in subnormal numbers and infinity with a single rounding.

Coefficients: q in e ** r = 1 + r + r ** 2 * q(r) is fitted on |r| <= 0.3475 to least |r * error|, and for exp2 in float32 w in
2 ** f = 1 + f * w(f) on |f| <= 0.5005 to least |f * error|, by iteratively reweighted least squares on Chebyshev nodes (Lawson 1961)
in 50-digit arithmetic; each coefficient, lowest first, is rounded to the format before the others are fitted again. The comments above
the tables give the greatest weighted error that is left.
"""

from __future__ import annotations

import math

from tensorlang.codegen.emission.math.error_free import TINY, Pair, Whole, fast_two_sum, horner, nearest, two_product, two_sum
from tensorlang.codegen.emission.math.values import Real, fma, select

LN2 = {
    32: (0.693145751953125, 1.428606765330187e-06),
    64: (0.6931471805598903, 5.497923018708371e-14),
}
_Q = {
    # 2 ** -26.1 and 2 ** -61.6
    32: (0.5, 0.16666541993618011, 0.04166644811630249, 0.008366722613573074, 0.001393652055412531),
    64: (
        0.5,
        0.16666666666666677,
        0.041666666666666685,
        0.008333333333321397,
        0.0013888888888872954,
        0.00019841269886791736,
        2.4801587350485826e-05,
        2.7557243468637675e-06,
        2.7557250284554656e-07,
        2.510931768319441e-08,
        2.092235001188522e-09,
    ),
}
# 2 ** -28.0
_EXP2 = (0.6931471824645996, 0.24022653698921204, 0.05550358071923256, 0.009617730043828487, 0.0013391649117693305, 0.0001555012131575495)
_LN2_PAIR = (0.6931471805599453, 2.3190468138462996e-17)
_EXP_RANGE = {32: (-104.0, 89.0), 64: (-746.0, 710.0)}
_EXP2_RANGE = {32: (-151.0, 129.0), 64: (-1076.0, 1025.0)}
_EXPM1_LEAST = {32: -18.0, 64: -38.0}


def clamp(x: Real, low: float, high: float) -> Real:
    """x within [low, high]; NaN stays."""
    x = select(x < low, x.constant(low), x)
    return select(x > high, x.constant(high), x)


def _reduce(x: Real) -> tuple[Whole, Real, Real]:
    """n, r and its rounding error, with x = n * log(2) + r + error."""
    high, low = LN2[x.lanes.bits]
    n = nearest(x, 1.0 / math.log(2.0))
    r_high = fma(n.real, -high, x)
    if x.lanes.bits == 32:
        return n, fma(n.real, -low, r_high), x.constant(0.0)
    dropped = n.real * low
    r = r_high - dropped
    return n, r, (r_high - r) - dropped


def _of_reduced(r: Real, error: Real) -> Pair:
    """e ** (r + error) for |r| <= 0.3475."""
    high, low = fast_two_sum(r.constant(1.0), r)
    return high, low + fma(r * r, horner(r, _Q[r.lanes.bits]), error)


def exp_pair(x: Real) -> tuple[Whole, Pair]:
    """n and a pair in [0.7, 1.42] with e ** x = pair * 2 ** n, for x in the range of `exp`."""
    n, r, error = _reduce(x)
    return n, _of_reduced(r, error)


def exp2_pair(x: Real, low: Real | float = 0.0) -> tuple[Whole, Pair]:
    """The same for 2 ** (x + low) in float64, where low is below an ulp of 1075."""
    n = nearest(x)
    f = x - n.real
    r, error = two_product(f, x.constant(_LN2_PAIR[0]))
    r, error = fast_two_sum(r, error + fma(f, _LN2_PAIR[1], _LN2_PAIR[0] * low))
    return n, _of_reduced(r, error)


def _exp_short(x: Real) -> tuple[Whole, Real]:
    """n and m with e ** x = (1 + m) * 2 ** n in float32: two operations less than the pair, for half an ulp."""
    n, r, _ = _reduce(x)
    return n, fma(r * r, horner(r, _Q[32]), r)


def exp_scaled(x: Real) -> tuple[Whole, Real]:
    """n and m with e ** x = m * 2 ** n."""
    if x.lanes.bits == 64:
        n, (high, low) = exp_pair(x)
        return n, high + low
    n, more = _exp_short(x)
    return n, more + 1.0


def exp(x: Real) -> Real:
    """e ** x."""
    x = clamp(x, *_EXP_RANGE[x.lanes.bits])
    if x.lanes.bits == 64:
        n, (high, low) = exp_pair(x)
        return n.scale(high + low)
    n, more = _exp_short(x)
    return n.scale_next(more)


def exp2(x: Real) -> Real:
    """2 ** x."""
    x = clamp(x, *_EXP2_RANGE[x.lanes.bits])
    if x.lanes.bits == 64:
        n, (high, low) = exp2_pair(x)
        return n.scale(high + low)
    n = nearest(x)
    f = x - n.real
    return n.scale(fma(f, horner(f, _EXP2), 1.0))


def expm1_pair(x: Real) -> Pair:
    """e ** x - 1 as a pair, for |x| above `TINY`."""
    x = clamp(x, _EXPM1_LEAST[x.lanes.bits], _EXP_RANGE[x.lanes.bits][1])
    n, r, error = _reduce(x)
    # Half the result is summed: 2 ** n itself would overflow just below the end of the range.
    half_power = n.power_of_two(less=1)
    base, base_error = two_sum(half_power, -0.5)
    high, low = two_sum(base, half_power * r)
    low = low + (base_error + half_power * fma(r * r, horner(r, _Q[x.lanes.bits]), error))
    high, low = fast_two_sum(high, low)
    return high + high, low + low


def expm1(x: Real) -> Real:
    """e ** x - 1."""
    high, low = expm1_pair(x)
    return select(abs(x) < TINY[x.lanes.bits], x, high + low)
