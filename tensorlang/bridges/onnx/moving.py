"""Rows of the table: shapes, views, and operators that move elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx import extents
from tensorlang.bridges.onnx.call import Call, Coded, Held, Translation, part, row
from tensorlang.bridges.onnx.narrow import codes, is_narrow
from tensorlang.graph import Value


def reshape(call: Call) -> Value:
    """0 keeps an extent, -1 is what is left."""
    wanted = call.numbers(1, "shape") or ()
    keeps = not call.get("allowzero", 0)
    if keeps and any(extent == 0 and axis >= len(call[0].shape) for axis, extent in enumerate(wanted)):
        raise tl.GraphError(f"the shape {wanted} keeps an extent that {call[0]} does not have")
    shape = [call[0].shape[axis] if extent == 0 and keeps else extent for axis, extent in enumerate(wanted)]
    if shape.count(-1) == 1:
        rest = math.prod(extent for extent in shape if not (isinstance(extent, int) and extent == -1))
        shape[shape.index(-1)] = extents.quotient(math.prod(call[0].shape), rest)
    return call("reshape", call[0], shape=shape)


def flatten(call: Call) -> Value:
    """Two axes: those before `axis`, and the others."""
    shape, axis = call[0].shape, call.get("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return call.reshaped(call[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))


def transpose(call: Call) -> Value:
    """Axes in another order; from the last to the first unless one is given."""
    return call("permute", call[0], dims=call.get("perm") or tuple(reversed(range(len(call[0].shape)))))


def squeeze(call: Call) -> Value:
    """Without axes of extent 1."""
    shape, axes = call[0].shape, call.numbers(1, "axes")
    gone = {axis for axis, extent in enumerate(shape) if extent == 1} if axes is None else {call.place(axis, len(shape)) for axis in axes}
    return call.reshaped(call[0], [extent for axis, extent in enumerate(shape) if axis not in gone])


def unsqueeze(call: Call) -> Value:
    """With new axes of extent 1, at places of the result."""
    axes = call.numbers(1, "axes") or ()
    rank, old = len(call[0].shape) + len(axes), iter(call[0].shape)
    new = {call.place(axis, rank) for axis in axes}
    if len(new) < len(axes):
        raise tl.GraphError(f"an axis stands twice in {axes}")
    return call.reshaped(call[0], [1 if axis in new else next(old) for axis in range(rank)])


def expand(call: Call) -> Value:
    """Repeated; an extent of 1 keeps the operand's."""
    wanted, own = call.numbers(1) or (), call[0].shape
    rank = max(len(wanted), len(own))
    pairs = zip((1,) * (rank - len(own)) + own, (1,) * (rank - len(wanted)) + wanted, strict=True)
    return call("expand", call[0], shape=[one if other == 1 else other for one, other in pairs])


