"""Elementwise functions of networks: `relu`, `leaky_relu`, `sigmoid`, `silu`, `gelu`, `tanh`, and conversion of a tensor's type."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorlang.definition import elementary
from tensorlang.definition.elementary import erf, maximum, select
from tensorlang.definition.expr import Expr, cast
from tensorlang.definition.tensor import Tensor
from tensorlang.errors import DefinitionError
from tensorlang.ir.dtype import BOOL
from tensorlang.ops.arguments import define, floating, index_names, need, one_of, wide


def _each(input: Tensor, fn: Callable[[Expr], Expr], name: str | None) -> Tensor:
    return define(input.shape, index_names(input.ndim), lambda at: fn(input[at]), name)


def _smooth(op: str, input: Tensor, fn: Callable[[Expr], Expr], name: str | None) -> Tensor:
    """`fn` of each element, half precision in float32."""
    tensor = need(op, "input", input, least=0)
    floating(op, "input", tensor)
    return _each(tensor, lambda x: cast(fn(wide(x)), tensor.dtype), name)


def converted(input: Tensor, dtype: str, name: str | None = None) -> Tensor:
    """Every element as a `dtype`; the shape of the input."""
    return _each(need("converted", "input", input, least=0), lambda x: cast(x, dtype), name)


def relu(input: Tensor, name: str | None = "relu") -> Tensor:
    """`max(x, 0)`; the shape of the input. Raises `DefinitionError` for bool."""
    tensor = need("relu", "input", input, least=0)
    if tensor.dtype == BOOL:
        raise DefinitionError(f"relu: input must be a number, but is {tensor!r}")
    return _each(tensor, lambda x: maximum(x, 0), name)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, name: str | None = "leaky_relu") -> Tensor:
    """`x` where it is positive, else `negative_slope * x`; the shape of the input. Raises `DefinitionError` if not floating point."""
    return _smooth("leaky_relu", input, lambda x: select(x > 0, x, x * negative_slope), name)


def sigmoid(input: Tensor, name: str | None = "sigmoid") -> Tensor:
    """`1 / (1 + exp(-x))`; the shape of the input. Raises `DefinitionError` if not floating point."""
    return _smooth("sigmoid", input, elementary.sigmoid, name)


def tanh(input: Tensor, name: str | None = "tanh") -> Tensor:
    """The hyperbolic tangent; the shape of the input. Raises `DefinitionError` if not floating point."""
    return _smooth("tanh", input, elementary.tanh, name)


def silu(input: Tensor, name: str | None = "silu") -> Tensor:
    """`x * sigmoid(x)`; the shape of the input. Raises `DefinitionError` if not floating point."""
    return _smooth("silu", input, lambda x: x * elementary.sigmoid(x), name)


def gelu(input: Tensor, approximate: str = "none", name: str | None = "gelu") -> Tensor:
    """`x / 2 * (1 + erf(x / sqrt(2)))`, or with `approximate="tanh"` `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))`.

    The shape of the input. Raises `DefinitionError` for another approximation, or elements that are not floating point.
    """
    if one_of("gelu", "approximate", approximate, "none", "tanh") == "none":
        return _smooth("gelu", input, lambda x: x * 0.5 * (erf(x * math.sqrt(0.5)) + 1.0), name)
    slope = math.sqrt(2 / math.pi)
    return _smooth("gelu", input, lambda x: x * 0.5 * (elementary.tanh((x + x * x * x * 0.044715) * slope) + 1.0), name)
