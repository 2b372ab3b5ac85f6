"""erf.

Near 0, a polynomial in x ** 2. Farther, 1 - erfc(x), where errors are multiplied by erfc(x), which is small, before they reach the result:

    float32   erfc(x) = h(x) ** 4: the root is smooth enough for a polynomial, so that neither e ** x nor a division is needed;
              what the power adds to its error is again made small by erfc(x) <= 0.12
    float64   erfc(x) = e ** -g(x): g = -log(erfc(x)) is nearly a parabola

From the point where erf rounds to 1, h and g are held. The two branches do not wait for each other.

Coefficients, fitted as in `exponential`: p in erf(x) = x + x * p(x ** 2) on [0, 1.125] (float32) and [0, 1] (float64), to least relative
error of erf; h on [1.125, 4] in x, to least |4 * erfc(x) ** 0.75 * error|, a weight of at least 2e-5 at the end, where erf has to round
to 1; g on [1, 6] in x - 1, to least |erfc(x) * error|.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.emission.math.error_free import horner
from tensorlang.codegen.emission.math.exponential import clamp, exp_scaled
from tensorlang.codegen.emission.math.values import Real, fma, select

# 2 ** -27.2
_P32: Final = (
    0.12837916612625122,
    -0.3761260211467743,
    0.11283256113529205,
    -0.026839222759008408,
    0.005160259548574686,
    -0.0007765805348753929,
    7.063541852403432e-05,
)
# 2 ** -26.6
_H32: Final = (
    1.005584716796875,
    -0.3091539144515991,
    -0.06276270002126694,
    -0.051132313907146454,
    0.06650097668170929,
    -0.022343145683407784,
    0.0032584175933152437,
    -0.00018139816529583186,
)
_NEAR32: Final = 1.125
_HELD32: Final = 4.0
# 2 ** -56.2
_P64: Final = (
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
)
# 2 ** -59.0
_G64: Final = (
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
)
_HELD64: Final = 6.0


def erf(x: Real) -> Real:
    """Error function."""
    return _erf32(x) if x.lanes.bits == 32 else _erf64(x)


def _erf32(x: Real) -> Real:
    near = fma(x, horner(x * x, _P32), x)
    magnitude = abs(x)
    root = horner(select(magnitude > _HELD32, x.constant(_HELD32), magnitude), _H32)
    square = root * root
    far = fma(square, -square, 1.0)
    return select(magnitude < _NEAR32, near, far.with_sign_of(x))


def _erf64(x: Real) -> Real:
    magnitude = abs(x)
    near = fma(magnitude, horner(x * x, _P64), magnitude)
    held = clamp(magnitude, 0.0, _HELD64)
    n, power = exp_scaled(-horner(held - 1.0, _G64))
    far = fma(power, -n.power_of_two(), 1.0)
    return select(magnitude < 1.0, near, far).with_sign_of(x)
