"""Views, joins and fillings: what torch calls by many names comes to four views, `cat` and `pad`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorlang.bridges.aten.call import Call, Translation
from tensorlang.graph import Value


def reshape(call: Call) -> Value:
    """All that torch calls by the shape that it has in the end: view, flatten, squeeze, unsqueeze, ..."""
    return call.reshaped(call["self"], call.told().shape)


def repeat(call: Call) -> Value:
    """Tiles: new axes that are expanded, then joined."""
    source: Value = call["self"]
    times = call["repeats"]
    shape = (1,) * (len(times) - len(source.shape)) + source.shape
    between = tuple(extent for size in shape for extent in (1, size))
    spread = tuple(extent for count, size in zip(times, shape, strict=True) for extent in (count, size))
    return call.reshaped(call("expand", call.reshaped(source, between), shape=spread), call.type.shape)


def expand(call: Call) -> Value:
    """Repeated to the shape of the result."""
    source: Value = call["self"]
    return call.expanded(source, call.told().shape)


def permuted(call: Call, dims: Sequence[int]) -> Value:
    """Axes in another order."""
    return call("permute", call["self"], dims=tuple(dims))


def transpose(call: Call) -> Value:
    """Two axes that change places."""
    order = list(range(len(call.type.shape)))
    one, other = (call[next(name for name in names if name in call.arguments)] for names in (("dim0", "axis0"), ("dim1", "axis1")))
    order[one], order[other] = order[other], order[one]
    return permuted(call, order)


def part(call: Call, source: Value, dim: int, start: Any, end: Any, step: int = 1) -> Value:
    """Elements of an axis, counted as Python counts them."""
    axis = dim % len(source.shape)
    extent = source.shape[axis]

    def at(place: Any, missing: Any) -> Any:
        if place is None:
            return missing
        if isinstance(place, int) and place < 0:
            place = place + extent
        if isinstance(place, int) and isinstance(extent, int):
            return min(max(place, 0), extent)
        return extent if isinstance(place, int) and place >= 1 << 48 else place

    first, last = at(start, 0), at(end, extent)
    if first == 0 and last == extent and step == 1:
        return source
    return call("slice", source, dim=axis, start=first, end=max(first, last) if isinstance(last, int) else last, step=step)


def select(call: Call) -> Value:
    """One element of an axis, which goes."""
    source, dim, index = call["self"], call["dim"], call["index"]
    place = index + source.shape[dim] if isinstance(index, int) and index < 0 else index
    return call.reshaped(part(call, source, dim, place, place + 1), call.type.shape)


def parts(call: Call) -> tuple[Value, ...]:
    """Pieces of an axis, one after the other: split, chunk."""
    dim, made, start = call["dim"] % len(call.told().shape), [], 0
    for kind in call.types:
        assert kind is not None
        made.append(part(call, call["self"], dim, start, start + kind.shape[dim]))
        start += kind.shape[dim]
    return tuple(made)


def moved(call: Call) -> Value:
    """Axes that go to other places, all others keeping their order."""
    rank = len(call["self"].shape)
    sources, targets = (
        [axis % rank for axis in ((found,) if isinstance(found, int) else found)] for found in (call["source"], call["destination"])
    )
    rest = iter(axis for axis in range(rank) if axis not in sources)
    return permuted(call, [sources[targets.index(place)] if place in targets else next(rest) for place in range(rank)])


def reversed_axes(call: Call) -> Value:
    """All axes in the other order."""
    return permuted(call, tuple(reversed(range(len(call["self"].shape)))))


def turned(call: Call) -> Value:
    """The last two axes in the other order."""
    rank = len(call["self"].shape)
    return permuted(call, (*range(rank - 2), rank - 1, rank - 2))


def copied(call: Call) -> Value:
    """What is copied into a tensor, repeated to its shape, in its type."""
    return call.expanded(call.as_type(call["src"], call.told().dtype), call.type.shape)


def unbind(call: Call) -> tuple[Value, ...]:
    """Each element of an axis, which goes."""
    return tuple(
        call.reshaped(part(call, call["self"], call["dim"], place, place + 1), kind.shape)
        for place, kind in enumerate(call.types)
        if kind is not None
    )


def stack(call: Call) -> Value:
    """Tensors along a new axis."""
    dim = call["dim"] % len(call.type.shape)
    shape = (*call.type.shape[:dim], 1, *call.type.shape[dim + 1 :])
    return call("cat", *(call.reshaped(one, shape) for one in call["tensors"]), dim=dim)


def cat(call: Call) -> Value:
    """Tensors one after the other; torch leaves out empty vectors."""
    tensors = [one for one in call["tensors"] if one.shape != (0,)]
    return call("cat", *(call.as_type(one, call.type.dtype) for one in tensors), dim=call["dim"] % len(call.type.shape))


def indexed(call: Call) -> Value:
    """Elements of one axis, named by an index of any shape, whose axes stand in the place of that one."""
    source, indices = call["self"], call["indices"]
    found = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(found) != 1 or found[0][1].dtype == "bool":
        raise call.refuse("indices for several axes, and indices of truth, have no translation")
    ((dim, index),) = found
    chosen = call("index_select", source, call.reshaped(index, (math.prod(index.shape),)), dim=dim)
    return call.reshaped(chosen, call.type.shape)


def filled(number: Any) -> Translation:
    """A tensor of one number: a number, repeated."""

    def translation(call: Call) -> Value:
        value = call.arguments.get("fill_value", call.arguments.get("s", number))
        return call.expanded(call.as_type(value, call.told().dtype), call.type.shape)

    return translation


def arange(call: Call) -> Value:
    """Numbers one after the other; where a call says how many, ones that are summed up."""
    if not call.type.static:
        first, step, dtype = call.arguments.get("start", 0), call.arguments.get("step", 1), call.told().dtype
        ones = call.expanded(call.builder.scalar(1, "int64"), call.type.shape)
        count = call.builder("sub", call.builder("cumsum", ones, dim=0), call.builder.scalar(1, "int64"))
        steps = call.builder("mul", call.as_type(count, dtype), call.as_type(step, dtype))
        return call("add", steps, call.as_type(first, dtype))
    numbers = np.arange(call.arguments.get("start", 0), call["end"], call.arguments.get("step", 1))
    return call.builder.constant(numbers.astype(call.type.dtype.numpy), call.name)


def padded(call: Call) -> Value:
    """Elements around, or fewer where a width is negative: torch counts axes from the last one."""
    source, widths = call["self"], call["pad"]
    mode, value = call.arguments.get("mode", "constant"), call.arguments.get("value") or 0.0
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise call.refuse(f"{mode=} has no translation")
    pairs = [(widths[place], widths[place + 1]) for place in range(0, len(widths), 2)]
    amounts = (*((0, 0),) * (len(source.shape) - len(pairs)), *reversed(pairs))
    if any(width < 0 for width in widths):
        if mode != "constant":
            raise call.refuse(f"negative widths with {mode=} have no translation")
        for axis, (before, after) in enumerate(amounts):
            source = part(call, source, axis, max(-before, 0), source.shape[axis] - max(-after, 0))
        amounts = tuple((max(before, 0), max(after, 0)) for before, after in amounts)
    kind = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    return call("pad", source, pad=amounts, mode=kind, value=float(value))
