"""log, log2, log10, log1p.

x = m * 2 ** e with m in [sqrt(1/2), sqrt(2)), so that near 1 there is no cancellation, and f = m - 1 is exact. log(1 + f) is kept as a
pair whose high part is f - f ** 2 / 2; e * log(2) and the change of base are added and multiplied to the pair, which is rounded once
at the end.

Coefficients, fitted as in `exponential`: float32 p in log(1 + f) = f - f ** 2 / 2 + f ** 3 * p(f), relative to log(1 + f). In float64
s = f / (2 + f) and log(1 + f) = 2 atanh(s) = f - f ** 2 / 2 + s * (f ** 2 / 2 + z * p(z)) with z = s ** 2.
"""

from __future__ import annotations

import math

from tensorlang.codegen.emission.math.error_free import (
    LEAST_NORMAL,
    MANTISSA,
    TINY,
    Pair,
    as_real,
    fast_two_sum,
    horner,
    power_of_two,
    two_product,
    two_sum,
)
from tensorlang.codegen.emission.math.exponential import LN2
from tensorlang.codegen.emission.math.values import Integer, Real, fma, select

_P = {
    # 2 ** -27.3 and 2 ** -58.5
    32: (
        0.3333333134651184,
        -0.250008225440979,
        0.20001235604286194,
        -0.16623342037200928,
        0.14201758801937103,
        -0.13160261511802673,
        0.1276097595691681,
        -0.07633357495069504,
    ),
    64: (
        0.6666666666666735,
        0.39999999999410235,
        0.28571428743363775,
        0.2222219847033073,
        0.18183569895879004,
        0.153139013994691,
        0.1479751231585089,
    ),
}
_LOG2_E = {32: (1.4426950216293335, 1.925963033500011e-08), 64: (1.4426950408889634, 2.0355273740931033e-17)}
_LOG10_E = {32: (0.4342944920063019, -1.0103049952192578e-08), 64: (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_2 = {32: (0.301025390625, 4.605039066518657e-06), 64: (0.30102999566395283, 2.8363394551044964e-14)}


def decompose(x: Real) -> tuple[Integer, Real]:
    """e and m with x = m * 2 ** e and m in [sqrt(1/2), sqrt(2)), for positive normal x."""
    bits = x.bits()
    shift = MANTISSA[x.lanes.bits]
    e = (bits - x.constant(math.sqrt(0.5)).bits()) >> shift
    return e, (bits - (e << shift)).real()


def decompose_any(x: Real) -> tuple[Real, Real]:
    """The same for any positive x, e as a real."""
    subnormal = x < LEAST_NORMAL[x.lanes.bits]
    up = MANTISSA[x.lanes.bits] + 1
    e, m = decompose(select(subnormal, x * 2.0**up, x))
    exponent = as_real(e, x)
    return select(subnormal, exponent - float(up), exponent), m


def _log1p_pair(f: Real) -> Pair:
    """log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    half_square = f * f * 0.5
    high = f - half_square
    low = (f - high) - half_square
    if f.lanes.bits == 32:
        return high, fma(f * f * f, horner(f, _P[32]), low)
    s = f / (f + 2.0)
    z = s * s
    return high, fma(s, fma(z, horner(z, _P[64]), half_square), low)


def _with_exponent(e: Real, log_of_two: tuple[float, float], log: Pair) -> Real:
    high, error = fast_two_sum(e * log_of_two[0], log[0])
    return high + (error + fma(e, log_of_two[1], log[1]))


def _in_base(log: Pair, factor: tuple[float, float]) -> Pair:
    high, low = two_product(log[0], log[0].constant(factor[0]))
    return high, low + fma(log[0], factor[1], log[1] * factor[0])


def _ends(x: Real, value: Real) -> Real:
    """The logarithm's values outside (0, infinity)."""
    value = select(x.compare("<", math.inf), value, x)
    value = select(x < 0.0, value.constant(math.nan), value)
    return select(x.compare("==", 0.0), value.constant(-math.inf), value)


def log(x: Real) -> Real:
    """Natural logarithm."""
    e, m = decompose_any(x)
    return _ends(x, _with_exponent(e, LN2[x.lanes.bits], _log1p_pair(m - 1.0)))


def log2(x: Real) -> Real:
    """Logarithm to base 2."""
    e, m = decompose_any(x)
    return _ends(x, _with_exponent(e, (1.0, 0.0), _in_base(_log1p_pair(m - 1.0), _LOG2_E[x.lanes.bits])))


def log10(x: Real) -> Real:
    """Logarithm to base 10."""
    e, m = decompose_any(x)
    bits = x.lanes.bits
    return _ends(x, _with_exponent(e, _LOG10_2[bits], _in_base(_log1p_pair(m - 1.0), _LOG10_E[bits])))


def log1p(x: Real) -> Real:
    """log(1 + x): what 1 + x drops is added to m - 1."""
    total, dropped = two_sum(x, 1.0)
    e, m = decompose(total)
    # Beyond 2 ** 60 the dropped part does not count, and 2 ** -e could leave the format; ~e is -e - 1.
    dropped = select(x < 2.0**60, dropped * power_of_two(e ^ -1) * 2.0, 0.0)
    f, error = fast_two_sum(m - 1.0, dropped)
    high, low = _log1p_pair(f)
    value = _with_exponent(as_real(e, x), LN2[x.lanes.bits], (high, low + error))
    value = _ends(total, value)
    return select(abs(x) < TINY[x.lanes.bits], x, value)
