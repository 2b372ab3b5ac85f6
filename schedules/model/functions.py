"""What the mathematical functions take to compute: instructions by the units that do them, and when the value is there.

Counted from what `codegen/emission/math` emits on a machine that multiplies and adds in one (`tests/codegen/test_function_slots.py` counts
again). What only rare operands need, as a sine of numbers of thousands, is not in it; the size of code is another matter
(`legality.code_size`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from tensorlang.ir import Call, Const, Expr
from tensorlang.ir.dtype import FLOAT32
from tensorlang.ir.reciprocals import reciprocal
from tensorlang.ir.traverse import dtype_of, whole_power
from tensorlang.schedules.legality.code_size import CONVERTED, power_products

HALF: Final = 0.5
"""What is left of a power of two without its exponent."""


class FunctionSlots(NamedTuple):
    """Instructions of a function for a vector of operands, and the latency from operand to value in those of a multiply-add.

    Comparisons go with the products; extrema, shifts, conversions and roundings with the sums, as on AMD's cores (`issue._in_units`).
    """

    products: float = 0.0
    sums: float = 0.0
    others: float = 0.0
    divisions: float = 0.0
    roots: float = 0.0
    latency: float = 1.0

    @property
    def total(self) -> float:
        """All instructions."""
        return self.products + self.sums + self.others + self.divisions + self.roots


FUNCTIONS: Final[Mapping[str, tuple[FunctionSlots, FunctionSlots]]] = {
    "exp": (FunctionSlots(11, 6, 1, 0, 0, latency=11.25), FunctionSlots(17, 14, 1, 0, 0, latency=18.5)),
    "exp2": (FunctionSlots(8, 8, 1, 0, 0, latency=10.75), FunctionSlots(17, 17, 1, 0, 0, latency=20.75)),
    "expm1": (FunctionSlots(12, 24, 3, 0, 0, latency=15.75), FunctionSlots(18, 27, 3, 0, 0, latency=21.5)),
    "log": (FunctionSlots(18, 13, 8, 0, 0, latency=14.25), FunctionSlots(18, 14, 8, 1, 0, latency=19)),
    "log2": (FunctionSlots(22, 14, 8, 0, 0, latency=17), FunctionSlots(22, 15, 8, 1, 0, latency=21.75)),
    "log10": (FunctionSlots(22, 14, 8, 0, 0, latency=17), FunctionSlots(22, 15, 8, 1, 0, latency=21.75)),
    "log1p": (FunctionSlots(20, 23, 11, 0, 0, latency=19), FunctionSlots(20, 24, 11, 1, 0, latency=23.75)),
    "sqrt": (FunctionSlots(0, 0, 0, 0, 1, latency=3), FunctionSlots(0, 0, 0, 0, 1, latency=3)),
    "rsqrt": (FunctionSlots(0, 0, 0, 1, 1, latency=6), FunctionSlots(0, 0, 0, 1, 1, latency=6)),
    "sin": (FunctionSlots(16, 6, 8, 0, 0, latency=10.25), FunctionSlots(27, 27, 8, 0, 0, latency=19.75)),
    "cos": (FunctionSlots(15, 6, 7, 0, 0, latency=10), FunctionSlots(26, 27, 7, 0, 0, latency=19.5)),
    "tan": (FunctionSlots(31, 9, 8, 4, 0, latency=14.25), FunctionSlots(30, 35, 8, 2, 0, latency=29.75)),
    "asin": (FunctionSlots(26, 19, 14, 0, 4, latency=14.75), FunctionSlots(23, 11, 10, 1, 1, latency=20.5)),
    "acos": (FunctionSlots(26, 19, 22, 0, 4, latency=14.5), FunctionSlots(23, 11, 14, 1, 1, latency=20.25)),
    "atan": (FunctionSlots(32, 27, 32, 8, 0, latency=21.75), FunctionSlots(30, 22, 22, 3, 0, latency=26)),
    "atan2": (FunctionSlots(34, 29, 50, 8, 0, latency=21.75), FunctionSlots(31, 22, 31, 3, 0, latency=26)),
    "sinh": (FunctionSlots(68, 59, 16, 8, 0, latency=35), FunctionSlots(38, 27, 8, 2, 0, latency=33)),
    "cosh": (FunctionSlots(50, 59, 10, 8, 0, latency=34.5), FunctionSlots(25, 27, 5, 2, 0, latency=32.5)),
    "tanh": (FunctionSlots(18, 7, 5, 1, 0, latency=16.25), FunctionSlots(21, 42, 5, 2, 0, latency=35.25)),
    "sigmoid": (FunctionSlots(21, 22, 5, 1, 0, latency=23.5), FunctionSlots(27, 25, 5, 1, 0, latency=29.25)),
    "erf": (FunctionSlots(18, 1, 4, 0, 0, latency=10), FunctionSlots(49, 13, 5, 0, 0, latency=37)),
    "pow": (FunctionSlots(51, 41, 28, 4, 0, latency=29.75), FunctionSlots(63, 93, 24, 2, 0, latency=80.75)),
    "floor": (FunctionSlots(0, 1, 0, 0, 0, latency=0.25), FunctionSlots(0, 1, 0, 0, 0, latency=0.25)),
    "ceil": (FunctionSlots(0, 1, 0, 0, 0, latency=0.25), FunctionSlots(0, 1, 0, 0, 0, latency=0.25)),
    "round": (FunctionSlots(0, 1, 0, 0, 0, latency=0.25), FunctionSlots(0, 1, 0, 0, 0, latency=0.25)),
    "trunc": (FunctionSlots(0, 1, 0, 0, 0, latency=0.25), FunctionSlots(0, 1, 0, 0, 0, latency=0.25)),
    "isnan": (FunctionSlots(1, 0, 0, 0, 0, latency=0.25), FunctionSlots(1, 0, 0, 0, 0, latency=0.25)),
    "isinf": (FunctionSlots(1, 0, 1, 0, 0, latency=0.5), FunctionSlots(1, 0, 1, 0, 0, latency=0.5)),
    "isfinite": (FunctionSlots(1, 0, 1, 0, 0, latency=0.5), FunctionSlots(1, 0, 1, 0, 0, latency=0.5)),
}
"""In float32 and float64."""
_WIDE: Final = 64
COEFFICIENTS: Final = 14.0
"""Coefficients of a function that are held at once, at most: longer ones are of several polynomials."""


def function_slots(call: Call) -> FunctionSlots:
    """Those of a call: of the function, or, for a short power, its products in float64."""
    exponent, wide = whole_power(call), dtype_of(call.args[0]).bits == _WIDE
    if exponent is None:
        return FUNCTIONS[call.function][wide]
    products = power_products(exponent)
    inverse = 4.0 if exponent < 0 else 0.0  # two registers, each for twice the time
    return FunctionSlots(products=2.0 * products, others=CONVERTED, divisions=inverse, latency=2.0 + products + (3.0 if inverse else 0.0))


def held(call: Call) -> float:
    """Registers that a function holds beside its operand and value: a coefficient for each product of its polynomials."""
    products = 0.0 if whole_power(call) is not None else function_slots(call).products
    return min(products, COEFFICIENTS)


def products_of_quotient(by: Expr) -> float:
    """Products in place of a division by a literal, where it takes no divider: a power of two is a factor; 0 where it takes one.

    Of machines that multiply and add in one, as all that have a description here do.
    """
    if not isinstance(by, Const):
        return 0.0
    if abs(math.frexp(by.value)[0]) == HALF:
        return 1.0
    return 2.0 if by.dtype.bits >= FLOAT32.bits and reciprocal(by.value, by.dtype) is not None else 0.0
