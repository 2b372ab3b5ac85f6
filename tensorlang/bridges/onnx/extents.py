"""Shapes that are known up to dims, while a model is read: what exporters compute from `Shape`, and hand to `Reshape` and its like.

A shape of numbers is a constant, and what is computed from it is folded. One with a dim is no tensor that a graph could hold; it is carried
as extents through the operators by which exporters take shapes apart and put them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Extents, Held
from tensorlang.graph import Value


def shape(call: Call) -> Held:
    """The extents of a tensor."""
    found = call.operands[0]
    if isinstance(found, Extents):
        return call.constant(np.array([] if found.scalar else [len(found.entries)], np.int64))
    return whole(call, call[0].shape[slice(call.get("start", 0), call.get("end"))], scalar=False)


def size(call: Call) -> Held:
    """The number of elements of a tensor."""
    return whole(call, (math.prod(call[0].shape),), scalar=True)


def whole(call: Call, entries: tuple[Any, ...], *, scalar: bool) -> Held:
    """Extents, a constant where all of them are numbers."""
    if any(isinstance(entry, tl.Dim) for entry in entries):
        return Extents(tuple(entries), scalar)
    return call.constant(np.array(entries[0] if scalar else entries, np.int64))


def quotient(total: Any, rest: Any) -> Any:
    """How often a number of elements holds another: a number times dims of the whole, where that is so whatever these are; else -1."""
    if isinstance(rest, int) or isinstance(total, int):
        return -1
    ones = dict.fromkeys(total.dims, 1)
    factor, left = divmod(total.at(**ones), max(1, rest.at(**ones | dict.fromkeys(rest.dims, 1))))
    if left:
        return -1
    free = [tl.dim(name, *bounds) for name, bounds in total.dims.items() if name not in rest.dims]
    found = factor * math.prod(free) if free else factor
    return found if _numbers(found * rest) == _numbers(total) else -1


def _numbers(extent: Any) -> list[int]:
    """An extent at sizes at which products that differ do so."""
    if isinstance(extent, int):
        return [extent]
    names = sorted(extent.dims)
    return [extent.at(**{name: prime + 6 * place for place, name in enumerate(names)}) for prime in (5, 7, 11)]


def entries_of(call: Call, place: int) -> tuple[tuple[Any, ...], bool]:
    """The entries of an operand, and whether it is a scalar."""
    found = call.operands[place]
    if isinstance(found, Extents):
        return found.entries, found.scalar
    array = call.array(place)
    if array is None or array.ndim > 1:
        raise tl.GraphError(f"operand {place} beside extents is none")
    return tuple(int(one) for one in array.reshape(-1)), array.ndim == 0


def _same(call: Call) -> Held:
    return call.operands[0]


def _cast(call: Call) -> Held:
    if np.dtype(call.needed("to")).kind not in "iu":
        raise tl.GraphError("extents as floating-point numbers have no translation")
    return call.operands[0]


def _gather(call: Call) -> Held:
    entries, _ = entries_of(call, 0)
    places, scalar = entries_of(call, 1)
    return whole(call, tuple(entries[int(place)] for place in places), scalar=scalar)


def _slice(call: Call) -> Held:
    entries, _ = entries_of(call, 0)
    starts, ends, steps = (call.numbers(1, "starts"), call.numbers(2, "ends"), call.numbers(4))
    if starts is None or ends is None or len(starts) != 1:
        raise tl.GraphError("extents have one axis")
    return whole(call, entries[starts[0] : ends[0] : steps[0] if steps else 1], scalar=False)


def _concat(call: Call) -> Held:
    return whole(call, tuple(one for place in range(len(call.operands)) for one in entries_of(call, place)[0]), scalar=False)


def _reshape(call: Call) -> Held:
    entries, _ = entries_of(call, 0)
    wanted = call.numbers(1, "shape") or ()
    if len(wanted) > 1:
        raise tl.GraphError("extents have one axis")
    return whole(call, entries, scalar=not wanted)


def _unsqueezed(call: Call) -> Held:
    entries, scalar = entries_of(call, 0)
    if not scalar:
        raise tl.GraphError("extents have one axis")
    return whole(call, entries, scalar=False)


def _squeezed(call: Call) -> Held:
    entries, _ = entries_of(call, 0)
    return whole(call, entries, scalar=len(entries) == 1)


def _pairwise(combine: Callable[[Any, Any], Any]) -> Callable[[Call], Held]:
    def translation(call: Call) -> Held:
        (left, first), (right, second) = entries_of(call, 0), entries_of(call, 1)
        count = max(len(left), len(right))
        if {len(left), len(right)} - {1, count}:
            raise tl.GraphError(f"{len(left)} and {len(right)} extents do not fit")
        left, right = (side * count if len(side) == 1 else side for side in (left, right))
        return whole(call, tuple(combine(one, other) for one, other in zip(left, right, strict=True)), scalar=first and second)

    return translation


def _product(call: Call) -> Held:
    entries, _ = entries_of(call, 0)
    return whole(call, (math.prod(entries),), scalar=not call.get("keepdims", 1))


def _equal(call: Call) -> Value:
    """Against numbers below 1, which no extent is."""
    (left, first), (right, second) = entries_of(call, 0), entries_of(call, 1)
    count = max(len(left), len(right))
    pairs = list(zip(*(side * count if len(side) == 1 else side for side in (left, right)), strict=True))
    if any(
        isinstance(one, tl.Dim) != isinstance(other, tl.Dim)
        and max(one if isinstance(one, int) else -1, other if isinstance(other, int) else -1) > 0
        for one, other in pairs
    ):
        raise tl.GraphError("whether a dim is a number is known at a call, and has no translation")
    made = np.array([bool(one == other) for one, other in pairs])
    return call.constant(made.reshape(()) if first and second else made)


def _where(call: Call) -> Held:
    condition = call.array(0)
    (left, _), (right, _) = entries_of(call, 1), entries_of(call, 2)
    if condition is None:
        raise tl.GraphError("the condition is missing")
    chosen = condition.reshape(-1).tolist()
    count = max(len(chosen), len(left), len(right))
    columns = (side * count if len(side) == 1 else side for side in (tuple(chosen), left, right))
    return whole(call, tuple(one if holds else other for holds, one, other in zip(*columns, strict=True)), scalar=False)


ROWS: Final[Mapping[str, Callable[[Call], Any]]] = {
    "Identity": _same, "Cast": _cast, "Gather": _gather, "Slice": _slice, "Concat": _concat, "Reshape": _reshape,
    "Unsqueeze": _unsqueezed, "Squeeze": _squeezed, "Add": _pairwise(lambda one, other: one + other),
    "Sub": _pairwise(lambda one, other: one - other), "Mul": _pairwise(lambda one, other: one * other),
    "Div": _pairwise(lambda one, other: one // other), "ReduceProd": _product, "Equal": _equal, "Where": _where, "Shape": shape,
}  # fmt: skip
"""What is done with extents, by ONNX's names."""
_JOINED: Final = frozenset({"Concat", "Add", "Sub", "Mul", "Div", "Equal", "Where"})
"""Operators of which any operand may be extents; of others it is the first."""


def row(name: str, operands: Sequence[Held]) -> Callable[[Call], Any] | None:
    """The row for operands that are extents; None where these are none, or there is none."""
    asked = operands if name in _JOINED else operands[:1]
    return ROWS.get(name) if any(isinstance(one, Extents) for one in asked) else None
