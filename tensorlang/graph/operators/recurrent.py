"""Recurrent layers: the states after each step, by a scan whose step is a product and what follows it.

`gates` are what the input adds, (T, N, gates * H), computed for all steps at once; `weight` is that of the state, (gates * H, H), its gates
in torch's order. After the end of a row, `lengths`, its state stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import tensorlang as tl
from tensorlang.graph.operator import Operator


def _checked(gates: tl.Tensor, weight: tl.Tensor, state: tl.Tensor, count: int, name: str) -> tuple[Any, Any, Any]:
    """Steps, rows and the extent of the state."""
    if len(gates.shape) != 3 or len(weight.shape) != 2 or len(state.shape) != 2:
        raise tl.DefinitionError(f"{name}: gates (T, N, {count} * H), weight ({count} * H, H) and state (N, H) have other axes")
    steps, rows, wide = gates.shape
    hidden = state.shape[1]
    if wide != hidden * count or weight.shape != (wide, hidden) or state.shape[0] != rows:
        raise tl.DefinitionError(f"{name}: {gates!r}, {weight!r} and {state!r} do not fit")
    return steps, rows, hidden


def _product(state: tl.Tensor, weight: tl.Tensor, name: str) -> tl.Tensor:
    k = tl.reduce_axis(weight.shape[1], name="k")
    made: tl.Tensor = tl.compute((state.shape[0], weight.shape[0]), lambda n, g: tl.sum(state[n, k] * weight[g, k], axis=k), name=name)
    return made


def _kept(lengths: tl.Tensor | None, t: Any, n: Any, new: tl.Expr, old: tl.Expr) -> tl.Expr:
    return new if lengths is None else tl.select(tl.cast(lengths[n], "int64") > t, new, old)


def lstm(
    gates: tl.Tensor, weight: tl.Tensor, hidden: tl.Tensor, cell: tl.Tensor, lengths: tl.Tensor | None = None,
    peephole: tl.Tensor | None = None,
) -> tuple[tl.Tensor, tl.Tensor]:  # fmt: skip
    """Hidden states and cells, (T, N, H) each; gates i, f, g, o. `peephole` is what the cell adds to i, f and o, (3 * H,)."""
    steps, rows, extent = _checked(gates, weight, hidden, 4, "lstm")

    def step(t: Any, states: tuple[tl.Tensor, tl.Tensor]) -> tuple[tl.Tensor, tl.Tensor]:
        h, c = states
        fed = _product(h, weight, "lstm_product")

        def gate(place: int, n: Any, j: Any) -> Any:
            return gates[t, n, place * extent + j] + fed[n, place * extent + j]

        def seen(place: int, value: Any, j: Any) -> Any:
            return 0.0 if peephole is None else peephole[place * extent + j] * value

        def next_cell(n: Any, j: Any) -> Any:
            i, f = tl.sigmoid(gate(0, n, j) + seen(0, c[n, j], j)), tl.sigmoid(gate(1, n, j) + seen(1, c[n, j], j))
            return _kept(lengths, t, n, f * c[n, j] + i * tl.tanh(gate(2, n, j)), c[n, j])

        after: tl.Tensor = tl.compute((rows, extent), next_cell, name="lstm_cell")

        def next_hidden(n: Any, j: Any) -> Any:
            o = tl.sigmoid(gate(3, n, j) + seen(2, after[n, j], j))
            return _kept(lengths, t, n, o * tl.tanh(after[n, j]), h[n, j])

        return tl.compute((rows, extent), next_hidden, name="lstm_hidden"), after

    made: tuple[tl.Tensor, tl.Tensor] = tl.scan(step, (hidden, cell), steps, name="lstm")
    return made


def gru(
    gates: tl.Tensor, weight: tl.Tensor, hidden: tl.Tensor, bias: tl.Tensor | None = None, lengths: tl.Tensor | None = None,
    reset_after: bool = True,
) -> tl.Tensor:  # fmt: skip
    """Hidden states, (T, N, H); gates r, z, n. The reset gate acts after the product, as torch's, or on the state before it."""
    steps, rows, extent = _checked(gates, weight, hidden, 3, "gru")

    def own(place: int, j: Any) -> Any:
        return 0.0 if bias is None else bias[place * extent + j]

    def step(t: Any, h: tl.Tensor) -> tl.Tensor:
        fed = _product(h, weight, "gru_product")

        def gate(place: int, n: Any, j: Any) -> Any:
            return tl.sigmoid(gates[t, n, place * extent + j] + fed[n, place * extent + j] + own(place, j))

        new: Callable[..., Any]
        if reset_after:

            def new(n: Any, j: Any) -> Any:
                return gates[t, n, 2 * extent + j] + gate(0, n, j) * (fed[n, 2 * extent + j] + own(2, j))

        else:
            reset: tl.Tensor = tl.compute((rows, extent), lambda n, j: gate(0, n, j) * h[n, j], name="gru_reset")
            k = tl.reduce_axis(extent, name="k")
            again: tl.Tensor = tl.compute(
                (rows, extent), lambda n, j: tl.sum(reset[n, k] * weight[2 * extent + j, k], axis=k), name="gru_again"
            )

            def new(n: Any, j: Any) -> Any:
                return gates[t, n, 2 * extent + j] + again[n, j] + own(2, j)

        def after(n: Any, j: Any) -> Any:
            z = gate(1, n, j)
            return _kept(lengths, t, n, (1.0 - z) * tl.tanh(new(n, j)) + z * h[n, j], h[n, j])

        made: tl.Tensor = tl.compute((rows, extent), after, name="gru_hidden")
        return made

    made: tl.Tensor = tl.scan(step, hidden, steps, name="gru")
    return made


def rnn(gates: tl.Tensor, weight: tl.Tensor, hidden: tl.Tensor, lengths: tl.Tensor | None = None, nonlinearity: str = "tanh") -> tl.Tensor:
    """Hidden states, (T, N, H), of `tanh` or `relu` of the sum of what input and state add."""
    steps, rows, extent = _checked(gates, weight, hidden, 1, "rnn")
    if nonlinearity not in ("tanh", "relu"):
        raise tl.DefinitionError(f"rnn: the nonlinearity is 'tanh' or 'relu', not {nonlinearity!r:.60}")

    def step(t: Any, h: tl.Tensor) -> tl.Tensor:
        fed = _product(h, weight, "rnn_product")

        def after(n: Any, j: Any) -> Any:
            total = gates[t, n, j] + fed[n, j]
            return _kept(lengths, t, n, tl.tanh(total) if nonlinearity == "tanh" else tl.maximum(total, 0.0), h[n, j])

        made: tl.Tensor = tl.compute((rows, extent), after, name="rnn_hidden")
        return made

    made: tl.Tensor = tl.scan(step, hidden, steps, name="rnn")
    return made


_FUNCTIONS: Final = (lstm, gru, rnn)
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
