"""Programs that were written to find what the others do not show, and left as they are."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real


def affine_gaps() -> Made:
    """Scores of alignments whose gaps cost more to open than to go on (Gotoh)."""
    n = 600
    a, b = operand("a", n, dtype="int32"), operand("b", n, dtype="int32")

    def scores(i: Any, j: Any, h: Any, e: Any, f: Any) -> Any:
        left, up = tl.maximum(e[i, j - 1] - 1, h[i, j - 1] - 5), tl.maximum(f[i - 1, j] - 1, h[i - 1, j] - 5)
        same = tl.select(a[i] == b[j], tl.cast(2, "int32"), tl.cast(-3, "int32"))
        return tl.maximum(tl.maximum(0, h[i - 1, j - 1] + same), tl.maximum(left, up)), left, up

    return tl.recurrence((n, n), scores, name="H", dtype="int32"), (integers(4, "int32", n), integers(4, "int32", n))


def _affine_gaps(a: Any, b: Any, h: Any, e: Any, f: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            corner = h[i - 1, j - 1] if i > 0 and j > 0 else 0
            e[i, j] = max(e[i, j - 1] - 1, h[i, j - 1] - 5) if j > 0 else -1
            f[i, j] = max(f[i - 1, j] - 1, h[i - 1, j] - 5) if i > 0 else -1
            h[i, j] = max(0, corner + (2 if a[i] == b[j] else -3), e[i, j], f[i, j])


def knapsack() -> Made:
    """The most that 100 things are worth in a knapsack of each size."""
    things, most = 100, 5000
    weight, worth = operand("w", things, dtype="int32"), operand("v", things)

    def best(i: Any, j: Any, k: Any) -> Any:
        return tl.select(weight[i] <= j, tl.maximum(k[i - 1, j], k[i - 1, tl.maximum(j - weight[i], 0)] + worth[i]), k[i - 1, j])

    return tl.recurrence((things, most), best, name="K"), (integers(400, "int32", things) + 1, floats(things))


def _knapsack(weight: Any, worth: Any, out: Any) -> None:
    for i in range(weight.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = out[i - 1, j] if i > 0 else np.float32(0)
            if weight[i] <= j:
                out[i, j] = max(out[i, j], (out[i - 1, j - weight[i]] if i > 0 else np.float32(0)) + worth[i])


def neurons() -> Made:
    """How often each of 4096 neurons fires that leak, in 200 steps."""
    count, steps = 4096, 200
    given = operand("I", steps, count)

    def step(t: Any, state: Any) -> Any:
        charge, fired = state

        def element(i: Any) -> Any:
            now = 0.9 * charge[i] + given[t, i]
            return tl.select(now > 1, 0.0, now), fired[i] + tl.select(now > 1, tl.cast(1, "int32"), tl.cast(0, "int32"))

        return tl.compute((count,), element, name="next")

    start = tuple(tl.compute((count,), lambda _, kind=kind: tl.cast(0, kind), name=kind) for kind in ("float32", "int32"))
    return tl.scan(step, start, steps, keep="last", name="neurons")[1], (floats(steps, count) * np.float32(0.3),)


def _neurons(given: Any, out: Any) -> None:
    charge = np.zeros(out.shape[0], np.float32)
    out[:] = 0
    for t in range(given.shape[0]):
        for i in range(out.shape[0]):
            charge[i] = np.float32(0.9) * charge[i] + given[t, i]
            if charge[i] > np.float32(1):
                charge[i], out[i] = np.float32(0), out[i] + 1


def fdtd() -> Made:
    """PolyBench's fdtd-2d: three fields, twenty steps."""
    n = 300

    def step(t: Any, state: Any) -> Any:
        ex, ey, hz = state
        down = tl.compute(
            (n, n), lambda i, j: tl.select(i == 0, real(t), ey[i, j] - 0.5 * (hz[i, j] - hz[tl.maximum(i - 1, 0), j])), name="down"
        )
        across = tl.compute(
            (n, n), lambda i, j: tl.select(j == 0, ex[i, j], ex[i, j] - 0.5 * (hz[i, j] - hz[i, tl.maximum(j - 1, 0)])), name="across"
        )

        def field(i: Any, j: Any) -> Any:
            turned = across[i, tl.minimum(j + 1, n - 1)] - across[i, j] + down[tl.minimum(i + 1, n - 1), j] - down[i, j]
            return tl.select((i < n - 1) & (j < n - 1), hz[i, j] - 0.7 * turned, hz[i, j])

        return across, down, tl.compute((n, n), field, name="field")

    start = tuple(operand(name, n, n) for name in ("ex", "ey", "hz"))
    return tl.scan(step, start, 20, keep="last", name="fdtd"), tuple(floats(n, n) for _ in range(3))


