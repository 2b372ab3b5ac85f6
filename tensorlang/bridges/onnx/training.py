"""Rows of the table: steps of optimizers, one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tensorlang.bridges.onnx.call import Call, Translation
from tensorlang.graph import Value


def _grouped(step: Callable[[Call, Value, Value, Sequence[Value]], Sequence[Value]], states: int) -> Translation:
    """A step for each tensor; operands are the rate, the count, then all tensors, all gradients, all states of each kind."""

    def translation(call: Call) -> tuple[Value, ...]:
        count = (len(call.operands) - 2) // (2 + states)
        columns = [step(call, call[0], call[1], [call[2 + kind * count + one] for kind in range(2 + states)]) for one in range(count)]
        return tuple(column[kind] for kind in range(1 + states) for column in columns)

    return translation


def _regular(call: Call, tensor: Value, gradient: Value, name: str = "norm_coefficient") -> Value:
    share = call.get(name, 0.0)
    return call("add", gradient, call("mul", tensor, share)) if share else gradient


def _adagrad(call: Call, rate: Value, count: Value, held: Sequence[Value]) -> Sequence[Value]:
    tensor, gradient, squares = held
    decay = call("add", call("mul", call.cast(count, rate.dtype), call.get("decay_factor", 0.0)), 1.0)
    own = _regular(call, tensor, gradient)
    after = call("add", squares, call("square", own))
    down = call("div", call("mul", call("div", rate, decay), own), call("add", call("sqrt", after), call.get("epsilon", 0.0)))
    return call("sub", tensor, down), after


def _adam(call: Call, rate: Value, count: Value, held: Sequence[Value]) -> Sequence[Value]:
    tensor, gradient, first, second = held
    alpha, beta = call.get("alpha", 0.9), call.get("beta", 0.999)
    own = _regular(call, tensor, gradient)
    mean = call("add", call("mul", first, alpha), call("mul", own, 1.0 - alpha))
    square = call("add", call("mul", second, beta), call("mul", call("square", own), 1.0 - beta))
    steps = call.cast(count, rate.dtype)

    def bias(base: float) -> Value:
        return call("sub", call.builder.scalar(1.0, str(rate.dtype)), call("pow", call.builder.scalar(base, str(rate.dtype)), steps))

    scaled = call("div", call("mul", rate, call("sqrt", bias(beta))), bias(alpha))
    early = call("eq", steps, call.builder.scalar(0.0, str(rate.dtype)))
    scaled = call("where", early, rate, scaled)
    down = call("div", call("mul", scaled, mean), call("add", call("sqrt", square), call.get("epsilon", 0.0)))
    after = call("sub", tensor, down)
    last = 1.0 - call.get("norm_coefficient_post", 0.0)
    return (after if last == 1 else call("mul", after, last)), mean, square


def _momentum(call: Call, rate: Value, count: Value, held: Sequence[Value]) -> Sequence[Value]:
    tensor, gradient, velocity = held
    own = _regular(call, tensor, gradient)
    first = call("eq", count, call.builder.scalar(0, str(count.dtype)))
    beta = call("where", first, call.builder.scalar(1.0, str(rate.dtype)), call.builder.scalar(call.get("beta", 1.0), str(rate.dtype)))
    after = call("add", call("mul", velocity, call.get("alpha", 0.0)), call("mul", own, beta))
    down = call("add", own, call("mul", after, call.get("alpha", 0.0))) if call.get("mode") == "nesterov" else after
    return call("sub", tensor, call("mul", down, rate)), after


ROWS: Final[Mapping[str, Translation]] = {
    "ai.onnx.preview.training.Adagrad": _grouped(_adagrad, 1), "ai.onnx.preview.training.Adam": _grouped(_adam, 2),
    "ai.onnx.preview.training.Momentum": _grouped(_momentum, 1),
}  # fmt: skip
"""By ONNX's names, with their domain."""
