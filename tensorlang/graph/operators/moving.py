"""Operators that move elements: `cat`, `pad`, `embedding`, `gather`, `flip`, `cumsum`, `arange` of a dim, ...

They read one element for each of the result, at a place that is computed, or that data tells.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Final

import tensorlang as tl
from tensorlang import ops
from tensorlang.graph.ir import Extent
from tensorlang.graph.operator import Axes, Axis, Function, Operator


def cat(*tensors: tl.Tensor, dim: Axis = 0) -> tl.Tensor:
    """Tensors one after the other along an axis; in all others they are equal."""
    if not tensors:
        raise tl.DefinitionError("cat: at least one tensor is needed")
    first = tensors[0]
    for tensor in tensors:
        if (*tensor.shape[:dim], *tensor.shape[dim + 1 :]) != (*first.shape[:dim], *first.shape[dim + 1 :]):
            raise tl.DefinitionError(f"cat: {first!r} and {tensor!r} differ in more than axis {dim}")
    ends: list[Any] = [0]
    for tensor in tensors:
        ends.append(ends[-1] + tensor.shape[dim])

    def body(*at: Any) -> Any:
        def read(tensor: tl.Tensor, start: Extent) -> Any:
            return tensor[(*at[:dim], at[dim] - (start if isinstance(start, int) else start.as_expr()), *at[dim + 1 :])]

        value = read(tensors[-1], ends[-2])
        for tensor, start, end in reversed(list(zip(tensors[:-1], ends[:-2], ends[1:-1], strict=True))):
            value = tl.select(at[dim] < end, read(tensor, start), value)
        return value

    made: tl.Tensor = tl.compute((*first.shape[:dim], ends[-1], *first.shape[dim + 1 :]), body, name="cat")
    return made


def pad(input: tl.Tensor, pad: tuple[tuple[int, int], ...], mode: str = "constant", value: float = 0.0) -> tl.Tensor:
    """Elements before and after each axis: a value, or as `tl.pad` has it by `mode`."""
    return tl.pad(input, pad, mode, value, name="pad")


def embedding(input: tl.Tensor, weight: tl.Tensor) -> tl.Tensor:
    """`weight[input[...], d]`: rows of a table; an index outside reads its first or last row."""
    return ops.embedding(input, weight)


def gather(input: tl.Tensor, index: tl.Tensor, dim: Axis) -> tl.Tensor:
    """`input[i, index[i, j]]`, the index along `dim`; one outside, or negative, reads the first or last element."""
    if len(index.shape) != len(input.shape):
        raise tl.DefinitionError(f"gather: {index!r} has another number of axes than {input!r}")
    last = input.shape[dim] - 1

    def body(*at: Any) -> Any:
        return input[(*at[:dim], tl.clamp(tl.cast(index[at], "int64"), 0, last), *at[dim + 1 :])]

    made: tl.Tensor = tl.compute(index.shape, body, name="gather")
    return made


def index_select(input: tl.Tensor, index: tl.Tensor, dim: Axis) -> tl.Tensor:
    """Of an axis the elements that an index names; negative ones count from the back, what is outside reads the first or last."""
    if len(index.shape) != 1:
        raise tl.DefinitionError(f"index_select: an index has 1 axis, but is {index!r}")
    extent = input.shape[dim]

    def body(*at: Any) -> Any:
        place = tl.cast(index[at[dim]], "int64")
        place = tl.select(place < 0, place + extent, place)
        return input[(*at[:dim], tl.clamp(place, 0, extent - 1), *at[dim + 1 :])]

    made: tl.Tensor = tl.compute((*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :]), body, name="index_select")
    return made


def flip(input: tl.Tensor, dims: Axes) -> tl.Tensor:
    """The elements of these axes from the last to the first."""

    def body(*at: Any) -> Any:
        return input[tuple(input.shape[axis] - 1 - place if axis in dims else place for axis, place in enumerate(at))]

    made: tl.Tensor = tl.compute(input.shape, body, name="flip")
    return made


def cumsum(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """Sums of the elements up to each place along an axis."""
    return _cumulative(input, dim, lambda before, own: before + own, 0, "cumsum")


def cumprod(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """Products of the elements up to each place along an axis."""
    return _cumulative(input, dim, lambda before, own: before * own, 1, "cumprod")


def cummax(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """The largest of the elements up to each place along an axis."""
    return _cumulative(input, dim, tl.maximum, input.dtype.lowest, "cummax")


def cummin(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """The least of the elements up to each place along an axis."""
    return _cumulative(input, dim, tl.minimum, input.dtype.highest, "cummin")


def logcumsumexp(input: tl.Tensor, dim: Axis) -> tl.Tensor:
    """`log(sum(exp(x)))` of the elements up to each place along an axis, by the larger of what is added."""

    def combine(before: Any, own: Any) -> Any:
        top, low = tl.maximum(before, own), tl.minimum(before, own)
        return tl.select(low == top, top + math.log(2), top + tl.log1p(tl.exp(low - top)))

    return _cumulative(input, dim, combine, -math.inf, "logcumsumexp")


def _cumulative(input: tl.Tensor, dim: int, combine: Callable[[Any, Any], Any], start: float, name: str) -> tl.Tensor:
    def body(*arguments: Any) -> Any:
        *at, own = arguments
        return combine(own[(*at[:dim], at[dim] - 1, *at[dim + 1 :])], input[tuple(at)])

    names = (*(f"i{axis}" for axis in range(len(input.shape))), "self")
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    body.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    made: tl.Tensor = tl.recurrence(input.shape, body, outside=start, dtype=input.dtype, name=name)
    return made


_FUNCTIONS: Final[tuple[Function, ...]] = (
    cat, pad, embedding, gather, index_select, flip, cumsum, cumprod, cummax, cummin, logcumsumexp,
)  # fmt: skip
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
