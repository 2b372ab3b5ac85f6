"""What every operator of the expression grammar computes, in NumPy: the tables that the interpreters share.

The rows are total, as the language is: integers wrap, division by zero gives 0, shifts past the width give 0 or the sign, casts from
floating point saturate. Half precision is computed in float32 and rounded after each operation; a named function of a float32 is
computed in float64 and rounded, so that a kernel is compared with the nearest float32 and not with a second approximation.

Callers run under `quiet()`: IEEE special cases are results here, not warnings. Nothing of lowering or code generation is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorlang.ir import Const
from tensorlang.ir.dtype import BOOL, FLOAT32, FLOAT64, DType, dtype

Array: TypeAlias = NDArray[Any]
Operator: TypeAlias = Callable[[Any, Any], Any]
HALF: Final = ("float16", "bfloat16")


def quiet() -> np.errstate:
    """The context in which overflow, division by zero and NaN are values like any other."""
    return np.errstate(all="ignore")


def literal(const: Const) -> Array:
    """The value of a literal, as an array without axes."""
    return const.dtype.rounded(const.value)


def _floordiv(a: Array, b: Array) -> Array:
    regular = np.where((b == 0) | (b == -1) if b.dtype.kind == "i" else b == 0, b.dtype.type(1), b)
    quotient = np.floor_divide(a, regular)
    if b.dtype.kind == "i":
        quotient = np.where(b == -1, np.negative(a), quotient)
    return np.where(b == 0, b.dtype.type(0), quotient)


def _mod(a: Array, b: Array) -> Array:
    regular = np.where((b == 0) | (b == -1) if b.dtype.kind == "i" else b == 0, b.dtype.type(1), b)
    return np.where(regular == b, np.remainder(a, regular), b.dtype.type(0))


def _regular_shift(b: Array) -> Array:
    return (b >= 0) & (b < 8 * b.dtype.itemsize)


def _shl(a: Array, b: Array) -> Array:
    fits = _regular_shift(b)
    return np.where(fits, np.left_shift(a, np.where(fits, b, b.dtype.type(0))), a.dtype.type(0))


def _shr(a: Array, b: Array) -> Array:
    last = b.dtype.type(8 * b.dtype.itemsize - 1)
    shifted = np.right_shift(a, np.where(_regular_shift(b), b, last))
    return shifted if a.dtype.kind == "i" else np.where(_regular_shift(b), shifted, a.dtype.type(0))


_BINARY: Final[dict[str, Operator]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": _floordiv,
    "mod": _mod,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shl,
    "shr": _shr,
    "min": np.minimum,
    "max": np.maximum,
    "fmin": np.fmin,
    "fmax": np.fmax,
}
_COMPARE: Final[dict[str, Operator]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNARY: Final[dict[str, Callable[[Any], Any]]] = {"neg": np.negative, "abs": np.absolute, "not": np.invert}


def unary(op: str, value: Any, of: DType) -> Any:
    """`op value` on values of type `of`."""
    return _UNARY[op](value) if of not in HALF else cast(_UNARY[op](cast(value, of, FLOAT32)), FLOAT32, of)


def binary(op: str, left: Any, right: Any, of: DType) -> Any:
    """`left op right` on values of type `of`."""
    if of in HALF:
        return cast(_BINARY[op](cast(left, of, FLOAT32), cast(right, of, FLOAT32)), FLOAT32, of)
    return _BINARY[op](left, right)


def compare(op: str, left: Any, right: Any, of: DType) -> Any:
    """A comparison of values of type `of`."""
    if of in HALF:
        left, right = cast(left, of, FLOAT32), cast(right, of, FLOAT32)
    return _COMPARE[op](left, right)


def cast(value: Any, source: DType, target: DType) -> Any:
    """A value of type `source` as a `target`: saturating from floating point with NaN as 0, wrapping between integers."""
    value = np.asarray(value)
    if source == target:
        return value
    if target == BOOL:
        return value.astype(np.float32) != 0 if source in HALF else value != 0
    if target in HALF:
        return target.rounded(value)
    if not source.is_floating or target.is_floating:
        return value.astype(target.numpy)
    whole = np.trunc(value.astype(np.float64))
    lowest, highest = int(target.lowest), int(target.highest)
    above, below = whole >= float(highest + 1), whole < float(lowest)
    inside = np.where(above | below | np.isnan(whole), 0.0, whole).astype(target.numpy)
    kind = target.numpy.type
    return np.where(above, kind(highest), np.where(below, kind(lowest), inside))


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


_erf_of_each = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_of_each(x)).astype(np.float64)


def _pow(x: Array, y: Array) -> Array:
    """C's, of which NumPy's square roots for the exponent 0.5 differ at -0.0 and -inf."""
    return np.where((y == 0.5) & ((x == 0) | np.isinf(x)), np.abs(x), np.power(x, y))


_FUNCTION: Final[dict[str, Callable[..., Any]]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "pow": _pow,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


def call(function: str, args: tuple[Any, ...], of: DType, gives: DType) -> Any:
    """A function of the table in `functions`, on operands of type `of`."""
    result = _FUNCTION[function](*(cast(arg, of, FLOAT64) for arg in args))
    return result if gives == BOOL else cast(cast(result, FLOAT64, FLOAT32), FLOAT32, gives) if of != FLOAT64 else result


# Reductions ----------------------------------------------------------------------------------------------------------------------

ASSOCIATIVE: Final = ("and", "or", "xor", "min", "max", "fmin", "fmax")
"""Operations that give the same in any order; `add` and `mul` join them on integers."""


def neutral(op: str, of: DType) -> Any:
    """The value `e` for which `op(x, e)` is x for every x, or None for an operation that has none."""
    match op:
        case "add":
            value: object = -0.0 if of.is_floating else 0
        case "mul":
            value = 1
        case "or" | "xor":
            value = 0
        case "and":
            value = of.highest if of.kind != "signed" else -1
        case "max":
            value = of.lowest
        case "min":
            value = of.highest
        case "fmax":
            value = math.nan if of.is_floating else of.lowest
        case "fmin":
            value = math.nan if of.is_floating else of.highest
        case _:
            return None
    return np.asarray(value, of.numpy)


def fold(op: str, state: Array, values: Array) -> Array:
    """`state op values[0] op values[1] ...`, strictly in that order; not for half precision."""
    operator = _BINARY[op]
    assert isinstance(operator, np.ufunc)
    if op in ASSOCIATIVE or not dtype(values.dtype).is_floating:
        return np.asarray(operator(state, operator.reduce(values, axis=0, dtype=values.dtype)))
    if len(values) == 1:
        return np.asarray(operator(state, values[0]))
    state = np.broadcast_to(state, np.broadcast_shapes(state.shape, values.shape[1:]))
    together = np.concatenate([state[None], np.broadcast_to(values, (len(values), *state.shape))])
    return np.asarray(operator.accumulate(together, axis=0)[-1])
