"""Angles modulo a quarter turn: x = n * pi/2 + r with |r| <= pi/4, for every finite x.

Up to `_LIMIT`, n times pi/2 is subtracted in parts (Cody & Waite 1980): in float32 with FMA three parts of 24 bits, where the first two
subtractions are exact or relatively accurate; otherwise in float64 with parts of 33 bits, whose products with n are exact.

Beyond, the fraction of x * 2/pi is formed from those digits of 2/pi that matter (Payne & Hanek, Radian reduction for trigonometric
functions, SIGNUM 1983), in floating point: digits come in chunks of 24 bits, the significand of x in two halves, so that each product
is exact and its multiples of four turns can be dropped; the running sum loses its integer after every step, so that it cancels only
while it is still exact. The choice between the two ways is made per lane; the long way is jumped over when no
lane needs it.
"""

from __future__ import annotations

import math
from typing import Final

from tensorlang.codegen.emission.math.error_free import Pair, fast_two_sum, nearest, shifter, two_product, two_sum
from tensorlang.codegen.emission.math.lane_operations import LaneOperations, Raw
from tensorlang.codegen.emission.math.rounding import round_even
from tensorlang.codegen.emission.math.values import Integer, Real, fma, select

_LIMIT = {32: 2.0**16, 64: 2.0**19}
_HALF_PI_32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_HALF_PI_64 = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)
_HALF_PI_64_SHORT = (1.5707963267341256, 6.077100506506192e-11)
_HALF_PI_PAIR = (1.5707963267948966, 6.123233995736766e-17)
_CHUNK: Final = 24
_CHUNKS: Final = 8


def _digits(count: int) -> int:
    """The first `count` binary digits of 2/pi behind the point: pi by Machin's formula in integers."""
    one = 1 << (count + 64)

    def inverse_tangent(of: int) -> int:
        term = total = one // of
        divisor, sign = 1, 1
        while term:
            term //= of * of
            divisor, sign = divisor + 2, -sign
            total += sign * (term // divisor)
        return total

    pi = 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
    return (2 * one << count) // pi


def _table() -> tuple[float, ...]:
    """Entry i holds the 24 bits of 2/pi that begin at bit 8 * i, as a number in [0, 1)."""
    entries = 122 + 3 * (_CHUNKS - 1)
    width = 8 * entries + _CHUNK
    digits = _digits(width)
    return tuple(math.ldexp((digits >> (width - 8 * i - _CHUNK)) % (1 << _CHUNK), -_CHUNK) for i in range(entries))


TWO_OVER_PI: Final = _table()


def quarter_turns(x: Real) -> tuple[Integer, Pair]:
    """n, of which the two lowest bits count, and r as a pair (in float32 the low part is 0)."""
    count, high, low = _float32(x) if x.lanes.bits == 32 else _float64(x)

    big = abs(x) > _LIMIT[x.lanes.bits]
    raws = x.lanes.where_rare("quarter_turns", big.raw, x.raw, _long_way, (count.raw, high.raw, low.raw))
    count, high, low = (Real(x.lanes, raw) for raw in raws)
    return (count + shifter(x.lanes.bits)).bits(), (high, low)


def quarter_turns_wide(x: Real) -> tuple[Integer, Real]:
    """The same for float32 x, with r in float64."""
    count, r = _float32_wide(x)
    big = abs(x) > _LIMIT[32]
    count_raw, r_raw = x.lanes.where_rare("quarter_turns_wide", big.raw, x.raw, _long_way_wide, (count.raw, r.raw))
    return (Real(x.lanes, count_raw) + shifter(32)).bits(), Real(r.lanes, r_raw)


def _long_way(lanes: LaneOperations, raw: Raw) -> tuple[Raw, ...]:
    x = Real(lanes, raw)
    if lanes.bits == 32:
        count, high, _ = _payne_hanek(x.widen())
        return count.narrow().raw, high.narrow().raw, x.constant(0.0).raw
    return tuple(part.raw for part in _payne_hanek(x))


def _long_way_wide(lanes: LaneOperations, raw: Raw) -> tuple[Raw, ...]:
    count, high, _ = _payne_hanek(Real(lanes, raw).widen())
    return count.narrow().raw, high.raw


def _float32(x: Real) -> tuple[Real, Real, Real]:
    if not x.lanes.has_fma:
        count, wide = _float32_wide(x)
        return count, wide.narrow(), x.constant(0.0)
    count = nearest(x, 2.0 / math.pi).real
    r = x
    for part in _HALF_PI_32:
        r = fma(count, -part, r)
    return count, r, x.constant(0.0)


def _float32_wide(x: Real) -> tuple[Real, Real]:
    count = nearest(x, 2.0 / math.pi).real
    wide_count = count.widen()
    r = x.widen()
    for part in _HALF_PI_64_SHORT:
        r = fma(wide_count, -part, r)
    return count, r


def _float64(x: Real) -> tuple[Real, Real, Real]:
    count = nearest(x, 2.0 / math.pi).real
    first, second, third, rest = _HALF_PI_64
    high, low = two_sum(x - count * first, -(count * second))
    high, error = two_sum(high, -(count * third))
    high, low = fast_two_sum(high, low + (error - count * rest))
    return count, high, low


def _payne_hanek(x: Real) -> tuple[Real, Real, Real]:
    """For float64 x: n, and r as high and low part; NaN for infinity."""
    bits = abs(x).bits()
    exponent = bits.logical_shift(52) - (1023 + 52 + 2)
    # Digits of weight 4 and above, times the last bit of x, are whole turns: they are skipped, eight at a time.
    skipped = (exponent & ((exponent >> 63) ^ -1)) >> 3
    scaled = (bits - (skipped << (52 + 3))).real()
    upper = (scaled.bits() & -(1 << 27)).real()
    halves = (upper, scaled - upper)
    count, high, low = x.constant(0.0), x.constant(0.0), x.constant(0.0)
    digits = [Real(x.lanes, x.lanes.lookup("two_over_pi", TWO_OVER_PI, (skipped + 3 * j).raw)) for j in range(_CHUNKS)]
    # The upper half by chunk j weighs as much as the lower half by chunk j - 1.
    for half, j in sorted(((half, j) for half in (0, 1) for j in range(_CHUNKS)), key=lambda term: (term[0] + term[1], term[0])):
        product = halves[half] * (digits[j] * 2.0 ** (-_CHUNK * j))
        if half + j < 3:
            product = product - round_even(product * 0.25) * 4.0
        high, error = two_sum(high, product)
        low = low + error
        whole = nearest(high).real
        high, count = high - whole, count + whole
    high, low = fast_two_sum(high, low)
    r, error = two_product(high, x.constant(_HALF_PI_PAIR[0]))
    r, error = fast_two_sum(r, error + (high * _HALF_PI_PAIR[1] + low * _HALF_PI_PAIR[0]))
    sign = x.sign_bit()
    r = (r.bits() ^ sign).real() + (x - x)
    negative = x < 0.0
    return select(negative, -count, count), r, (error.bits() ^ sign).real()
