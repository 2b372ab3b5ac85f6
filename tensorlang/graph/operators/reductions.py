"""Reductions over axes: `sum`, `mean`, `prod`, `amax`, `amin`, `any`, `all`, `var`, `logsumexp`, `argmax`, `argmin`.

`dim` is an axis or several, None all of them; `keepdim` leaves them there with extent 1. Counts and sums of integers are int64, as torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Axes, Axis, Function, Operator

Body = Callable[[tl.Expr, tuple[Any, ...]], Any]


def reduced(input: tl.Tensor, dim: tuple[int, ...], keepdim: bool, body: Body, name: str) -> tl.Tensor:
    """`body` of the elements along axes, and of these axes; without axes, of each element."""
    if len(set(dim)) < len(dim):
        raise tl.DefinitionError(f"{name}: an axis stands twice in {dim}")
    over = {axis: tl.reduce_axis(input.shape[axis], name=f"r{axis}") for axis in dim}
    kept = [axis for axis in range(len(input.shape)) if keepdim or axis not in over]

    def element(*at: Any) -> Any:
        places = dict(zip(kept, at, strict=True)) | over
        return body(input[tuple(places[axis] for axis in range(len(input.shape)))], tuple(over.values()))

    shape: list[Extent] = [1 if axis in over else input.shape[axis] for axis in kept]
    made: tl.Tensor = tl.compute(shape, element, name=name)
    return made


def _exact(dtype: tl.DType, wanted: str | None) -> str | None:
    """The type in which integers are counted."""
    return wanted or (None if dtype.is_floating else "int64")


def sum(input: tl.Tensor, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> tl.Tensor:  # type: ignore[assignment]
    """The sum of the elements along axes."""
    kind = _exact(input.dtype, dtype)
    return reduced(input, dim, keepdim, lambda x, over: tl.sum(_as(x, kind), axis=over) if over else _as(x, kind), "sum")


def _as(value: tl.Expr, dtype: str | None) -> tl.Expr:
    return value if dtype is None else tl.cast(value, dtype)


def mean(input: tl.Tensor, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> tl.Tensor:  # type: ignore[assignment]
    """The mean of the elements along axes; half precision is added up in float32."""
    return reduced(input, dim, keepdim, lambda x, over: tl.mean(_as(x, dtype), axis=over) if over else _as(x, dtype), "mean")


def prod(input: tl.Tensor, dim: Axes = None, keepdim: bool = False, dtype: str | None = None) -> tl.Tensor:  # type: ignore[assignment]
    """The product of the elements along axes."""
    kind = _exact(input.dtype, dtype)
    return reduced(input, dim, keepdim, lambda x, over: tl.prod(_as(x, kind), axis=over) if over else _as(x, kind), "prod")


def _least(name: str, reducer: Callable[..., Any]) -> Operator:
    def function(input: tl.Tensor, dim: Axes = None, keepdim: bool = False) -> tl.Tensor:  # type: ignore[assignment]
        return reduced(input, dim, keepdim, lambda x, over: reducer(x, axis=over) if over else x, name)

    return Operator.of(function, name)


def _first(name: str, reducer: Callable[..., Any]) -> Operator:
    def function(input: tl.Tensor, dim: Axis, keepdim: bool = False) -> tl.Tensor:
        return reduced(input, (dim,), keepdim, lambda x, over: reducer(x, axis=over[0]), name)

    return Operator.of(function, name)


def var(input: tl.Tensor, dim: Axes = None, correction: float = 1, keepdim: bool = False) -> tl.Tensor:  # type: ignore[assignment]
    """The variance along axes: squared distances from the mean, added up and divided by their number less `correction`."""
    centre = reduced(input, dim, True, lambda x, over: tl.mean(x, axis=over), "var_mean")
    count = math.prod(input.shape[axis] for axis in dim)
    number = max(count - correction, 0) if isinstance(count, int) else tl.maximum(tl.cast(count.as_expr(), input.dtype) - correction, 0)
    index = [0 if axis in dim else None for axis in range(len(input.shape))]

    def distance(*at: Any) -> Any:
        off = input[at] - centre[tuple(axis if place is None else place for axis, place in zip(at, index, strict=True))]
        return off * off

    squares: tl.Tensor = tl.compute(input.shape, distance, name="var_squares")
    total = reduced(squares, dim, keepdim, lambda x, over: tl.sum(x, axis=over), "var_sum")
    made: tl.Tensor = tl.compute(total.shape, lambda *at: total[at] / (float(number) if isinstance(count, int) else number), name="var")
    return made


def logsumexp(input: tl.Tensor, dim: Axes = None, keepdim: bool = False) -> tl.Tensor:  # type: ignore[assignment]
    """`log(sum(exp(x)))` along axes, by distances from the largest element."""
    top = reduced(input, dim, True, lambda x, over: tl.max(x, axis=over) if over else x, "logsumexp_max")
    index = [axis in dim for axis in range(len(input.shape))]
    shape = input.shape

    def distance(*at: Any) -> Any:
        largest = top[tuple(0 if over else axis for axis, over in zip(at, index, strict=True))]
        return tl.exp(input[at] - tl.select(tl.isinf(largest), tl.cast(0.0, input.dtype), largest))

    powers: tl.Tensor = tl.compute(shape, distance, name="logsumexp_exp")
    total = reduced(powers, dim, keepdim, lambda x, over: tl.sum(x, axis=over) if over else x, "logsumexp_sum")
    peaks = reduced(input, dim, keepdim, lambda x, over: tl.max(x, axis=over) if over else x, "logsumexp_top")

    def body(*at: Any) -> Any:
        return tl.log(total[at]) + tl.select(tl.isinf(peaks[at]), tl.cast(0.0, input.dtype), peaks[at])

    made: tl.Tensor = tl.compute(total.shape, body, name="logsumexp")
    return made


_FUNCTIONS: Final[tuple[Function, ...]] = (sum, mean, prod, var, logsumexp)
OPERATORS: Final[tuple[Operator, ...]] = (
    *(Operator.of(function) for function in _FUNCTIONS),
    *(_least(name, reducer) for name, reducer in (("amax", tl.max), ("amin", tl.min), ("any", tl.any), ("all", tl.all))),
    *(_first(name, reducer) for name, reducer in (("argmax", tl.argmax), ("argmin", tl.argmin))),
)