def _fdtd(a: Any, b: Any, c: Any, ex: Any, ey: Any, hz: Any) -> None:
    ex[:], ey[:], hz[:] = a, b, c
    n, half, part = a.shape[0], np.float32(0.5), np.float32(0.7)
    for t in range(20):
        for j in range(n):
            ey[0, j] = t
        for i in range(1, n):
            for j in range(n):
                ey[i, j] -= half * (hz[i, j] - hz[i - 1, j])
        for i in range(n):
            for j in range(1, n):
                ex[i, j] -= half * (hz[i, j] - hz[i, j - 1])
        for i in range(n - 1):
            for j in range(n - 1):
                hz[i, j] -= part * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def normal_product() -> Made:
    """A transposed times A times a vector, by two products."""
    rows, columns = 1000, 1200
    a, x, k, q = operand("A", rows, columns), operand("x", columns), tl.reduce_axis(columns), tl.reduce_axis(rows)
    first = tl.compute((rows,), lambda i: tl.sum(a[i, k] * x[k], axis=k), name="first")
    return tl.compute((columns,), lambda j: tl.sum(a[q, j] * first[q], axis=q), name="y"), (floats(rows, columns), floats(columns))


def _normal_product(a: Any, x: Any, out: Any) -> None:
    out[:] = 0
    for i in range(a.shape[0]):
        total = np.float32(0)
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        for j in range(a.shape[1]):
            out[j] += a[i, j] * total


def folding() -> Made:
    """Nussinov's most pairs of a sequence of 120 bases, by length and beginning."""
    n = 120
    bases, k = operand("s", n, dtype="int32"), tl.reduce_axis(n)

    def pairs(length: Any, i: Any, most: Any) -> Any:
        whole = tl.minimum(i + length, n - 1)
        paired = tl.select(bases[i] + bases[whole] == 3, tl.cast(1, "int32"), tl.cast(0, "int32"))
        after = tl.minimum(i + 1, n - 1)
        inside = tl.select(length >= 2, most[length - 2, after], tl.cast(0, "int32")) + paired
        cut = tl.max(most[k, i] + most[length - 1 - k, tl.minimum(i + k + 1, n - 1)], axis=k, where=(k < length) & (i + length < n))
        found = tl.maximum(tl.maximum(tl.maximum(most[length - 1, after], most[length - 1, i]), inside), cut)
        return tl.select((length == 0) | (i + length >= n), tl.cast(0, "int32"), found)

    return tl.recurrence((n, n), pairs, name="N", dtype="int32"), (integers(4, "int32", n),)


def _folding(bases: Any, out: Any) -> None:
    n = bases.shape[0]
    for length in range(n):
        for i in range(n):
            if length == 0 or i + length >= n:
                out[length, i] = 0
                continue
            most = max(out[length - 1, i + 1], out[length - 1, i])
            most = max(most, (out[length - 2, i + 1] if length >= 2 else 0) + (1 if bases[i] + bases[i + length] == 3 else 0))
            for k in range(length):
                most = max(most, out[k, i] + out[length - 1 - k, i + k + 1])
            out[length, i] = most


def factors() -> Made:
    """Both triangular factors in one matrix (Crout)."""
    n = 150
    a, k = operand("A", n, n), tl.reduce_axis(n)

    def element(i: Any, j: Any, m: Any) -> Any:
        rest = a[i, j] - tl.sum(m[i, k] * m[k, j], axis=k, where=k < tl.minimum(i, j))
        return tl.select(j < i, rest / m[j, j], rest)

    return tl.recurrence((n, n), element, name="M"), (floats(n, n) + n * np.eye(n, dtype=np.float32),)


def _factors(a: Any, out: Any) -> None:
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            rest = a[i, j]
            for k in range(min(i, j)):
                rest -= out[i, k] * out[k, j]
            out[i, j] = rest / out[j, j] if j < i else rest


