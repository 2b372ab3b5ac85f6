"""`bench.programs.recurrences` as arrays: steps of whole fields, scans over rows, running sums."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.dialects import scanned, stepped, within


def jacobi(xp: Any, a: Any) -> Any:
    """The inner part of each step anew."""

    def step(_: Any, x: Any) -> Any:
        return within(xp, x, 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]))

    return stepped(xp, 50, step, a)


def heat(xp: Any, a: Any) -> Any:
    """Second differences along three axes."""

    def step(_: Any, x: Any) -> Any:
        inner = x[1:-1, 1:-1, 1:-1]
        along = 0.125 * (x[2:, 1:-1, 1:-1] - 2 * inner + x[:-2, 1:-1, 1:-1]) + 0.125 * (x[1:-1, 2:, 1:-1] - 2 * inner + x[1:-1, :-2, 1:-1])
        return within(xp, x, along + 0.125 * (x[1:-1, 1:-1, 2:] - 2 * inner + x[1:-1, 1:-1, :-2]) + inner)

    return stepped(xp, 20, step, a)


def mandelbrot(xp: Any) -> Any:
    """All points in each step; those that are not bounded stay."""
    h, w = 300, 400
    cx = xp.arange(w, dtype=xp.float32)[None, :] * (3 / w) - 2
    cy = xp.arange(h, dtype=xp.float32)[:, None] * (2 / h) - 1

    def step(_: Any, state: Any) -> Any:
        x, y, count = state
        bounded = x * x + y * y < 4
        return xp.where(bounded, x * x - y * y + cx, x), xp.where(bounded, 2 * x * y + cy, y), count + xp.astype(bounded, xp.int32)

    zeros = xp.zeros((h, w), dtype=xp.float32)
    return stepped(xp, 50, step, (zeros, zeros, xp.zeros((h, w), dtype=xp.int32)))[2]


def running_sums(xp: Any, x: Any) -> Any:
    """What each library has."""
    return xp.cumulative_sum(x, axis=1)


def filter_rows(xp: Any, x: Any) -> Any:
    """All signals, a moment after the other."""

    def step(state: Any, column: Any) -> tuple[Any, Any]:
        last, before = state
        now = 0.2 * column + 1.1 * last - 0.4 * before
        return (now, last), now

    zeros = xp.zeros_like(x[:, 0])
    return scanned(xp, step, (zeros, zeros), x.T)[1].T


def vertical_advection(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """All columns, a level after the other."""

    def forward(state: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any]:
        p, q = state
        pivot = b - a * p
        now = c / pivot, (d - a * q) / pivot
        return now, now

    def backward(above: Any, p: Any, q: Any) -> tuple[Any, Any]:
        now = q - p * above
        return now, now

    zeros = xp.zeros_like(a[0])
    _, (p, q) = scanned(xp, forward, (zeros, zeros), a, b, c, d)
    _, found = scanned(xp, backward, zeros, xp.flip(p, axis=0), xp.flip(q, axis=0))
    return xp.flip(found, axis=0)


def viterbi(xp: Any, change: Any, seen: Any, start: Any) -> Any:
    """A matrix of sums in each step."""

    def step(best: Any, row: Any) -> tuple[Any, None]:
        return xp.max(best[:, None] + change, axis=0) + row, None

    return scanned(xp, step, start, seen)[0]


def shortest_paths(xp: Any, d: Any) -> Any:
    """All ways through one node in each step."""

    def step(t: Any, d: Any) -> Any:
        return xp.minimum(d, d[:, t, None] + d[t])

    return stepped(xp, d.shape[0], step, d)


def lstm(xp: Any, x: Any, w: Any, u: Any, bias: Any) -> Any:
    """What the inputs give to all steps as one product, then a step after the other."""
    cells = x.shape[1]

    def sigmoid(z: Any) -> Any:
        return 1 / (1 + xp.exp(-z))

    def step(state: Any, given: Any) -> tuple[Any, None]:
        h, c = state
        gate = given + u @ h
        kept, taken = sigmoid(gate[cells : 2 * cells]), sigmoid(gate[:cells])
        c = kept * c + taken * xp.tanh(gate[2 * cells : 3 * cells])
        return (sigmoid(gate[3 * cells :]) * xp.tanh(c), c), None

    zeros = xp.zeros_like(x[0])
    return scanned(xp, step, (zeros, zeros), x @ w.T + bias)[0][0]


FORMS: Final = (jacobi, heat, mandelbrot, running_sums, filter_rows, vertical_advection, viterbi, shortest_paths, lstm)
