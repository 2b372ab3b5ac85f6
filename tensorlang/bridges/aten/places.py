"""Elements that are read at places which data, or numbers, tell: indexing by several tensors, and axes that are moved along or cut up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.graph import Value
from tensorlang.graph.operators.pointwise import broadcast


def indexed(call: Call) -> Value:
    """Elements that index tensors name together: the axes of these stand in the place of the first, or first if they are apart."""
    source, indices = call["self"], call["indices"]
    axes = indexed_axes(call, indices)
    if len(axes) == 1:
        (dim,) = axes
        chosen = call("index_select", source, call.flat(indices[dim]), dim=dim)
        return call.reshaped(chosen, call.type.shape)
    order = first(axes, len(source.shape))
    tuples = tuples_of(call, [indices[axis] for axis in axes])
    read = call("gather_nd", call.permuted(source, order), tuples)
    lead, before = len(tuples.shape) - 1, before_indexed(axes)
    return call.permuted(read, (*range(lead, lead + before), *range(lead), *range(lead + before, len(read.shape))))


def indexed_axes(call: Call, indices: Sequence[Value | None]) -> list[int]:
    """The axes that index tensors are for. Raises `GraphError` for those of truth values."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if any(index is not None and index.dtype == "bool" for index in indices):
        raise call.refuse("indices of truth, which say how many elements there are only at a call, have no translation")
    return axes


def before_indexed(axes: Sequence[int]) -> int:
    """How many axes stand before those of the index tensors in what these name: none where the axes that they are for are apart."""
    return axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0


def first(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """An order of all axes in which these come first."""
    return (*axes, *(axis for axis in range(rank) if axis not in axes))


def tuples_of(call: Call, indices: Sequence[Value]) -> Value:
    """Index tensors, repeated to one shape, as tuples along a new last axis."""
    shape = broadcast(*(index.shape for index in indices))
    columns = [call.expanded(call.as_type(index, "int64"), shape) for index in indices]
    joined = [call.builder("reshape", column, shape=(*shape, 1)) for column in columns]
    return joined[0] if len(joined) == 1 else call.builder("cat", *joined, dim=len(shape))


def rolled(call: Call) -> Value:
    """Elements moved along axes, those that leave at an end coming in at the other; without axes, of the flat tensor."""
    source, dims = call["self"], call["dims"]
    made = source if dims else call.flat(source)
    for shift, dim in zip(call["shifts"], dims or (0,), strict=True):
        extent = made.shape[dim]
        cut = (extent * abs(shift) - shift) % extent if not isinstance(extent, int) or extent else 0  # dims are not below 0
        if isinstance(cut, int) and cut == 0:
            continue
        parts = [call.builder("slice", made, dim=dim, start=start, end=end) for start, end in ((cut, extent), (0, cut))]
        made = call.builder("cat", *parts, dim=dim % len(made.shape))
    return call.reshaped(made, source.shape)


def sliding(call: Call) -> Value:
    """`unfold`: pieces of an axis, which may overlap, their elements along a new last axis."""
    source, dim, size, step = call["self"], call["dimension"] % max(len(call["self"].shape), 1), call["size"], call["step"]
    count = call.type.shape[dim]
    if not isinstance(count, int):
        raise call.refuse("pieces whose number is known only at a call have no translation")
    table = (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1)
    read = call("index_select", source, call.builder.constant(table), dim=dim)
    apart = call.reshaped(read, (*source.shape[:dim], count, size, *source.shape[dim + 1 :]))
    return call.permuted(apart, (*range(dim + 1), *range(dim + 2, len(apart.shape)), dim + 1))


def diagonal(call: Call) -> Value:
    """Elements at equal places of two axes, which become the last one: every (m + 1)-th of a matrix with m columns."""
    source, offset = call["self"], call["offset"]
    rank = len(source.shape)
    rows, columns = call["dim1"] % rank, call["dim2"] % rank
    order = [*(axis for axis in range(rank) if axis not in (rows, columns)), rows, columns]
    matrices = call.permuted(source, order)
    lead, (height, width), count = matrices.shape[:-2], matrices.shape[-2:], call.type.shape[-1]
    if not all(isinstance(extent, int) for extent in (height, width)):
        raise call.refuse("a diagonal of sizes that are known only at a call has no translation")
    flat = call.reshaped(matrices, (*lead, height * width))
    start = min(offset if offset >= 0 else -offset * width, height * width)
    end = start + (count - 1) * (width + 1) + 1 if count else start
    return call("slice", flat, dim=len(lead), start=start, end=end, step=width + 1)


def sampled(call: Call) -> Value:
    """`grid_sample`, whose modes torch numbers."""
    options = {
        "mode": ("linear", "nearest", "cubic")[call["interpolation_mode"]],
        "padding_mode": ("zeros", "border", "reflection")[call["padding_mode"]],
        "align_corners": call["align_corners"],
    }
    return call("grid_sample", call["input"], call["grid"], **options)


def bucket(boundaries: str, value: str) -> Translation:
    """Where numbers belong among boundaries that are sorted; `right`: behind those that are equal to them."""

    def translation(call: Call) -> Value:
        edges, own = call[boundaries], call[value]
        if call.arguments.get("side") not in (None, "left", "right") or call.arguments.get("sorter") is not None or len(edges.shape) != 1:
            raise call.refuse("sorter=, and boundaries of several axes, have no translation")
        own = call.as_type(own, edges.dtype)
        if not call["right"] and call.arguments.get("side") != "right":
            return call.as_type(call("bucketize", own, edges), call.told("out_int32").dtype)
        above = call.builder("bucketize", call.builder("neg", own), call.builder("neg", edges))
        total = call.builder.scalar(edges.shape[0], "int64")
        return call.as_type(call.builder("sub", total, above), call.told("out_int32").dtype)

    return translation