def reaction() -> Made:
    """Gray and Scott's reaction of two substances, twenty steps."""
    n = 256

    def step(_: Any, state: Any) -> Any:
        u, v = state

        def spread(x: Any, i: Any, j: Any) -> Any:
            rows = x[tl.clamp(i - 1, 0, n - 1), j] + x[tl.clamp(i + 1, 0, n - 1), j]
            return rows + x[i, tl.clamp(j - 1, 0, n - 1)] + x[i, tl.clamp(j + 1, 0, n - 1)] - 4 * x[i, j]

        def element(i: Any, j: Any) -> Any:
            rate = u[i, j] * v[i, j] * v[i, j]
            fed = u[i, j] + 0.16 * spread(u, i, j) - rate + 0.035 * (1 - u[i, j])
            return fed, v[i, j] + 0.08 * spread(v, i, j) + rate - 0.1 * v[i, j]

        return tl.compute((n, n), element, name="next")

    return tl.scan(step, (operand("U", n, n), operand("V", n, n)), 20, keep="last", name="reaction"), (floats(n, n), floats(n, n) / 4)


def _reaction(first: Any, second: Any, out_u: Any, out_v: Any) -> None:
    u, v, n, four, one = first.copy(), second.copy(), first.shape[0], np.float32(4), np.float32(1)
    next_u, next_v = np.empty_like(u), np.empty_like(v)
    for _ in range(20):
        for i in range(n):
            up, down = max(i - 1, 0), min(i + 1, n - 1)
            for j in range(n):
                left, right = max(j - 1, 0), min(j + 1, n - 1)
                rate = u[i, j] * v[i, j] * v[i, j]
                spread = u[up, j] + u[down, j] + u[i, left] + u[i, right] - four * u[i, j]
                next_u[i, j] = u[i, j] + np.float32(0.16) * spread - rate + np.float32(0.035) * (one - u[i, j])
                spread = v[up, j] + v[down, j] + v[i, left] + v[i, right] - four * v[i, j]
                next_v[i, j] = v[i, j] + np.float32(0.08) * spread + rate - np.float32(0.1) * v[i, j]
        u, next_u, v, next_v = next_u, u, next_v, v
    out_u[:], out_v[:] = u, v


def inverses() -> Made:
    """Of twenty thousand matrices of 3 x 3."""
    count = 20000
    a = operand("A", count, 3, 3)

    def element(b: Any, i: Any, j: Any) -> Any:
        def minor(p: Any, q: Any) -> Any:
            return a[b, p % 3, q % 3]

        first = a[b, 1, 1] * a[b, 2, 2] - a[b, 1, 2] * a[b, 2, 1]
        second = a[b, 1, 0] * a[b, 2, 2] - a[b, 1, 2] * a[b, 2, 0]
        third = a[b, 1, 0] * a[b, 2, 1] - a[b, 1, 1] * a[b, 2, 0]
        whole = a[b, 0, 0] * first - a[b, 0, 1] * second + a[b, 0, 2] * third
        return (minor(j + 1, i + 1) * minor(j + 2, i + 2) - minor(j + 1, i + 2) * minor(j + 2, i + 1)) / whole

    return tl.compute((count, 3, 3), element, name="inverse"), (floats(count, 3, 3) + 3 * np.eye(3, dtype=np.float32),)


def _inverses(a: Any, out: Any) -> None:
    for b in range(a.shape[0]):
        first = a[b, 1, 1] * a[b, 2, 2] - a[b, 1, 2] * a[b, 2, 1]
        second = a[b, 1, 0] * a[b, 2, 2] - a[b, 1, 2] * a[b, 2, 0]
        third = a[b, 1, 0] * a[b, 2, 1] - a[b, 1, 1] * a[b, 2, 0]
        part = np.float32(1) / (a[b, 0, 0] * first - a[b, 0, 1] * second + a[b, 0, 2] * third)
        for i in range(3):
            for j in range(3):
                p, q, r, s = (j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3
                out[b, i, j] = (a[b, p, r] * a[b, q, s] - a[b, p, s] * a[b, q, r]) * part


PROGRAMS: Final = named(
    (affine_gaps, _affine_gaps),
    (knapsack, _knapsack),
    (neurons, _neurons),
    (fdtd, _fdtd),
    (normal_product, _normal_product),
    (folding, _folding),
    (factors, _factors),
    (reaction, _reaction),
    (inverses, _inverses),
)
