"""Machine code of the functions in `tensorlang.ir.functions`: scalar and vector alike, without libm.

Each function is written once over `values.Real` and emitted for scalars and vectors, so that the two agree bit for bit. Subnormal
numbers, signed zeros, infinities, NaN and huge arguments are part of the definition. No fast-math flags, no external symbols.

Greatest error met, in units in the last place of the exact value:

    function   float32   without FMA   float64   without FMA
    exp        1.03      0.98          0.64      0.68
    exp2       0.77      1.06          0.65      0.66
    expm1      1.14      1.14          1.03      0.98
    log        0.68      0.68          0.68      0.68
    log2       0.73      0.73          0.70      0.70
    log10      0.68      0.68          0.64      0.65
    log1p      0.82      0.82          0.75      0.75
    sqrt       0.50      0.50          0.50      0.50
    rsqrt      1.48      1.48          1.50      1.50
    sin        1.55      1.55          0.77      0.78
    cos        1.55      1.55          0.78      0.78
    tan        0.50      0.50          0.90      0.92
    asin       0.50      0.50          0.62      0.62
    acos       0.50      0.50          0.60      0.60
    atan       0.50      0.50          0.61      0.61
    atan2      0.50      0.50          0.63      0.63
    sinh       0.50      0.50          0.77      0.82
    cosh       0.50      0.50          0.63      0.66
    tanh       1.30      1.30          0.83      0.78
    sigmoid    0.78      0.79          0.66      0.67
    erf        1.19      1.36          0.93      1.09
    pow        0.51      0.51          0.76      0.76

(float32: every 997th of all encodings against float64, that is, 4.3 million points; pow: 5.2 million random pairs. float64: 1.6 million
points against 64-bit significands; random encodings, ranges around 0, numbers near 1 and near multiples of pi/2; erf: 32 000 points
against 90-bit arithmetic; asin to cosh: 600 000 points of either type. rsqrt is a square root and a division, each correctly rounded.)
floor, ceil, round, trunc, isnan, isinf and isfinite are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir

from tensorlang.codegen.emission.math import error, exponential, hyperbolic, inverse, logarithm, power, rounding, trigonometric
from tensorlang.codegen.emission.math.llvm import LlvmLanes
from tensorlang.codegen.emission.math.values import Mask, Real
from tensorlang.errors import InternalError
from tensorlang.ir.dtype import FLOAT32, FLOAT64, DType

__all__ = ["FUNCTIONS", "emit", "emit_fma", "emit_whole_power"]

FUNCTIONS: Final[dict[str, Callable[..., Real | Mask]]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "sqrt": power.sqrt,
    "rsqrt": power.rsqrt,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "tanh": hyperbolic.tanh,
    "sigmoid": hyperbolic.sigmoid,
    "erf": error.erf,
    "pow": power.power,
    "floor": rounding.floor,
    "ceil": rounding.ceil,
    "round": rounding.round_even,
    "trunc": rounding.trunc,
    "isnan": rounding.isnan,
    "isinf": rounding.isinf,
    "isfinite": rounding.isfinite,
}


def _lanes(builder: ir.IRBuilder, value: ir.Value, *, has_fma: bool, has_round: bool = False, has_scale: bool = False) -> LlvmLanes:
    vector = isinstance(value.type, ir.VectorType)
    element = value.type.element if vector else value.type
    bits = 64 if isinstance(element, ir.DoubleType) else 32
    return LlvmLanes(builder, bits, value.type.count if vector else None, has_fma, has_round, has_scale)


def emit(
    builder: ir.IRBuilder,
    function: str,
    dtype: DType,
    args: Sequence[ir.Value],
    *,
    has_fma: bool,
    has_round: bool,
    has_scale: bool = False,
) -> ir.Value:
    """The value of a function, for float or double operands, scalars or vectors of one length.

    Gives the type of the operands, or i1 (a vector of i1) for the tests isnan, isinf, isfinite. `has_fma`, `has_round` and `has_scale`
    say whether the target has instructions for a * b + c, for rounding to an integer and for products with powers of two (x86-64: FMA,
    SSE4.1 and AVX-512). sin, cos and tan may leave the
    builder in another basic block than they found it in. Raises `InternalError` for a type other than float32 and float64.
    """
    if dtype not in (FLOAT32, FLOAT64):
        raise InternalError(f"{function} of {dtype}: only float32 and float64 have code, widen the operands first")
    lanes = _lanes(builder, args[0], has_fma=has_fma, has_round=has_round, has_scale=has_scale)
    return FUNCTIONS[function](*(Real(lanes, arg) for arg in args)).raw


def emit_whole_power(builder: ir.IRBuilder, base: ir.Value, exponent: int) -> ir.Value:
    """base ** exponent for a float or a vector of them, as a product; the exponent is not 0."""
    return power.whole_power(Real(_lanes(builder, base, has_fma=False), base), exponent).raw


def emit_fma(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value, *, has_fma: bool) -> ir.Value:
    """a * b + c: contracted to one rounding where the target can, else a product and a sum."""
    return _lanes(builder, a, has_fma=has_fma).fma(a, b, c)
