"""Elements that are written at places which data, or numbers, tell: a tensor with others stored in it, or combined with its own."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.bridges.aten.places import before_indexed, first, indexed_axes, tuples_of
from tensorlang.graph import Value

_REDUCE: Final = {None: "set", "add": "add", "sum": "add", "amax": "max", "amin": "min"}


def put(call: Call) -> Value:
    """`self` with values stored, or added, at the places that index tensors name together; a number where a mask holds."""
    source, indices, values = call["self"], call["indices"], call["values"]
    reduce = "add" if call["accumulate"] else "set"
    masks = [index for index in indices if index is not None and index.dtype == "bool"]
    if len(masks) == 1 == len(indices) and reduce == "set" and math.prod(values.shape) == 1:
        mask = call.builder("reshape", masks[0], shape=(*masks[0].shape, *(1,) * (len(source.shape) - len(masks[0].shape))))
        return call("where", mask, call.reshaped(values, ()), source)
    axes = indexed_axes(call, indices)
    order = first(axes, len(source.shape))
    tuples = tuples_of(call, [indices[axis] for axis in axes])
    lead, rest = tuples.shape[:-1], [source.shape[axis] for axis in order[len(axes) :]]
    before = before_indexed(axes)
    blocks = call.expanded(values, (*rest[:before], *lead, *rest[before:]))
    blocks = call.permuted(blocks, (*range(before, before + len(lead)), *range(before), *range(before + len(lead), len(blocks.shape))))
    made = call("scatter_nd", call.permuted(source, order), tuples, blocks, reduce=reduce)
    return call.permuted(made, [order.index(axis) for axis in range(len(order))])


def scattered(reduce: str | None = None) -> Translation:
    """Elements, or a number, stored or combined at an index along an axis: as many as there are indices."""

    def translation(call: Call) -> Value:
        own = call.arguments.get("reduce", reduce)
        if own not in _REDUCE:
            raise call.refuse(f"reduce={own!r} has no translation")
        return _combined(call, call["self"], call["value"] if "value" in call.arguments else call["src"], _REDUCE[own])

    return translation


def reduced(call: Call) -> Value:
    """`scatter_reduce`: elements combined at an index along an axis, with what stands there or, where there are any, alone."""
    source, own, alone = call["self"], call["reduce"], not call["include_self"]
    kind = "add" if own == "mean" else _REDUCE.get(own)
    of = source.type.dtype
    if kind is None or str(of) == "bool" or (own == "mean" and of.is_integer):
        raise call.refuse(f"reduce={own!r} of {source.dtype} has no translation")
    if alone:
        source = _combined(call, source, {"add": 0, "max": of.lowest, "min": of.highest}[kind], "set")
    made = _combined(call, source, call["src"], kind)
    if own != "mean":
        return made
    count = _combined(call, call.expanded(call.as_type(0 if alone else 1, source.dtype), source.shape), 1, "add")
    return call("div", made, call("maximum", count, call.as_type(1, source.dtype)))


def _combined(call: Call, source: Value, src: Any, reduce: str) -> Value:
    """A tensor with the elements of another, as many as there are indices, or a number, at the index along the axis."""
    index = call["index"]
    if not isinstance(src, Value):
        src = call.as_type(src, source.dtype)
    if not src.shape:
        src = call.expanded(src, index.shape)
    for axis, extent in enumerate(index.shape):
        if src.shape[axis] != extent:
            src = call.builder("slice", src, dim=axis, start=0, end=extent)
    return call("scatter", source, index, src, dim=call["dim"], reduce=reduce)


def added_rows(call: Call) -> Value:
    """`index_add`: blocks added at an index along an axis."""
    return _rows(call, "add", call.arguments.get("alpha", 1))


def copied_rows(call: Call) -> Value:
    """`index_copy`: blocks stored at an index along an axis."""
    return _rows(call, "set", 1)


def _rows(call: Call, reduce: str, factor: Any) -> Value:
    target, dim = call["self"], call["dim"] % len(call["self"].shape)
    blocks = call["source"] if factor == 1 else call.builder("mul", call["source"], call.as_type(factor, target.dtype))
    order = first([dim], len(target.shape))
    made = call(
        "scatter_nd",
        call.permuted(target, order),
        tuples_of(call, [call.flat(call["index"])]),
        call.permuted(blocks, order),
        reduce=reduce,
    )
    return call.permuted(made, [order.index(axis) for axis in range(len(order))])


def written(call: Call) -> Value:
    """`slice_scatter`: a part of an axis replaced."""
    source: Value = call["self"]
    src: Value = call["src"]
    dim = call["dim"] % len(source.shape)
    extent, ends = source.shape[dim], (call["start"], call["end"])
    if not isinstance(extent, int) or not all(isinstance(end, int | None) for end in ends):
        raise call.refuse("writing a part of an axis whose extent is known only at a call has no translation")
    places = range(extent)[slice(*ends, call["step"])]
    if not places:
        return source
    if places.step != 1:
        return _rows(call.changed(source=src, index=call.builder.constant(np.array(places), call.name)), "set", 1)
    around = ((0, places.start), (places.stop, extent))
    before, after = (call.builder("slice", source, dim=dim, start=start, end=end) for start, end in around)
    pieces = [piece for piece in (before, src, after) if piece.shape[dim]]
    return src if len(pieces) == 1 else call("cat", *pieces, dim=dim)


def selected(call: Call) -> Value:
    """`select_scatter`: one element of an axis replaced."""
    dim = call["dim"] % len(call["self"].shape)
    index = call["index"] if call["index"] >= 0 else call["index"] + call["self"].shape[dim]
    src = call.reshaped(call["src"], (*call["src"].shape[:dim], 1, *call["src"].shape[dim:]))
    return written(call.changed(src=src, dim=dim, start=index, end=index + 1, step=1))


def bags(call: Call) -> tuple[Value, None, None, None]:
    """Sums or means of rows of a table, a bag of them from each offset on: `embedding_bag`."""
    weight, indices, offsets, mode = (call[name] for name in ("weight", "indices", "offsets", "mode"))
    number = call.told("include_last_offset").shape[0]
    if mode not in (0, 1):
        raise call.refuse("mode='max' has no translation")
    b, (count,) = call.builder, indices.shape
    if not isinstance(count, int):
        raise call.refuse("bags of indices whose number is known only at a call have no translation")
    ends = b("slice", offsets, dim=0, start=1, end=number)
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
    none = b("expand", b.scalar(0, weight.dtype), shape=(number,))
    sizes = b("maximum", b("scatter_nd", none, tuples, ones, reduce="add"), b.scalar(1, weight.dtype))
    return call("div", sums, b("reshape", sizes, shape=(number, 1))), None, None, None
