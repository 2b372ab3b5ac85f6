"""Rows of the table: branches, loops and sequences, which exist only while a model is read.

A branch is taken, and a loop unrolled, where its condition and its number of steps are known. A sequence is a list of values, and an
optional is a value or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Held, Translation
from tensorlang.bridges.onnx.moving import pieces_of, sizes_of
from tensorlang.graph import Value

STEPS: Final = 1024
"""Steps of a loop that is unrolled."""


def branch(call: Call) -> tuple[Held, ...]:
    """One of two graphs, by a condition that is known."""
    taken = call.needed("then_branch" if _truth(call, call[0], "the condition") else "else_branch")
    return tuple(call.inline(taken, []))


def _truth(call: Call, value: Value, what: str) -> bool:
    return bool(call.known(value, what).reshape(-1)[0])


def loop(call: Call) -> tuple[Held, ...]:
    """A number of steps, or as many as a condition holds, unrolled; values that each step makes are stacked."""
    most, going, body = call.operand(0), call.operand(1), call.needed("body")
    steps = None if most is None else int(call.known(most, "the number of steps").reshape(-1)[0])
    carried: list[Held] = list(call.operands[2:])
    kept: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    step = 0
    while (steps is None or step < steps) and (going is None or _truth(call, going, "the condition")):
        if step >= STEPS:
            raise tl.GraphError(f"a loop of more than {STEPS} steps has no translation")
        number = call.builder.constant(np.array(step, np.int64))
        holds = going if going is not None else call.builder.constant(np.array(True))
        after, *made = call.inline(body, [number, holds, *carried])
        going = _tensor(after) if call.operand(1) is not None or steps is None else None
        carried, scans = made[: len(carried)], made[len(carried) :]
        for place, value in enumerate(scans):
            kept[place].append(_tensor(value))
        step += 1
    if not step and kept:
        raise tl.GraphError("a loop of no steps that stacks values has no translation")
    return (*carried, *(stacked(call, values, 0) for values in kept))


def _tensor(value: Held) -> Value:
    if not isinstance(value, Value):
        raise tl.GraphError("a loop that stacks sequences, or decides by one, has no translation")
    return value


def stacked(call: Call, values: list[Value], axis: int) -> Value:
    """Values of one shape along a new axis."""
    rank = len(values[0].shape) + 1
    axis = call.place(axis, rank)
    parts = [call.reshaped(one, (*one.shape[:axis], 1, *one.shape[axis:])) for one in values]
    return call("cat", *parts, dim=axis)


def scan(call: Call) -> tuple[Held, ...]:
    """A step for each element of an axis, unrolled."""
    body, count = call.needed("body"), call.needed("num_scan_inputs")
    operands = list(call.operands)
    if call.opset < 9:
        return _batched_scan(call, body, count, operands[1:])
    states, inputs = operands[: len(operands) - count], [call[place] for place in range(len(operands) - count, len(operands))]
    return _scanned(call, body, states, inputs)


def _scanned(call: Call, body: Any, states: list[Held], inputs: list[Value]) -> tuple[Held, ...]:
    outputs = len(body.output) - len(states)
    axes = call.get("scan_input_axes") or (0,) * len(inputs)
    backwards = call.get("scan_input_directions") or (0,) * len(inputs)
    places = [call.place(axis, len(value.shape)) for axis, value in zip(axes, inputs, strict=True)]
    lengths = {call.extents(value)[place] for value, place in zip(inputs, places, strict=True)}
    if len(lengths) != 1 or not 1 <= (length := lengths.pop()) <= STEPS:
        raise tl.GraphError(f"the axes of a scan have one extent, from 1 to {STEPS}")
    kept: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        parts = [
            _element(call, value, place, length - 1 - step if back else step)
            for value, place, back in zip(inputs, places, backwards, strict=True)
        ]
        made = call.inline(body, [*states, *parts])
        states = made[: len(states)]
        for place, value in enumerate(made[len(states) :]):
            kept[place].append(_tensor(value))
    turned = call.get("scan_output_directions") or (0,) * outputs
    along = call.get("scan_output_axes") or (0,) * outputs
    stacks = [stacked(call, values[::-1] if back else values, axis) for values, back, axis in zip(kept, turned, along, strict=True)]
    return (*states, *stacks)


def _batched_scan(call: Call, body: Any, count: int, operands: list[Held]) -> tuple[Held, ...]:
    """The form of opset 8: the first axis of all is a batch, each element of which is scanned by itself."""
    values = [_tensor(one) for one in operands]
    batch = call.extents(values[0])[0]
    results = []
    for place in range(batch):
        own = [_element(call, value, 0, place) for value in values]
        results.append(_scanned(call, body, list(own[: len(own) - count]), own[len(own) - count :]))
    return tuple(stacked(call, [_tensor(one) for one in column], 0) for column in zip(*results, strict=True))


def _element(call: Call, value: Value, axis: int, place: int) -> Value:
    """One element of an axis, without the axis."""
    part = call("slice", value, dim=axis, start=place, end=place + 1)
    return call.reshaped(part, (*value.shape[:axis], *value.shape[axis + 1 :]))


def sequence_at(call: Call) -> Held:
    """An element of a sequence, at a place that is known."""
    held, place = call.sequence(0), call.number(1, 0)
    if not -len(held) <= place < len(held):
        raise tl.GraphError(f"element {place} of a sequence of {len(held)}")
    return held[place]


def sequence_insert(call: Call) -> tuple[Held]:
    """A sequence with one more element, at the end unless a place is given."""
    held = list(call.sequence(0))
    place = call.number(2, len(held))
    held.insert(place, call[1])
    return (held,)


def sequence_erase(call: Call) -> tuple[Held]:
    """A sequence without an element, the last unless a place is given."""
    held = list(call.sequence(0))
    place = call.number(1, -1)
    if not -len(held) <= place < len(held):
        raise tl.GraphError(f"element {place} of a sequence of {len(held)}")
    del held[place]
    return (held,)


def from_sequence(call: Call) -> Value:
    """The elements of a sequence along an axis, which is new or theirs."""
    held = call.sequence(0)
    if not held:
        raise tl.GraphError("an empty sequence has no elements to join")
    if call.get("new_axis", 0):
        return stacked(call, held, call.needed("axis"))
    return call("cat", *held, dim=call.needed("axis"))


def to_sequence(call: Call) -> tuple[Held]:
    """Pieces of an axis: of sizes that are known, one size for all, or 1 each, then without the axis unless it is kept."""
    value, axis, keeps = call[0], call.axis(), call.get("keepdims", 1)
    extent = call.extents(value)[axis]
    if call.operand(1) is None:
        pieces = pieces_of(call, axis, [1] * extent)
        if keeps:
            return (list(pieces),)
        return ([call.reshaped(one, (*one.shape[:axis], *one.shape[axis + 1 :])) for one in pieces],)
    if call[1].shape == ():
        size = call.number(1, 0)
        if size < 1:
            raise tl.GraphError(f"pieces of {size} elements")
        return (list(pieces_of(call, axis, [min(size, extent - start) for start in range(0, extent, size)])),)
    return (list(pieces_of(call, *sizes_of(call, None))),)


def mapped(call: Call) -> tuple[Held, ...]:
    """A graph for each element of a sequence; tensors beside it are the same for all."""
    first, body = call.sequence(0), call.needed("body")
    columns: list[list[Any]] = [[] for _ in range(len(body.output))]
    for place in range(len(first)):
        given = [one[place] if isinstance(one, list) else one for one in call.operands]
        for column, value in zip(columns, call.inline(body, given), strict=True):
            column.append(value)
    return tuple(columns)


def has_element(call: Call) -> Value:
    """Is an optional there?"""
    return call.constant(np.array(bool(call.operands) and call.operands[0] is not None))


def get_element(call: Call) -> tuple[Held]:
    """What an optional holds."""
    found = call.operands[0] if call.operands else None
    if found is None:
        raise tl.GraphError("the optional is empty")
    return (found,)


ROWS: Final[Mapping[str, Translation]] = {
    "If": branch, "Loop": loop, "Scan": scan, "SequenceMap": mapped,
    "SequenceConstruct": lambda call: (list(call.operands),), "SequenceEmpty": lambda _: ([],),
    "SequenceAt": lambda call: (sequence_at(call),), "SequenceInsert": sequence_insert, "SequenceErase": sequence_erase,
    "SequenceLength": lambda call: call.constant(np.array(len(call.sequence(0)), np.int64)),
    "ConcatFromSequence": from_sequence, "SplitToSequence": to_sequence,
    "Optional": lambda call: (call.operands[0] if call.operands else None,), "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}  # fmt: skip
"""By ONNX's names."""
