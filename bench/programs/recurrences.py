"""What goes on from what was there: stencils in time, scans, recurrences along one axis."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, named, operand, real


def inside(extent: int, *at: Any) -> Any:
    """Is an element none of the border?"""
    found = (at[0] >= 1) & (at[0] < extent - 1)
    for axis in at[1:]:
        found = found & (axis >= 1) & (axis < extent - 1)
    return found


def jacobi() -> Made:
    """Fifty steps of means of five."""
    n = 500

    def step(_: Any, x: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            return tl.select(inside(n, i, j), 0.2 * (x[i, j] + x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j]), x[i, j])

        return tl.compute((n, n), element, name="next")

    return tl.scan(step, operand("A", n, n), 50, keep="last", name="jacobi"), (floats(n, n),)


def _jacobi(a: Any, out: Any) -> None:
    x, y, n = a.copy(), a.copy(), a.shape[0]
    for _ in range(50):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                y[i, j] = np.float32(0.2) * (x[i, j] + x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j])
        x, y = y, x
    out[:] = x


def heat() -> Made:
    """PolyBench's heat-3d, a step at a time."""
    n = 64

    def step(_: Any, x: Any) -> Any:
        def element(i: Any, j: Any, k: Any) -> Any:
            along = 0.125 * (x[i + 1, j, k] - 2 * x[i, j, k] + x[i - 1, j, k]) + 0.125 * (x[i, j + 1, k] - 2 * x[i, j, k] + x[i, j - 1, k])
            return tl.select(
                inside(n, i, j, k), along + 0.125 * (x[i, j, k + 1] - 2 * x[i, j, k] + x[i, j, k - 1]) + x[i, j, k], x[i, j, k]
            )

        return tl.compute((n, n, n), element, name="next")

    return tl.scan(step, operand("A", n, n, n), 20, keep="last", name="heat"), (floats(n, n, n),)


def _heat(a: Any, out: Any) -> None:
    x, y, n, c, two = a.copy(), a.copy(), a.shape[0], np.float32(0.125), np.float32(2)
    for _ in range(20):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    along = c * (x[i + 1, j, k] - two * x[i, j, k] + x[i - 1, j, k]) + c * (
                        x[i, j + 1, k] - two * x[i, j, k] + x[i, j - 1, k]
                    )
                    y[i, j, k] = along + c * (x[i, j, k + 1] - two * x[i, j, k] + x[i, j, k - 1]) + x[i, j, k]
        x, y = y, x
    out[:] = x


def mandelbrot() -> Made:
    """Steps that each point stays bounded, of fifty; the loops leave a point when it does not."""
    h, w = 300, 400

    def step(_: Any, state: Any) -> Any:
        x, y, count = state

        def bounded(i: Any, j: Any) -> Any:
            return x[i, j] * x[i, j] + y[i, j] * y[i, j] < 4

        def element(i: Any, j: Any) -> Any:
            real_part = x[i, j] * x[i, j] - y[i, j] * y[i, j] + real(j) * (3 / w) - 2
            imaginary = 2 * x[i, j] * y[i, j] + real(i) * (2 / h) - 1
            more = tl.select(bounded(i, j), tl.cast(1, "int32"), tl.cast(0, "int32"))
            return tl.select(bounded(i, j), real_part, x[i, j]), tl.select(bounded(i, j), imaginary, y[i, j]), count[i, j] + more

        return tl.compute((h, w), element, name="next")

    start = tuple(
        tl.compute((h, w), lambda *_, kind=kind: tl.cast(0, kind), name=name)
        for name, kind in (("x", "float32"), ("y", "float32"), ("count", "int32"))
    )
    return tl.scan(step, start, 50, keep="last", name="mandelbrot")[2], ()


def _mandelbrot(out: Any) -> None:
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            cx, cy = np.float32(j) * np.float32(3 / w) - np.float32(2), np.float32(i) * np.float32(2 / h) - np.float32(1)
            x, y, count = np.float32(0), np.float32(0), 0
            while count < 50 and x * x + y * y < np.float32(4):
                x, y, count = x * x - y * y + cx, np.float32(2) * x * y + cy, count + 1
            out[i, j] = count


def running_sums() -> Made:
    """Sums along rows."""
    x = operand("X", 1000, 1000)
    return tl.recurrence((1000, 1000), lambda i, j, s: s[i, j - 1] + x[i, j], name="S"), (floats(1000, 1000),)


