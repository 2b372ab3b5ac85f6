"""erf.

Below 1, a polynomial in x ** 2. Above, 1 - e ** -g with g = -log(erfc(x)): g is nearly a parabola, and its errors are multiplied by
erfc(x) <= 0.16 before they reach the result. From the point where erf rounds to 1, g is held.

Coefficients, fitted as in `exponential`: p in erf(x) = x + x * p(x ** 2) on [0, 1]; g on [1, 4] in x (float32) and on [1, 6] in x - 1
(float64), to least |erfc(x) * error|.
"""

from __future__ import annotations

from tensorlang.codegen.math.exact import horner, power_of_two
from tensorlang.codegen.math.exponential import clamp, exp_scaled
from tensorlang.codegen.math.values import Real, fma, select

_P = {
    # 2 ** -29.5 and 2 ** -56.2
    32: (
        0.12837916612625122,
        -0.3761262893676758,
        0.11283618956804276,
        -0.02685517631471157,
        0.00519085256382823,
        -0.0008031944162212312,
        7.924609235487878e-05,
    ),
    64: (
        0.1283791670955126,
        -0.3761263890318388,
        0.11283791670959012,
        -0.026866170645669388,
        0.005223977629571926,
        -0.0008548327216469135,
        0.00012055338739013602,
        -1.4925761161876765e-05,
        1.6463443619625957e-06,
        -1.6374345899526915e-07,
        1.4811012178334226e-08,
        -1.1923361296660709e-09,
        6.83880790712583e-11,
    ),
}
_G = {
    # 2 ** -29.7 and 2 ** -59.0
    32: (
        0.00035639750421978533,
        1.1270302534103394,
        0.6382400989532471,
        0.10302640497684479,
        -0.02180078998208046,
        0.0029386435635387897,
        -0.00018549115338828415,
    ),
    64: (
        1.8496055099332482,
        2.638967514234791,
        0.843107256358585,
        0.041561098043297516,
        -0.010033825387893625,
        0.001977902644130353,
        -0.00023732276923543884,
        -2.6277115949882968e-05,
        2.7157669857468045e-05,
        -9.606885676250331e-06,
        2.0576767097110625e-06,
        -1.412427762469315e-07,
        -9.849996689642224e-08,
        5.2450899459341886e-08,
        -1.5042260108072653e-08,
        2.8933710635476255e-09,
        -3.726499489321758e-10,
        2.921149891612679e-11,
        -1.0552131503358338e-12,
    ),
}
_CENTRE = {32: 0.0, 64: 1.0}
_HELD = {32: 4.0, 64: 6.0}


def erf(x: Real) -> Real:
    """Error function."""
    bits = x.lanes.bits
    magnitude = abs(x)
    near = fma(magnitude, horner(x * x, _P[bits]), magnitude)
    held = clamp(magnitude, 0.0, _HELD[bits])
    n, power = exp_scaled(-horner(held - _CENTRE[bits] if _CENTRE[bits] else held, _G[bits]))
    far = fma(power, -power_of_two(n), 1.0)
    return select(magnitude < 1.0, near, far).with_sign_of(x)
