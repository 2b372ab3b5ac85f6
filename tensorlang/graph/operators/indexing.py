"""Operators whose places data tells: gathers and scatters of several axes, one-hot vectors, the largest elements, resampling.

Indices that are negative count from the back; one that is outside all the same reads, or writes, the first or last element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.operator import Axis, Operator


def place(index: Any, extent: Any) -> Any:
    """An index of data as one that is inside."""
    found = tl.cast(index, "int64")
    return tl.clamp(tl.select(found < 0, found + extent, found), 0, extent - 1)


def gather_nd(input: tl.Tensor, index: tl.Tensor, batch_dims: int = 0) -> tl.Tensor:
    """Blocks of `input` at the tuples in the last axis of `index`; the first `batch_dims` axes of both go together."""
    depth = index.shape[-1]
    if not isinstance(depth, int) or batch_dims + depth > len(input.shape) or not 0 <= batch_dims < len(index.shape):
        raise tl.DefinitionError(f"gather_nd: {index!r} has no tuples for {input!r} after {batch_dims} axes")
    outer, block = index.shape[:-1], input.shape[batch_dims + depth :]

    def body(*at: Any) -> Any:
        lead, rest = at[: len(outer)], at[len(outer) :]
        places = [place(index[(*lead, number)], input.shape[batch_dims + number]) for number in range(depth)]
        return input[(*lead[:batch_dims], *places, *rest)]

    made: tl.Tensor = tl.compute((*outer, *block), body, name="gather_nd")
    return made


def scatter_nd(input: tl.Tensor, index: tl.Tensor, src: tl.Tensor, reduce: str = "set") -> tl.Tensor:
    """`input` with blocks of `src` stored, or combined by "add", "max" or "min", at the tuples in the last axis of `index`."""
    depth = index.shape[-1]
    outer = index.shape[:-1]
    if not isinstance(depth, int) or depth > len(input.shape) or src.shape != (*outer, *input.shape[depth:]):
        raise tl.DefinitionError(f"scatter_nd: {src!r} are no blocks of {input!r} for {index!r}")
    axes = tuple(tl.reduce_axis(extent, name=f"s{axis}") for axis, extent in enumerate(src.shape)) or (tl.reduce_axis(1, name="s"),)

    def where(at: Sequence[Any]) -> tuple[Any, ...]:
        lead = tuple(at[: len(outer)])
        return (*(place(index[(*lead, number)], input.shape[number]) for number in range(depth)), *at[len(outer) : len(src.shape)])

    return tl.scatter(input, axes, lambda *at: where(at), lambda *at: src[at[: len(src.shape)]], reduce=reduce, name="scatter_nd")


def scatter(input: tl.Tensor, index: tl.Tensor, src: tl.Tensor, dim: Axis, reduce: str = "set") -> tl.Tensor:
    """`input` with each element of `src` stored, or combined by "add", "max" or "min", at `index` along an axis."""
    if index.shape != src.shape or len(index.shape) != len(input.shape):
        raise tl.DefinitionError(f"scatter: {index!r} and {src!r} do not fit each other and {input!r}")
    axes = tuple(tl.reduce_axis(extent, name=f"s{axis}") for axis, extent in enumerate(src.shape))

    def where(at: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*at[:dim], place(index[at], input.shape[dim]), *at[dim + 1 :])

    return tl.scatter(input, axes, lambda *at: where(at), lambda *at: src[at], reduce=reduce, name="scatter")


def scatter_prod(input: tl.Tensor, index: tl.Tensor, src: tl.Tensor) -> tl.Tensor:
    """`input[p] * prod(src[u] where index[u] is p)`: blocks multiplied in at the tuples in the last axis of `index`."""
    depth = index.shape[-1]
    outer = index.shape[:-1]
    if not isinstance(depth, int) or depth > len(input.shape) or src.shape != (*outer, *input.shape[depth:]):
        raise tl.DefinitionError(f"scatter_prod: {src!r} are no blocks of {input!r} for {index!r}")
    axes = tuple(tl.reduce_axis(extent, name=f"s{axis}") for axis, extent in enumerate(outer))

    def body(*at: Any) -> Any:
        same: Any = True
        for number in range(depth):
            here = place(index[(*axes, number)], input.shape[number]) == at[number]
            same = here if same is True else same & here
        return tl.prod(src[(*axes, *at[depth:])], axis=axes, where=same)

    factors: tl.Tensor = tl.compute(input.shape, body, name="scatter_factors")
    made: tl.Tensor = tl.compute(input.shape, lambda *at: input[at] * tl.cast(factors[at], input.dtype), name="scatter_prod")
    return made


def one_hot(input: tl.Tensor, num_classes: int, dim: int = -1) -> tl.Tensor:
    """Whether an index is that of a class, the classes along a new axis: bool; a negative index counts from the back."""
    rank = len(input.shape) + 1
    if not -rank <= dim < rank:
        raise tl.DefinitionError(f"one_hot: axis {dim} is none of the {rank} of the result")
    dim %= rank

    def body(*at: Any) -> Any:
        index = tl.cast(input[(*at[:dim], *at[dim + 1 :])], "int64")
        return tl.select(index < 0, index + num_classes, index) == at[dim]

    made: tl.Tensor = tl.compute((*input.shape[:dim], num_classes, *input.shape[dim:]), body, name="one_hot")
    return made


def topk(input: tl.Tensor, k: int, dim: Axis = -1, largest: bool = True) -> tuple[tl.Tensor, tl.Tensor]:
    """The `k` largest elements of an axis from the largest on, or smallest, and where they are: int64; of equals the first comes first.

    Each element is compared with all of its axis, so the work is quadratic in the extent of the axis. NaN counts as the largest.
    """
    extent = input.shape[dim]
    if isinstance(extent, int) and not 0 <= k <= extent:
        raise tl.DefinitionError(f"topk: {k} elements of an axis of {extent}")
    other, own = tl.reduce_axis(extent, name="other"), tl.reduce_axis(extent, name="own")

    def along(at: tuple[Any, ...], index: Any) -> tuple[Any, ...]:
        return (*at[:dim], index, *at[dim + 1 :])

    def rank(*at: Any) -> Any:
        mine, theirs = input[at], input[along(at, other)]
        before, same = theirs > mine if largest else theirs < mine, theirs == mine
        if mine.dtype.is_floating:
            odd = tl.isnan(theirs), tl.isnan(mine)
            before |= odd[0] & ~odd[1] if largest else odd[1] & ~odd[0]
            same |= odd[0] & odd[1]
        before |= same & (other < at[dim])
        return tl.sum(tl.select(before, 1, 0), axis=other)

    ranks: tl.Tensor = tl.compute(input.shape, rank, name="topk_ranks")
    shape = (*input.shape[:dim], k, *input.shape[dim + 1 :])
    places: tl.Tensor = tl.compute(
        shape, lambda *at: tl.max(tl.cast(own, "int64"), axis=own, where=ranks[along(at, own)] == at[dim]), name="topk_indices"
    )
    values: tl.Tensor = tl.compute(shape, lambda *at: input[along(at, tl.clamp(places[at], 0, extent - 1))], name="topk_values")
    return values, places


def resample(input: tl.Tensor, index: tl.Tensor, weight: tl.Tensor, dim: Axis) -> tl.Tensor:
    """`sum over t of weight[o, t] * input[index[o, t]]` along an axis: interpolation of any kind, its places and weights as tables."""
    if index.shape != weight.shape or len(index.shape) != 2:
        raise tl.DefinitionError(f"resample: {index!r} and {weight!r} are not tables of one shape, a row for each result")
    tap = tl.reduce_axis(index.shape[1], name="tap")

    def body(*at: Any) -> Any:
        read = input[(*at[:dim], place(index[at[dim], tap], input.shape[dim]), *at[dim + 1 :])]
        return tl.sum(read * weight[at[dim], tap], axis=tap)

    made: tl.Tensor = tl.compute((*input.shape[:dim], index.shape[0], *input.shape[dim + 1 :]), body, name="resample")
    return made


def reverse_sequence(input: tl.Tensor, lengths: tl.Tensor, dim: Axis, batch: Axis) -> tl.Tensor:
    """The first `lengths[b]` elements of an axis backwards, the others as they are; `batch` is the axis of b."""

    def body(*at: Any) -> Any:
        length = tl.cast(lengths[at[batch]], "int64")
        found = tl.select(at[dim] < length, length - 1 - at[dim], at[dim])
        return input[(*at[:dim], tl.clamp(found, 0, input.shape[dim] - 1), *at[dim + 1 :])]

    made: tl.Tensor = tl.compute(input.shape, body, name="reverse_sequence")
    return made


def tril(input: tl.Tensor, diagonal: int = 0) -> tl.Tensor:
    """Of matrices in the last two axes what lies on a diagonal and below it, 0 elsewhere."""
    return _triangle(input, lambda off: off <= diagonal, "tril")


def triu(input: tl.Tensor, diagonal: int = 0) -> tl.Tensor:
    """Of matrices in the last two axes what lies on a diagonal and above it, 0 elsewhere."""
    return _triangle(input, lambda off: off >= diagonal, "triu")


def _triangle(input: tl.Tensor, kept: Callable[[Any], Any], name: str) -> tl.Tensor:
    if len(input.shape) < 2:
        raise tl.DefinitionError(f"{name}: {input!r} has no matrices")
    zero = False if input.dtype == "bool" else tl.cast(0, input.dtype)
    made: tl.Tensor = tl.compute(input.shape, lambda *at: tl.select(kept(at[-1] - at[-2]), input[at], zero), name=name)
    return made


_FUNCTIONS: Final = (gather_nd, scatter_nd, scatter, scatter_prod, one_hot, topk, resample, reverse_sequence, tril, triu)
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
