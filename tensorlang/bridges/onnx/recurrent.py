"""Rows of the table: recurrent layers, one or two directions. What does not depend on the state is computed for all steps at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value

Step: TypeAlias = "Callable[[Call, Value, Callable[[int], Value | None], Sequence[str]], tuple[Value, ...]]"
"""The states after each step, for the input, the operands of a direction, and its activations."""


def _gates(call: Call, value: Value, order: Sequence[int], axis: int = 0) -> Value:
    """Blocks of an axis in another order."""
    extent = call.extents(value)[axis] // len(order)
    parts = [call("slice", value, dim=axis, start=place * extent, end=(place + 1) * extent) for place in order]
    return call("cat", *parts, dim=axis)


def _bias(call: Call, value: Value | None, order: Sequence[int], half: int) -> Value | None:
    """The bias of the input (0) or of the state (1), its gates in order."""
    if value is None:
        return None
    extent = call.extents(value)[0] // 2
    return _gates(call, call("slice", value, dim=0, start=half * extent, end=(half + 1) * extent), order)


def _inputs(call: Call, x: Value, own: Callable[[int], Value | None], order: Sequence[int]) -> tuple[Value, Value, Value | None]:
    """What the input adds to the gates, the weight and the bias of the state."""
    weight, recurrent, bias = own(1), own(2), own(3)
    if weight is None or recurrent is None:
        raise tl.GraphError("the weights of the input and of the state have to be there")
    given = call("linear", x, _gates(call, weight, order), _bias(call, bias, order, 0))
    return given, _gates(call, recurrent, order), _bias(call, bias, order, 1)


def _lstm(call: Call, x: Value, own: Callable[[int], Value | None], activations: Sequence[str]) -> tuple[Value, ...]:
    if [name.lower() for name in activations] != ["sigmoid", "tanh", "tanh"] or call.get("input_forget", 0):
        raise tl.GraphError(f"the activations {', '.join(activations)}, or input_forget, have no translation")
    given, recurrent, bias = _inputs(call, x, own, (0, 2, 3, 1))
    given = given if bias is None else call("add", given, bias)
    peephole = own(7)
    peephole = None if peephole is None else _gates(call, peephole, (0, 2, 1))
    return call.builder.node(
        "lstm",
        (given, recurrent, _start(call, x, recurrent, own(5)), _start(call, x, recurrent, own(6)), _lengths(call), peephole),
        {},
        call.name,
    )


def _gru(call: Call, x: Value, own: Callable[[int], Value | None], activations: Sequence[str]) -> tuple[Value, ...]:
    if [name.lower() for name in activations] != ["sigmoid", "tanh"]:
        raise tl.GraphError(f"the activations {', '.join(activations)} have no translation")
    given, recurrent, bias = _inputs(call, x, own, (1, 0, 2))
    after = bool(call.get("linear_before_reset", 0))
    return call.builder.node(
        "gru", (given, recurrent, _start(call, x, recurrent, own(5)), bias, _lengths(call)), {"reset_after": after}, call.name
    )


def _rnn(call: Call, x: Value, own: Callable[[int], Value | None], activations: Sequence[str]) -> tuple[Value, ...]:
    name = activations[0].lower()
    if name not in ("tanh", "relu"):
        raise tl.GraphError(f"the activation {activations[0]} has no translation")
    given, recurrent, bias = _inputs(call, x, own, (0,))
    given = given if bias is None else call("add", given, bias)
    return call.builder.node(
        "rnn", (given, recurrent, _start(call, x, recurrent, own(5)), _lengths(call)), {"nonlinearity": name}, call.name
    )


def _start(call: Call, x: Value, recurrent: Value, state: Value | None) -> Value:
    """The first state; zeros unless it is given."""
    if state is not None:
        return state
    return call("expand", call.builder.scalar(0, str(x.dtype)), shape=(x.shape[1], recurrent.shape[1]))


def _lengths(call: Call) -> Value | None:
    found = call.operand(4)
    return None if found is None else call.cast(found, "int64")


def layer(step: Step, usual: Sequence[str], states: int) -> Translation:
    """The outputs of all steps, and the last states, of each direction."""

    def translation(call: Call) -> tuple[Value, ...]:
        direction, x = call.get("direction", "forward"), call[0]
        batched = bool(call.get("layout", 0))
        x = call.permuted(x, (1, 0, 2)) if batched else x
        count = 2 if direction == "bidirectional" else 1
        names = tuple(call.get("activations") or tuple(usual) * count)
        if call.get("clip") is not None or len(names) < len(usual) * count:
            raise tl.GraphError("clip, and fewer activations than directions need, have no translation")
        sides = []
        for side in range(count):
            backwards = direction == "reverse" or side == 1

            def own(place: int, side: int = side) -> Value | None:
                value = call.operand(place)
                if value is None:
                    return None
                value = call.permuted(value, (1, 0, 2)) if batched and place in (5, 6) else value
                part = call("slice", value, dim=0, start=side, end=side + 1)
                return call.reshaped(part, part.shape[1:])

            given = _turned(call, x) if backwards else x
            made = step(call, given, own, names[side * len(usual) : (side + 1) * len(usual)])
            last = [_last(call, one) for one in made]
            sides.append((_masked(call, made[0], backwards=backwards), *last))
        outputs = [_joined(call, [side[0] for side in sides], 1)]
        outputs += [_joined(call, [side[1 + place] for side in sides], 0) for place in range(states)]
        if batched:
            outputs = [call.permuted(outputs[0], (2, 0, 1, 3)), *(call.permuted(one, (1, 0, 2)) for one in outputs[1:])]
        return tuple(outputs)

    return translation


def _turned(call: Call, value: Value) -> Value:
    """Steps from the last to the first, of each row its own."""
    lengths = _lengths(call)
    if lengths is None:
        return call("flip", value, dims=(0,))
    return call("reverse_sequence", value, lengths, dim=0, batch=1)


def _masked(call: Call, states: Value, *, backwards: bool) -> Value:
    """The outputs in the order of the input, 0 after the end of a row."""
    lengths, value = _lengths(call), states
    if lengths is not None:
        steps = np.arange(_steps(states)).reshape(-1, 1, 1)
        there = call("lt", call.builder.constant(steps), call.reshaped(lengths, (1, -1, 1)))
        value = call("where", there, states, call.builder.scalar(0, str(states.dtype)))
    return _turned(call, value) if backwards else value


def _steps(states: Value) -> int:
    """The number of steps, which has to be known."""
    steps = states.shape[0]
    if not isinstance(steps, int):
        raise tl.GraphError(f"a recurrent layer of {steps} steps has no translation; the number of rows may be a dim")
    return steps


def _last(call: Call, states: Value) -> Value:
    steps = _steps(states)
    return call.reshaped(call("slice", states, dim=0, start=steps - 1, end=steps), states.shape[1:])


def _joined(call: Call, values: Sequence[Value], axis: int) -> Value:
    parts = [call.reshaped(one, (*one.shape[:axis], 1, *one.shape[axis:])) for one in values]
    return parts[0] if len(parts) == 1 else call("cat", *parts, dim=axis)


ROWS: Final[Mapping[str, Any]] = {
    "LSTM": layer(_lstm, ("Sigmoid", "Tanh", "Tanh"), 2), "GRU": layer(_gru, ("Sigmoid", "Tanh"), 1), "RNN": layer(_rnn, ("Tanh",), 1),
}  # fmt: skip
"""By ONNX's names."""
