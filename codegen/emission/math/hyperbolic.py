"""sinh, cosh, tanh, sigmoid.

Both are quotients in e ** x, of pairs, corrected by the remainder of the division; so sigmoid rounds little more than once. tanh in float32
does with plain arithmetic, and with a polynomial where the quotient would cancel.

sinh and cosh are half of e ** x minus or plus its inverse, of pairs; below 1, where the difference would cancel, sinh is the beginning of
its series. float32 is computed in float64.

Coefficients, fitted as in `exponential`: p in tanh(x) = x + x ** 3 * p(x ** 2) on |x| <= 0.625, relative to x: 2 ** -27.8.
"""

from __future__ import annotations

import math

from tensorlang.codegen.emission.math.error_free import TINY, fast_two_sum, horner, quotient, two_product
from tensorlang.codegen.emission.math.exponential import clamp, exp_pair, exp_scaled, expm1_pair
from tensorlang.codegen.emission.math.values import Real, fma, select

_TANH = (-0.3333328366279602, 0.1333148330450058, -0.05374287813901901, 0.020648816600441933, -0.005715356208384037)
_TANH_SWITCH = 0.625
_LEAST = {32: -104.0, 64: -746.0}


# 1 / 3!, 1 / 5!, ...: what is left out is below 2 ** -74 of x on |x| <= 1, and 2 ** -40
_SINH = tuple(1.0 / math.factorial(2 * n + 3) for n in range(10))
_SINH_SHORT = _SINH[:6]


def sinh(x: Real) -> Real:
    """Hyperbolic sine."""
    if x.lanes.bits == 32:
        return _sinh(x.widen(), _SINH_SHORT).narrow()
    return _sinh(x, _SINH)


def _sinh(x: Real, coefficients: tuple[float, ...]) -> Real:
    magnitude = abs(x)
    square = x * x
    near = fma(magnitude * square, horner(square, coefficients), magnitude)
    return select(magnitude < 1.0, near, _half_of_exponentials(magnitude, -1.0)).with_sign_of(x)


def cosh(x: Real) -> Real:
    """Hyperbolic cosine."""
    if x.lanes.bits == 32:
        return _half_of_exponentials(abs(x.widen()), 1.0).narrow()
    return _half_of_exponentials(abs(x), 1.0)


def _half_of_exponentials(x: Real, sign: float) -> Real:
    """(e ** x + sign * e ** -x) / 2 for x >= 0; the second term is left out where it is below an ulp by far."""
    n, pair = exp_pair(clamp(x, 0.0, 711.0))
    high, low = fast_two_sum(*pair)
    inverse, error = quotient((x.constant(1.0), x.constant(0.0)), (high, low))
    factor = select(x < 30.0, n.inverse_square(), 0.0) * sign
    value, dropped = fast_two_sum(high, inverse * factor)
    return n.scale(0.5 * (value + (dropped + (low + error * factor))))


def tanh(x: Real) -> Real:
    """Hyperbolic tangent."""
    magnitude = abs(x)
    if x.lanes.bits == 64:
        high, low = expm1_pair(clamp(magnitude + magnitude, 0.0, 40.0))
        denominator, error = fast_two_sum(*_ordered(high))
        value, correction = quotient((high, low), fast_two_sum(denominator, error + low))
        return select(magnitude < TINY[64], x, (value + correction).with_sign_of(x))
    square = x * x
    near = fma(magnitude * square, horner(square, _TANH), magnitude)
    n, power = exp_scaled(clamp(magnitude + magnitude, 0.0, 20.0))
    far = 1.0 - 2.0 / fma(power, n.power_of_two(), 1.0)
    return select(magnitude < _TANH_SWITCH, near, far).with_sign_of(x)


def _ordered(x: Real) -> tuple[Real, Real]:
    """x and 2, the greater first."""
    two = x.constant(2.0)
    less = x < two
    return select(less, two, x), select(less, x, two)


def sigmoid(x: Real) -> Real:
    """1 / (1 + e ** -x), from p = e ** -|x| so that nothing overflows: 1 / (1 + p) or p / (1 + p)."""
    n, power = exp_pair(clamp(-abs(x), _LEAST[x.lanes.bits], 0.0))
    high, low = fast_two_sum(*power)
    negative = x < 0.0
    denominator, error = fast_two_sum(x.constant(1.0), n.scale(high))
    error = error + n.scale(low)
    # p is divided as a number near 1 and scaled after that, as the result may be subnormal.
    high, low = select(negative, high, 1.0), select(negative, low, 0.0)
    value = high / denominator
    product, product_error = two_product(value, denominator)
    remainder = ((high - product) - product_error) + (low - value * error)
    # The remainder is about an ulp: 1 / d to 5 percent on [1, 2] is enough.
    value = fma(remainder, 1.457 - 0.5 * denominator, value)
    return select(negative, n.scale(value), value)
