"""pow, sqrt, rsqrt.

x ** y = 2 ** (y * log2(|x|)), with log2(m) = s * L(s ** 2), s = (m - 1) / (m + 1). An error in the logarithm is multiplied by up to
1075 * log(2) in the result, so float64 keeps the logarithm and its product with y as pairs, and float32 computes in float64. What C's
pow (ISO C, annex F) says of zeros, infinities, NaN and negative bases is selected at the end. Few factors are multiplied
(`traverse.whole_power`): products have those values by themselves.

Coefficients, fitted as in `exponential`, on z = s ** 2 <= 0.02945: float32 L itself, relative; float64 the rest of L after its terms
1, z and z ** 2, which are pairs.
"""

from __future__ import annotations

import math

from tensorlang.codegen.emission.math.error_free import (
    Pair,
    fast_two_sum,
    horner,
    nearest,
    pair_product,
    pair_sum,
    quotient,
    two_product,
    two_sum,
)
from tensorlang.codegen.emission.math.exponential import clamp, exp2_pair
from tensorlang.codegen.emission.math.logarithm import decompose_any
from tensorlang.codegen.emission.math.rounding import trunc
from tensorlang.codegen.emission.math.values import Real, fma, select

# 2 ** -43.5
_L_SHORT = (2.8853900817778486, 0.9617966941150744, 0.5770779418854407, 0.4122093013707039, 0.31990364687569317, 0.2829300306720686)
# 2 / (k * log(2)) for k = 1, 3, 5, then a polynomial: 2 ** -71.2
_L_PAIRS = (
    (2.8853900817779268, 4.0710547481862066e-17),
    (0.9617966939259756, 5.0577616648125907e-17),
    (0.5770780163555853, 5.2551030481378675e-17),
)
_L_REST = (
    0.41219858311119906,
    0.3205988979432269,
    0.2623081954025656,
    0.2219524670015538,
    0.1923945387716497,
    0.16857625659339864,
    0.17186811075340452,
)
# 2 ** f = 1 + f * w(f) for float32 results: 2 ** -34.3
_EXP2_SHORT = (
    0.6931471805430215,
    0.2402265108061598,
    0.05550410958060109,
    0.009618036252373669,
    0.0013333433772456825,
    0.0001546730811552992,
    1.5314386650826827e-05,
)


def sqrt(x: Real) -> Real:
    """Square root."""
    return x.sqrt()


def rsqrt(x: Real) -> Real:
    """1 / sqrt(x)."""
    return 1.0 / x.sqrt()


def _short(x: Real, y: Real) -> Real:
    """|x| ** y for float32 operands, in float64 arithmetic. An infinite y would make NaN of 1 ** y."""
    e, m = decompose_any(abs(x).widen())
    s = (m - 1.0) / (m + 1.0)
    bounded = clamp(y.widen(), -(2.0**65), 2.0**65)
    product = clamp(bounded * fma(s, horner(s * s, _L_SHORT), e), -300.0, 300.0)
    n = nearest(product)
    f = product - n.real
    return n.scale(fma(f, horner(f, _EXP2_SHORT), 1.0)).narrow()


def _log2_pair(x: Real) -> Pair:
    e, m = decompose_any(x)
    s = quotient((m - 1.0, x.constant(0.0)), two_sum(m, 1.0))
    s = fast_two_sum(*s)
    z = pair_product(s, s)
    rest = z[0] * horner(z[0], _L_REST)
    value: Pair = (rest, x.constant(0.0))
    for constant in reversed(_L_PAIRS):
        value = pair_sum((x.constant(constant[0]), x.constant(constant[1])), value)
        if constant is not _L_PAIRS[0]:
            value = pair_product(z, value)
    return pair_sum((e, x.constant(0.0)), pair_product(s, value))


def _long(x: Real, y: Real) -> Real:
    """|x| ** y for float64 operands."""
    logarithm = _log2_pair(abs(x))
    # Beyond 2 ** 65 every result but that of 1 is 0 or infinite; the bound keeps the exact product in range.
    bounded = clamp(y, -(2.0**65), 2.0**65)
    high, low = two_product(bounded, logarithm[0])
    high, low = fast_two_sum(high, fma(bounded, logarithm[1], low))
    within = abs(high) < 1100.0
    high = clamp(high, -1100.0, 1100.0)
    low = select(within, low, 0.0)
    n, (high, low) = exp2_pair(high, low)
    return n.scale(high + low)


def whole_power(x: Real, n: int) -> Real:
    """x ** n as C's pow for float32 x and a whole number n, not 0: squares and products in float64, rounded once."""
    square, value, factors = x.widen(), None, abs(n)
    while factors:
        if factors & 1:
            value = square if value is None else value * square
        factors >>= 1
        square = square * square if factors else square
    assert value is not None
    return (1.0 / value if n < 0 else value).narrow()


def power(x: Real, y: Real) -> Real:
    """x ** y as C's pow."""
    value = _short(x, y) if x.lanes.bits == 32 else _long(x, y)
    zero, infinity = value.constant(0.0), value.constant(math.inf)
    one, not_a_number = value.constant(1.0), value.constant(math.nan)
    falling = y < 0.0
    value = select(x.compare("==", 0.0), select(falling, infinity, zero), value)
    value = select(abs(x).compare("==", math.inf), select(falling, zero, infinity), value)
    whole = trunc(y).compare("==", y)
    half = y * 0.5
    odd = whole & trunc(half).compare("!=", half)
    value = select(odd, value.with_sign_of(x), value)
    fractional = trunc(y).compare("!=", y)
    value = select((x < 0.0) & (x > -math.inf) & fractional, not_a_number, value)
    value = select(x.compare("!=", x) | y.compare("!=", y), not_a_number, value)
    return select(x.compare("==", 1.0) | y.compare("==", 0.0), one, value)
