"""Operators of elements: a result is made from those at its place, operands being repeated along axes of extent 1, as NumPy does.

    unary     f(x)          exp, log, sqrt, ... and the activations of `tl.ops`
    binary    x o y         add, mul, ..., and comparisons, which are bool
    choice    where(c, x, y)

A number is an operand without axes; types do not mix silently, `to` converts. Functions of half precision are computed in float32.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Function, Operator


def broadcast(*shapes: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """The shape that all of these are repeated to. Raises `DefinitionError` where there is none."""
    return reduce(_both, shapes, ())


def _both(left: tuple[Extent, ...], right: tuple[Extent, ...]) -> tuple[Extent, ...]:
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    made: list[Extent] = []
    for one, other in pairs:
        if one != other and 1 not in (one, other):
            raise tl.DefinitionError(f"the shapes {left} and {right} do not fit: {one} and {other} differ, and neither is 1")
        made.append(other if one == 1 else one)
    return tuple(made)


def element(tensor: tl.Tensor, at: tuple[Any, ...], shape: tuple[Extent, ...]) -> tl.Expr:
    """The element of an operand that belongs to a place of a result of this shape."""
    new = len(at) - len(tensor.shape)
    axes = zip(tensor.shape, at[new:], shape[new:], strict=True)
    found: tl.Expr = tensor[tuple(axis if extent == size else 0 for extent, axis, size in axes)]
    return found


def elementwise(fn: Callable[..., Any], *operands: tl.Tensor, name: str) -> tl.Tensor:
    """`fn` of the elements at each place. Raises `DefinitionError` where shapes or types do not fit."""
    shape = broadcast(*(tensor.shape for tensor in operands))
    made: tl.Tensor = tl.compute(shape, lambda *at: fn(*(element(tensor, at, shape) for tensor in operands)), name=name)
    return made


def wide(value: tl.Expr) -> tl.Expr:
    """Half precision as float32, all else as it is."""
    return tl.cast(value, "float32") if value.dtype in ("float16", "bfloat16") else value


def _through_wide(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *others: tl.cast(fn(wide(x), *map(wide, others)), x.dtype)


def unary(name: str, fn: Callable[..., Any]) -> Operator:
    """An operator of one tensor and no attributes."""

    def function(input: tl.Tensor) -> tl.Tensor:
        return elementwise(fn, input, name=name)

    return Operator.of(function, name)


def binary(name: str, fn: Callable[..., Any], *, commutative: bool = False) -> Operator:
    """An operator of two tensors and no attributes."""

    def function(input: tl.Tensor, other: tl.Tensor) -> tl.Tensor:
        return elementwise(fn, input, other, name=name)

    return Operator.of(function, name, commutative=commutative)


def _library(function: Callable[..., Any]) -> Operator:
    """An activation of `tl.ops`, without its name and layout."""
    signature = inspect.signature(function, eval_str=True)

    def own(input: tl.Tensor, **attributes: Any) -> tl.Tensor:
        made: tl.Tensor = function(input, **attributes)
        return made

    kept = [parameter for label, parameter in signature.parameters.items() if label != "name"]
    own.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    own.__annotations__ = {parameter.name: parameter.annotation for parameter in kept}
    return Operator.of(own, function.__name__)


def clamp(input: tl.Tensor, min: float | None = None, max: float | None = None) -> tl.Tensor:
    """`x`, but at least `min` and at most `max`, where these are given."""

    def body(x: tl.Expr) -> tl.Expr:
        low = x if min is None else tl.maximum(x, min)
        return low if max is None else tl.minimum(low, max)

    return elementwise(body, input, name="clamp")


def elu(input: tl.Tensor, alpha: float = 1.0) -> tl.Tensor:
    """`x` where it is positive, else `alpha * (exp(x) - 1)`."""
    return elementwise(_through_wide(lambda x: tl.select(x > 0, x, alpha * tl.expm1(x))), input, name="elu")


def softplus(input: tl.Tensor, beta: float = 1.0, threshold: float = 20.0) -> tl.Tensor:
    """`log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x` is above the threshold."""
    body = _through_wide(lambda x: tl.select(beta * x > threshold, x, tl.log1p(tl.exp(beta * x)) / beta))
    return elementwise(body, input, name="softplus")


def where(condition: tl.Tensor, input: tl.Tensor, other: tl.Tensor) -> tl.Tensor:
    """`input` where the condition holds, else `other`."""
    return elementwise(tl.select, condition, input, other, name="where")


def to(input: tl.Tensor, dtype: str) -> tl.Tensor:
    """The elements as another type; to bool, whether they differ from 0."""
    if dtype == "bool":
        return elementwise(lambda x: x if x.dtype == "bool" else x != 0, input, name="to")
    return elementwise(lambda x: tl.cast(x, dtype), input, name="to")


def _square(x: tl.Expr) -> tl.Expr:
    return x * x


def _trunc_divide(x: tl.Expr, y: tl.Expr) -> tl.Expr:
    """Integers divided towards 0."""
    floor = x // y
    return tl.select((floor * y != x) & ((x < 0) != (y < 0)), floor + 1, floor)


_ASINH_FAR: Final = {"float16": 64.0, "bfloat16": 32.0, "float32": 2.0**13, "float64": 2.0**28}
"""From where on `x*x + 1` is `x*x` in a type."""


def _remainder(x: tl.Expr, y: tl.Expr) -> tl.Expr:
    """What is left of a division downwards; it has the sign of `y`."""
    if not x.dtype.is_floating:
        return x % y
    left = _fmod(x, y)
    return tl.select(_opposes(left, y), left + y, left)


def _floor_divide(x: tl.Expr, y: tl.Expr) -> tl.Expr:
    """The quotient rounded down: of what a remainder leaves, so that 1 holds 0.1 nine times (Python's `//`)."""
    if not x.dtype.is_floating:
        return x // y
    left = _fmod(x, y)
    quotient = (x - left) / y - tl.select(_opposes(left, y), 1.0, 0.0)
    low = tl.floor(quotient)
    return tl.select(y == 0.0, x / y, tl.select(quotient - low > 0.5, low + 1.0, low))


def _opposes(left: tl.Expr, other: tl.Expr) -> tl.Expr:
    """Is what a division leaves something, of the other sign?"""
    return (left != 0.0) & ((left < 0.0) != (other < 0.0))


def _asinh(x: tl.Expr) -> tl.Expr:
    """Log of `|x| + sqrt(x*x + 1)`, which is twice `|x|` where nothing is left of the 1, and where the square may be too large."""
    size = tl.abs(x)
    near = tl.log1p(size + x * x / (tl.sqrt(x * x + 1.0) + 1.0))
    return tl.sign(x) * tl.select(size < _ASINH_FAR[str(x.dtype)], near, tl.log(size) + math.log(2.0))


def _fmod(x: tl.Expr, y: tl.Expr) -> tl.Expr:
    """What is left of a division towards 0; it has the sign of `x`. Of types below float64 exact for quotients below 2**29."""
    if not x.dtype.is_floating:
        return x - _trunc_divide(x, y) * y
    over, under = tl.cast(x, "float64"), tl.cast(y, "float64")
    left = over - tl.trunc(over / under) * under
    left = tl.select(_opposes(left, over), left + tl.sign(over) * tl.abs(under), left)
    return tl.cast(tl.select(tl.isinf(under) & tl.isfinite(over), over, left), x.dtype)


UNARY: Final[dict[str, Callable[..., Any]]] = {
    "neg": lambda x: -x, "abs": tl.abs, "square": _square, "reciprocal": lambda x: 1.0 / x, "sign": tl.sign,
    "floor": tl.floor, "ceil": tl.ceil, "round": tl.round, "trunc": tl.trunc,
    "isnan": tl.isnan, "isinf": tl.isinf, "logical_not": lambda x: ~x, "bitwise_not": lambda x: ~x,
    "relu6": lambda x: tl.clamp(x, 0.0, 6.0),
}  # fmt: skip
SMOOTH: Final[dict[str, Callable[..., Any]]] = {
    **{fn.__name__: fn for fn in (
        tl.exp, tl.exp2, tl.expm1, tl.log, tl.log2, tl.log10, tl.log1p, tl.sqrt, tl.rsqrt, tl.erf,
        tl.sin, tl.cos, tl.tan, tl.asin, tl.acos, tl.atan, tl.sinh, tl.cosh,
    )},
    "hardsigmoid": lambda x: tl.clamp(x + 3.0, 0.0, 6.0) / 6.0,
    "hardswish": lambda x: x * tl.clamp(x + 3.0, 0.0, 6.0) / 6.0,
    "acosh": lambda x: tl.log(x + tl.sqrt(x - 1.0) * tl.sqrt(x + 1.0)),
    "asinh": _asinh,
    "atanh": lambda x: 0.5 * tl.log1p(2.0 * x / (1.0 - x)),
    "mish": lambda x: x * tl.tanh(tl.log1p(tl.exp(x))),
    "softsign": lambda x: x / (tl.abs(x) + 1.0),
}  # fmt: skip
BINARY: Final[dict[str, Callable[..., Any]]] = {
    "sub": lambda x, y: x - y, "div": lambda x, y: x / y, "floor_divide": _floor_divide,
    "remainder": _remainder, "fmod": _fmod, "trunc_divide": _trunc_divide,
    "bitwise_left_shift": lambda x, y: x << y, "bitwise_right_shift": lambda x, y: x >> y,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip
COMMUTATIVE: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "maximum": tl.maximum, "minimum": tl.minimum,
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "logical_and": lambda x, y: x & y, "logical_or": lambda x, y: x | y, "logical_xor": lambda x, y: x ^ y,
    "bitwise_and": lambda x, y: x & y, "bitwise_or": lambda x, y: x | y, "bitwise_xor": lambda x, y: x ^ y,
}  # fmt: skip

_FUNCTIONS: Final[tuple[Function, ...]] = (clamp, elu, softplus, where, to)
_ACTIVATIONS: Final[tuple[Function, ...]] = (tl.ops.relu, tl.ops.leaky_relu, tl.ops.sigmoid, tl.ops.tanh, tl.ops.silu, tl.ops.gelu)

OPERATORS: Final[tuple[Operator, ...]] = (
    *(unary(name, fn) for name, fn in UNARY.items()),
    *(unary(name, _through_wide(fn)) for name, fn in SMOOTH.items()),
    *(binary(name, fn) for name, fn in BINARY.items()),
    *(binary(name, fn, commutative=True) for name, fn in COMMUTATIVE.items()),
    binary("pow", _through_wide(tl.pow)),
    binary("atan2", _through_wide(tl.atan2)),
    *(_library(function) for function in _ACTIVATIONS),
    *(Operator.of(function) for function in _FUNCTIONS),
)