def cut(call: Call) -> Value:
    """Starts and ends are operands, for these axes, by these steps."""
    starts, ends = call.numbers(1, "starts") or (), call.numbers(2, "ends") or ()
    axes, steps = call.numbers(3, "axes") or tuple(range(len(starts))), call.numbers(4) or (1,) * len(starts)
    value = call[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        value = part(call, value, axis, start, end, step)
    return value


def sizes_of(call: Call, pieces: int | None) -> tuple[int, list[int]]:
    """The axis that is split, and the extents of the pieces: those that are said, or as many as there are results."""
    value, axis = call[0], call.axis()
    extent = value.shape[axis]
    if not isinstance(extent, int):
        raise tl.GraphError(f"pieces of an axis of {extent} elements have no translation")
    sizes = call.numbers(1, "split")
    if sizes is not None:
        found = [*sizes]
    else:
        count = pieces or 1
        share = -(-extent // count)
        found = [max(0, min(share, extent - share * place)) for place in range(count)]
    if any(size < 0 for size in found) or sum(found) != extent:
        raise tl.GraphError(f"pieces of {found} elements do not make an axis of {extent}")
    return axis, found


def pieces_of(call: Call, axis: int, sizes: Sequence[int]) -> tuple[Value, ...]:
    """Parts of an axis, one after the other."""
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return tuple(part(call, call[0], axis, start, start + size) for start, size in zip(starts, sizes, strict=True))


def split(call: Call) -> tuple[Value, ...]:
    """Pieces of an axis."""
    return pieces_of(call, *sizes_of(call, call.get("num_outputs", call.results)))


def gather(call: Call) -> Value:
    """Elements of an axis, named by an index of any shape, whose axes stand in its place."""
    value, index, axis = call[0], call[1], call.axis()
    shape = (*value.shape[:axis], *index.shape, *value.shape[axis + 1 :])
    flat = call.reshaped(index, (math.prod(index.shape),))
    return call.reshaped(call("index_select", value, flat, dim=axis), shape)


def gather_elements(call: Call) -> Value:
    """An index for each element of the result, along an axis."""
    index, axis = call[1], call.axis()
    extent = call.extents(call[0])[axis]
    zero = call.builder.scalar(0, str(index.dtype))
    front = call("where", call("lt", index, zero), call("add", index, call.builder.scalar(extent, str(index.dtype))), index)
    return call("gather", call[0], front, dim=axis)


_COMBINED: Final = {"none": "set", "add": "add", "max": "max", "min": "min"}


def scatter_nd(call: Call) -> Value:
    """Blocks stored, or combined, at tuples of places."""
    reduce = call.get("reduction", "none")
    if reduce == "mul":
        return call("scatter_prod", call[0], call[1], call[2])
    return call("scatter_nd", call[0], call[1], call[2], reduce=_COMBINED[reduce])


def scatter_elements(call: Call) -> Value:
    """Elements stored, or combined, at places along an axis."""
    reduce, axis, index, shape = call.get("reduction", "none"), call.axis(), call[1], call.extents(call[1])
    if reduce != "mul":
        return call("scatter", call[0], index, call[2], dim=axis, reduce=_COMBINED[reduce])
    grids = np.meshgrid(*(np.arange(extent) for extent in shape), indexing="ij")
    tuples = [
        call.reshaped(call.cast(index, "int64") if place == axis else call.builder.constant(np.ascontiguousarray(grid)), (*shape, 1))
        for place, grid in enumerate(grids)
    ]
    return call("scatter_prod", call[0], call("cat", *tuples, dim=-1), call[2])


def tensor_scatter(call: Call) -> Value:
    """A cache that is written to from a place on, one for each row of the batch; around its end where that is said."""
    past, update = call[0], call[1]
    axis, shape = call.axis(-2), call.extents(call[1])
    length = call.extents(past)[axis]
    first = call.operand(2)
    starts = call.constant(np.zeros(shape[0], np.int64)) if first is None else call.cast(first, "int64")
    steps = np.arange(shape[axis]).reshape([-1 if place == axis else 1 for place in range(len(shape))])
    index = call("add", call.reshaped(starts, (shape[0],) + (1,) * (len(shape) - 1)), call.builder.constant(steps))
    if call.get("mode", "linear") == "circular":
        index = call("remainder", index, call.builder.scalar(length, "int64"))
    return call("scatter", past, call("expand", index, shape=shape), update, dim=axis)


def tile(call: Call) -> Value:
    """Repeated along each axis."""
    value, times = call[0], call.numbers(1) or ()
    shape = call.extents(value)
    if len(times) != len(shape):
        raise tl.GraphError(f"{len(times)} numbers of repeats for {len(shape)} axes")
    if any(isinstance(count, int) and count < 0 for count in times):
        raise tl.GraphError(f"the repeats {list(times)} are not all 0 or more")
    apart = call.reshaped(value, [entry for extent in shape for entry in (1, extent)])
    wide = call("expand", apart, shape=[entry for pair in zip(times, shape, strict=True) for entry in pair])
    return call.reshaped(wide, [count * extent for count, extent in zip(times, shape, strict=True)])


def pad(call: Call) -> Value:
    """Elements before and after axes; a negative number takes elements away."""
    value, rank = call[0], len(call[0].shape)
    widths = call.numbers(1, "pads" if call.opset > 2 else "paddings") or ()
    axes = [call.place(axis, rank) for axis in call.numbers(3) or range(rank)]
    if len(widths) != 2 * len(axes):
        raise tl.GraphError(f"{len(widths)} pads for {len(axes)} axes")
    before, after = dict(zip(axes, widths, strict=False)), dict(zip(axes, widths[len(axes) :], strict=True))
    mode = call.get("mode", "constant")
    fill = call.operand(2)
    number = call.known(fill, "operand 2").reshape(-1)[0].item() if fill is not None and call.builder.array(fill) is not None else None
    pairs = tuple((max(0, before.get(axis, 0)), max(0, after.get(axis, 0))) for axis in range(rank))
    if mode == "constant" and fill is not None and number is None:
        inside = call("pad", call("expand", call.builder.constant(np.array(True)), shape=value.shape), pad=pairs, value=False)
        value = call("where", inside, call("pad", value, pad=pairs), call.reshaped(fill, ()))
    else:
        zero: Any = False if value.dtype == "bool" else 0.0 if value.dtype.is_floating else 0
        value = call("pad", value, pad=pairs, mode=mode, value=call.get("value", zero) if number is None else number)
    for axis in axes:
        end = value.shape[axis] + min(0, after[axis])
        if (before[axis], after[axis]) < (0, 0) or min(before[axis], after[axis]) < 0:
            value = call("slice", value, dim=axis, start=-min(0, before[axis]), end=end)
    return value


def constant(call: Call) -> Held:
    """A tensor, a number or several, written down in the node."""
    for kind, dtype in (("value", None), ("value_float", "f4"), ("value_floats", "f4"), ("value_int", "i8"), ("value_ints", "i8")):
        if kind in call.attributes:
            array = np.asarray(call.attributes[kind], dtype)
            return Coded(call.constant(codes(array)), array.dtype) if is_narrow(array.dtype) else call.constant(array)
    raise tl.GraphError("a constant that is no tensor of numbers has no translation")


def filled(call: Call) -> Value:
    """One number, repeated."""
    number = np.asarray(call.get("value", np.zeros(1, np.float32))).reshape(())
    return call("expand", call.builder.constant(number), shape=call.numbers(0) or ())


MOST: Final = 1 << 24
"""Elements of a table that is written down while a model is read."""


def numbered(call: Call) -> Value:
    """`start, start + step, ...` before an end, all known."""
    first, end, step = (call.known(call[place], f"operand {place}").reshape(()) for place in range(3))
    if not step:
        raise tl.GraphError("a range by steps of 0 has no end; operand 2 is another number")
    count = math.ceil((end - first) / step)
    if count > MOST:
        raise tl.GraphError(f"a range of more than {MOST} numbers has no translation")
    return call.constant((first + np.arange(max(0, count)).astype(first.dtype) * step).astype(first.dtype))


def eye(call: Call) -> Value:
    """Ones on a diagonal, in the shape of the operand."""
    rows, columns = call.extents(call[0])
    if rows * columns > MOST:
        raise tl.GraphError(f"a table of {rows} by {columns} numbers has no translation")
    dtype = call.get("dtype")
    return call.constant(np.eye(rows, columns, call.get("k", 0)).astype(call[0].dtype.numpy if dtype is None else dtype))


def one_hot(call: Call) -> Value:
    """One of two values, according to an index."""
    depth, values, axis = call.number(1, 0), call[2], call.get("axis", -1)
    if depth < 1:
        raise tl.GraphError(f"{depth} classes")
    index = call.cast(call[0], "int64")
    hot = call("one_hot", index, num_classes=depth, dim=axis)
    return call("where", hot, part_at(call, values, 1), part_at(call, values, 0))


def part_at(call: Call, value: Value, place: int) -> Value:
    """One element of a vector."""
    return call.reshaped(call("slice", value, dim=0, start=place, end=place + 1), ())


def trilu(call: Call) -> Value:
    """A triangle of matrices."""
    return call("triu" if call.get("upper", 1) else "tril", call[0], diagonal=call.number(1, 0))


def depth_to_space(call: Call) -> Value:
    """Blocks of channels as blocks of pixels."""
    (n, c, h, w), size = call.extents(call[0]), call.needed("blocksize")
    if call.get("mode", "DCR") == "DCR":
        split_, order = (n, size, size, c // size**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split_, order = (n, c // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
    return call.reshaped(call.permuted(call.reshaped(call[0], split_), order), (n, c // size**2, h * size, w * size))


def space_to_depth(call: Call) -> Value:
    """Blocks of pixels as blocks of channels."""
    (n, c, h, w), size = call.extents(call[0]), call.needed("blocksize")
    if call.get("mode", "DCR") != "DCR":
        apart = call.reshaped(call[0], (n, c, h // size, size, w // size, size))
        return call.reshaped(call.permuted(apart, (0, 1, 3, 5, 2, 4)), (n, c * size**2, h // size, w // size))
    apart = call.reshaped(call[0], (n, c, h // size, size, w // size, size))
    return call.reshaped(call.permuted(apart, (0, 3, 5, 1, 2, 4)), (n, c * size**2, h // size, w // size))


def compress(call: Call) -> Value:
    """The elements of an axis, or of all of them in a row, for which a condition holds that is known."""
    kept = np.flatnonzero(call.known(call[1], "operand 1"))
    value = call[0]
    if call.get("axis") is None:
        value = call.reshaped(value, (math.prod(call.extents(value)),))
        return call("index_select", value, call.builder.constant(kept), dim=0)
    return call("index_select", value, call.builder.constant(kept), dim=call.axis())


def reverse_sequence(call: Call) -> Value:
    """The first elements of each row backwards."""
    return call("reverse_sequence", call[0], call[1], dim=call.get("time_axis", 0), batch=call.get("batch_axis", 1))


def features(call: Call) -> Value:
    """Columns of a matrix, named by an index."""
    matrix = call[0] if len(call[0].shape) > 1 else call.reshaped(call[0], (1, *call[0].shape))
    return call("index_select", matrix, call.reshaped(call[1], (math.prod(call[1].shape),)), dim=len(matrix.shape) - 1)


ROWS: Final[Mapping[str, Translation]] = {
    "Reshape": reshape, "Flatten": flatten, "Transpose": transpose, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand,
    "Slice": cut, "Split": split, "Gather": gather, "GatherElements": gather_elements,
    "GatherND": row("gather_nd", batch_dims="batch_dims"), "ScatterND": scatter_nd, "ScatterElements": scatter_elements,
    "Scatter": scatter_elements, "TensorScatter": tensor_scatter, "Concat": row("cat", dim="axis"), "Tile": tile, "Pad": pad,
    "Shape": extents.shape, "Size": extents.size, "Constant": constant,
    "ConstantOfShape": filled, "Range": numbered, "EyeLike": eye, "OneHot": one_hot, "Trilu": trilu, "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth, "Compress": compress, "ReverseSequence": reverse_sequence,
    "ai.onnx.ml.ArrayFeatureExtractor": features,
}  # fmt: skip
"""By ONNX's names, those of other domains with the domain."""
