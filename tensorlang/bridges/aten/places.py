"""Elements at places that data, or numbers, tell: indexing by several tensors, scatters, parts that are written or moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.graph import Value
from tensorlang.graph.operators.pointwise import broadcast


def indexed(call: Call) -> Value:
    """Elements that index tensors name together: the axes of these stand in the place of the first, or first if they are apart."""
    source, indices = call["self"], call["indices"]
    axes = _indexed_axes(call, indices)
    if len(axes) == 1:
        (dim,) = axes
        chosen = call("index_select", source, _line(call, indices[dim]), dim=dim)
        return call.reshaped(chosen, call.type.shape)
    order = _first(axes, len(source.shape))
    tuples = _tuples(call, [indices[axis] for axis in axes])
    read = call("gather_nd", _permuted(call, source, order), tuples)
    lead = len(tuples.shape) - 1
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return read
    return _permuted(call, read, (*range(lead, lead + axes[0]), *range(lead), *range(lead + axes[0], len(read.shape))))


def _indexed_axes(call: Call, indices: Sequence[Value | None]) -> list[int]:
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if any(index is not None and index.dtype == "bool" for index in indices):
        raise call.refuse("indices of truth, which say how many elements there are only at a call, have no translation")
    return axes


def _first(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """An order of all axes in which these come first."""
    return (*axes, *(axis for axis in range(rank) if axis not in axes))


def _permuted(call: Call, value: Value, order: Sequence[int]) -> Value:
    return value if tuple(order) == tuple(range(len(order))) else call.builder("permute", value, dims=tuple(order))


def _line(call: Call, index: Value) -> Value:
    return call.reshaped(index, (math.prod(index.shape),))


def _tuples(call: Call, indices: Sequence[Value]) -> Value:
    """Index tensors, repeated to one shape, as tuples along a new last axis."""
    shape = broadcast(*(index.shape for index in indices))
    columns = [_spread(call, call.as_type(index, "int64"), shape) for index in indices]
    joined = [call.builder("reshape", column, shape=(*shape, 1)) for column in columns]
    return joined[0] if len(joined) == 1 else call.builder("cat", *joined, dim=len(shape))


def _spread(call: Call, value: Value, shape: Sequence[Any]) -> Value:
    return value if value.shape == tuple(shape) else call.builder("expand", value, shape=tuple(shape))


def put(call: Call) -> Value:
    """`self` with values stored, or added, at the places that index tensors name together; a number where a mask holds."""
    source, indices, values = call["self"], call["indices"], call["values"]
    reduce = "add" if call["accumulate"] else "set"
    masks = [index for index in indices if index is not None and index.dtype == "bool"]
    if len(masks) == 1 == len(indices) and reduce == "set" and math.prod(values.shape) == 1:
        mask = call.builder("reshape", masks[0], shape=(*masks[0].shape, *(1,) * (len(source.shape) - len(masks[0].shape))))
        return call("where", mask, call.reshaped(values, ()), source)
    axes = _indexed_axes(call, indices)
    order = _first(axes, len(source.shape))
    tuples = _tuples(call, [indices[axis] for axis in axes])
    lead, rest = tuples.shape[:-1], [source.shape[axis] for axis in order[len(axes) :]]
    together = axes == list(range(axes[0], axes[-1] + 1))
    before = axes[0] if together else 0
    blocks = _spread(call, values, (*rest[:before], *lead, *rest[before:]))
    blocks = _permuted(call, blocks, (*range(before, before + len(lead)), *range(before), *range(before + len(lead), len(blocks.shape))))
    made = call("scatter_nd", _permuted(call, source, order), tuples, blocks, reduce=reduce)
    return _permuted(call, made, [order.index(axis) for axis in range(len(order))])


_REDUCE = {None: "set", "add": "add", "sum": "add", "amax": "max", "amin": "min"}


def scattered(reduce: str | None = None) -> Translation:
    """Elements, or a number, stored or combined at an index along an axis: as many as there are indices."""

    def translation(call: Call) -> Value:
        own = call.arguments.get("reduce", reduce)
        if own not in _REDUCE or not call.arguments.get("include_self", True):
            raise call.refuse(f"reduce={own!r}, or include_self=False, has no translation")
        source, index = call["self"], call["index"]
        src = call["value"] if "value" in call.arguments else call["src"]
        if not isinstance(src, Value):
            src = call.as_type(src, source.dtype)
        if not src.shape:
            src = _spread(call, src, index.shape)
        for axis, extent in enumerate(index.shape):
            if src.shape[axis] != extent:
                src = call.builder("slice", src, dim=axis, start=0, end=extent)
        return call("scatter", source, index, src, dim=call["dim"], reduce=_REDUCE[own])

    return translation


def added_rows(call: Call) -> Value:
    """`index_add`: blocks added at an index along an axis."""
    return _rows(call, "add", call.arguments.get("alpha", 1))


def copied_rows(call: Call) -> Value:
    """`index_copy`: blocks stored at an index along an axis."""
    return _rows(call, "set", 1)


def _rows(call: Call, reduce: str, factor: Any) -> Value:
    target, dim = call["self"], call["dim"] % len(call["self"].shape)
    blocks = call["source"] if factor == 1 else call.builder("mul", call["source"], call.as_type(factor, target.dtype))
    order = _first([dim], len(target.shape))
    made = call(
        "scatter_nd",
        _permuted(call, target, order),
        _tuples(call, [_line(call, call["index"])]),
        _permuted(call, blocks, order),
        reduce=reduce,
    )
    return _permuted(call, made, [order.index(axis) for axis in range(len(order))])


def rolled(call: Call) -> Value:
    """Elements moved along axes, those that leave at an end coming in at the other; without axes, of the flat tensor."""
    source, dims = call["self"], call["dims"]
    made = source if dims else call.reshaped(source, (math.prod(source.shape),))
    for shift, dim in zip(call["shifts"], dims or (0,), strict=True):
        extent = made.shape[dim]
        cut = -shift % extent if not isinstance(extent, int) or extent else 0
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
    return _permuted(call, apart, (*range(dim + 1), *range(dim + 2, len(apart.shape)), dim + 1))


def diagonal(call: Call) -> Value:
    """Elements at equal places of two axes, which become the last one: every (m + 1)-th of a matrix with m columns."""
    source, offset = call["self"], call["offset"]
    rank = len(source.shape)
    rows, columns = call["dim1"] % rank, call["dim2"] % rank
    order = [*(axis for axis in range(rank) if axis not in (rows, columns)), rows, columns]
    matrices = _permuted(call, source, order)
    lead, (height, width), count = matrices.shape[:-2], matrices.shape[-2:], call.type.shape[-1]
    if not all(isinstance(extent, int) for extent in (height, width)):
        raise call.refuse("a diagonal of sizes that are known only at a call has no translation")
    flat = call.reshaped(matrices, (*lead, height * width))
    start = min(offset if offset >= 0 else -offset * width, height * width)
    end = start + (count - 1) * (width + 1) + 1 if count else start
    return call("slice", flat, dim=len(lead), start=start, end=end, step=width + 1)


def written(call: Call) -> Value:
    """`slice_scatter`: a part of an axis replaced."""
    source, dim, src, step = call["self"], call["dim"] % len(call["self"].shape), call["src"], call["step"]
    extent = source.shape[dim]
    start, end = (
        _place(call, call[name], extent, missing) for name, missing in (("start", 0), ("end", extent))
    )  # fmt: skip
    if step != 1:
        index = call.builder.constant(np.arange(start, max(start, end), step), call.name)
        return _rows(call.changed(source=src, index=index, dim=dim), "set", 1)
    parts = [
        call.builder("slice", source, dim=dim, start=one, end=other)
        for one, other in ((0, start), (max(start, end), extent))
        if one < other
    ]
    pieces = [*parts[: 1 if start else 0], src, *parts[1 if start else 0 :]] if src.shape[dim] else [source]
    return pieces[0] if len(pieces) == 1 else call("cat", *pieces, dim=dim)


def _place(call: Call, place: Any, extent: Any, missing: Any) -> int:
    found = missing if place is None else place
    if not isinstance(found, int) or not isinstance(extent, int):
        raise call.refuse("writing a part of an axis whose extent is known only at a call has no translation")
    return min(max(found + extent if found < 0 else found, 0), extent)


def selected(call: Call) -> Value:
    """`select_scatter`: one element of an axis replaced."""
    dim = call["dim"] % len(call["self"].shape)
    index = call["index"] if call["index"] >= 0 else call["index"] + call["self"].shape[dim]
    src = call.reshaped(call["src"], (*call["src"].shape[:dim], 1, *call["src"].shape[dim:]))
    return written(call.changed(src=src, dim=dim, start=index, end=index + 1, step=1))


def bags(call: Call) -> tuple[Value, None, None, None]:
    """Sums or means of rows of a table, a bag of them from each offset on: `embedding_bag`."""
    weight, indices, offsets, mode, last = (call[name] for name in ("weight", "indices", "offsets", "mode", "include_last_offset"))
    if mode not in (0, 1):
        raise call.refuse("mode='max' has no translation")
    b, (count,) = call.builder, indices.shape
    if not isinstance(count, int):
        raise call.refuse("bags of indices whose number is known only at a call have no translation")
    ends = b("slice", offsets, dim=0, start=1, end=offsets.shape[0])
    ends = b("slice", ends, dim=0, start=0, end=call.type.shape[0] - 1) if last else ends
    own = b("bucketize", b.constant(np.arange(1, count + 1, dtype=offsets.dtype.numpy)), ends)
    rows = b("index_select", weight, indices, dim=0)
    if (factors := call.arguments.get("per_sample_weights")) is not None:
        rows = b("mul", rows, b("reshape", factors, shape=(count, 1)))
    tuples = b("reshape", own, shape=(count, 1))
    zeros = b("expand", b.scalar(0, weight.dtype), shape=call.type.shape)
    sums = call("scatter_nd", zeros, tuples, rows, reduce="add")
    if mode == 0:
        return sums, None, None, None
    ones = b("expand", b.scalar(1, weight.dtype), shape=(count,))
    none = b("expand", b.scalar(0, weight.dtype), shape=call.type.shape[:1])
    sizes = b("maximum", b("scatter_nd", none, tuples, ones, reduce="add"), b.scalar(1, weight.dtype))
    return call("div", sums, b("reshape", sizes, shape=(call.type.shape[0], 1))), None, None, None


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
        call.arguments.get("out_int32")
        if not call["right"] and call.arguments.get("side") != "right":
            return call.as_type(call("bucketize", own, edges), call.type.dtype)
        above = call.builder("bucketize", call.builder("neg", own), call.builder("neg", edges))
        total = call.builder.scalar(edges.shape[0], "int64")
        return call.as_type(call.builder("sub", total, above), call.type.dtype)

    return translation