def _running_sums(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        total = np.float32(0)
        for j in range(x.shape[1]):
            total += x[i, j]
            out[i, j] = total


def filter_rows() -> Made:
    """A recursive filter of the second order, of 64 signals."""
    x = operand("X", 64, 4000)
    return tl.recurrence((64, 4000), lambda i, j, y: 0.2 * x[i, j] + 1.1 * y[i, j - 1] - 0.4 * y[i, j - 2], name="Y"), (floats(64, 4000),)


def _filter_rows(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        last, before = np.float32(0), np.float32(0)
        for j in range(x.shape[1]):
            last, before = np.float32(0.2) * x[i, j] + np.float32(1.1) * last - np.float32(0.4) * before, last
            out[i, j] = last


def vertical_advection() -> Made:
    """Tridiagonal systems down the columns of a field (Thomas): forwards, then backwards."""
    levels, columns = 80, 4096
    a, b, c, d = (operand(name, levels, columns) for name in "abcd")

    def forward(k: Any, i: Any, p: Any, q: Any) -> Any:
        pivot = b[k, i] - a[k, i] * p[k - 1, i]
        return c[k, i] / pivot, (d[k, i] - a[k, i] * q[k - 1, i]) / pivot

    p, q = tl.recurrence((levels, columns), forward, name="forward")
    back = tl.recurrence((levels, columns), lambda k, i, x: q[levels - 1 - k, i] - p[levels - 1 - k, i] * x[k - 1, i], name="back")
    found = tl.compute((levels, columns), lambda k, i: back[levels - 1 - k, i], name="X")
    field = (levels, columns)
    return found, (floats(*field), floats(*field) + 3, floats(*field), floats(*field))


def _vertical_advection(a: Any, b: Any, c: Any, d: Any, out: Any) -> None:
    levels, columns = a.shape
    p, q = np.empty((levels, columns), np.float32), np.empty((levels, columns), np.float32)
    for i in range(columns):
        p[0, i], q[0, i] = c[0, i] / b[0, i], d[0, i] / b[0, i]
    for k in range(1, levels):
        for i in range(columns):
            pivot = b[k, i] - a[k, i] * p[k - 1, i]
            p[k, i], q[k, i] = c[k, i] / pivot, (d[k, i] - a[k, i] * q[k - 1, i]) / pivot
    for i in range(columns):
        out[levels - 1, i] = q[levels - 1, i]
    for k in range(levels - 2, -1, -1):
        for i in range(columns):
            out[k, i] = q[k, i] - p[k, i] * out[k + 1, i]


def viterbi() -> Made:
    """Scores of the best paths through 64 states in 400 steps."""
    states, steps, k = 64, 400, tl.reduce_axis(64)
    change, seen = operand("A", states, states), operand("B", steps, states)

    def step(t: Any, best: Any) -> Any:
        return tl.compute((states,), lambda j: tl.max(best[k] + change[k, j], axis=k) + seen[t, j], name="best")

    last = tl.scan(step, operand("start", states), steps, keep="last", name="viterbi")
    return last, (floats(states, states), floats(steps, states), floats(states))


def _viterbi(change: Any, seen: Any, start: Any, out: Any) -> None:
    best, following = start.copy(), np.empty_like(start)
    for t in range(seen.shape[0]):
        following[:] = np.float32(-1e30)
        for k in range(best.shape[0]):
            for j in range(best.shape[0]):
                following[j] = max(following[j], best[k] + change[k, j])
        for j in range(best.shape[0]):
            best[j] = following[j] + seen[t, j]
    out[:] = best


def shortest_paths() -> Made:
    """Floyd and Warshall's paths between all of 200 nodes."""
    n = 200

    def step(t: Any, d: Any) -> Any:
        return tl.compute((n, n), lambda i, j: tl.minimum(d[i, j], d[i, t] + d[t, j]), name="next")

    return tl.scan(step, operand("D", n, n), n, keep="last", name="paths"), (floats(n, n),)


def _shortest_paths(d: Any, out: Any) -> None:
    n = d.shape[0]
    out[:] = d
    for t in range(n):
        for i in range(n):
            through = out[i, t]
            for j in range(n):
                out[i, j] = min(out[i, j], through + out[t, j])


def lstm() -> Made:
    """A layer of 128 cells over 60 steps."""
    steps, cells = 60, 128
    x, w, u, bias = operand("X", steps, cells), operand("W", 4 * cells, cells), operand("U", 4 * cells, cells), operand("b", 4 * cells)
    k, q = tl.reduce_axis(cells), tl.reduce_axis(cells)

    def step(t: Any, state: Any) -> Any:
        h, c = state
        given = tl.compute((4 * cells,), lambda i: tl.sum(w[i, k] * x[t, k], axis=k) + bias[i], name="given")
        gate = tl.compute((4 * cells,), lambda i: tl.sum(u[i, q] * h[q], axis=q) + given[i], name="gate")
        cell = tl.compute(
            (cells,),
            lambda i: tl.sigmoid(gate[cells + i]) * c[i] + tl.sigmoid(gate[i]) * tl.tanh(gate[2 * cells + i]),
            name="cell",
        )
        return tl.compute((cells,), lambda i: tl.sigmoid(gate[3 * cells + i]) * tl.tanh(cell[i]), name="hidden"), cell

    zeros = (tl.compute((cells,), lambda _: 0.0, name=name) for name in ("h", "c"))
    last = tl.scan(step, tuple(zeros), steps, keep="last", name="lstm")[0]
    return last, (floats(steps, cells), floats(4 * cells, cells) - 0.5, floats(4 * cells, cells) - 0.5, floats(4 * cells))


def _lstm(x: Any, w: Any, u: Any, bias: Any, out: Any) -> None:
    steps, cells = x.shape
    h, c, gate, one = np.zeros(cells, np.float32), np.zeros(cells, np.float32), np.empty(4 * cells, np.float32), np.float32(1)
    for t in range(steps):
        for i in range(4 * cells):
            total = bias[i]
            for k in range(cells):
                total += w[i, k] * x[t, k] + u[i, k] * h[k]
            gate[i] = total
        for i in range(cells):
            kept, taken = one / (one + np.exp(-gate[cells + i])), one / (one + np.exp(-gate[i]))
            c[i] = kept * c[i] + taken * np.tanh(gate[2 * cells + i])
            h[i] = one / (one + np.exp(-gate[3 * cells + i])) * np.tanh(c[i])
    out[:] = h


PROGRAMS: Final = named(
    (jacobi, _jacobi),
    (heat, _heat),
    (mandelbrot, _mandelbrot),
    (running_sums, _running_sums),
    (filter_rows, _filter_rows),
    (vertical_advection, _vertical_advection),
    (viterbi, _viterbi),
    (shortest_paths, _shortest_paths),
    (lstm, _lstm),
)
