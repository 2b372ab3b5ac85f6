"""Solvers: alternating directions, an inverse and an orthogonal basis by elimination, conjugate gradients, ranks of a graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand

COURANT: Final = 0.6
"""Of a half step of `alternating_directions`."""


def alternating_directions() -> Made:
    """Heat between cold walls, implicit along rows and along columns in turn (Peaceman and Rachford), ten steps."""
    n, r = 200, COURANT

    def known(x: Any, *near: Any) -> Any:
        """What a half step knows: differences along the other direction."""
        (i, j), (up, left), (down, right) = near
        before = tl.select((up >= 0) & (left >= 0), x[tl.maximum(up, 0), tl.maximum(left, 0)], 0.0)
        after = tl.select((down < n) & (right < n), x[tl.minimum(down, n - 1), tl.minimum(right, n - 1)], 0.0)
        return r * before + (1 - 2 * r) * x[i, j] + r * after

    def step(_: Any, x: Any) -> Any:
        def along(i: Any, j: Any, p: Any, q: Any) -> Any:
            pivot = 1 + 2 * r - r * p[i, j - 1]
            return r / pivot, (known(x, (i, j), (i - 1, j), (i + 1, j)) + r * q[i, j - 1]) / pivot

        p, q = tl.recurrence((n, n), along, name="along")
        back = tl.recurrence((n, n), lambda i, j, y: q[i, n - 1 - j] + p[i, n - 1 - j] * y[i, j - 1], name="back")
        half = tl.compute((n, n), lambda i, j: back[i, n - 1 - j], name="half")

        def down(i: Any, j: Any, p: Any, q: Any) -> Any:
            pivot = 1 + 2 * r - r * p[i - 1, j]
            return r / pivot, (known(half, (i, j), (i, j - 1), (i, j + 1)) + r * q[i - 1, j]) / pivot

        p_down, q_down = tl.recurrence((n, n), down, name="down")
        up = tl.recurrence((n, n), lambda i, j, y: q_down[n - 1 - i, j] + p_down[n - 1 - i, j] * y[i - 1, j], name="up")
        return tl.compute((n, n), lambda i, j: up[n - 1 - i, j], name="next")

    return tl.scan(step, operand("X", n, n), 10, keep="last", name="heat"), (floats(n, n),)


def _alternating_directions(x: Any, out: Any) -> None:
    n, r, one = x.shape[0], np.float32(COURANT), np.float32(1)
    two, zero = one + one, np.float32(0)
    half, p, q, line = np.empty_like(x), np.empty_like(x), np.empty_like(x), np.empty(n, np.float32)
    out[:] = x
    for _ in range(10):
        for i in range(n):
            last_p, last_q = zero, zero
            for j in range(n):
                near = (out[i - 1, j] if i > 0 else zero) + (out[i + 1, j] if i < n - 1 else zero)
                part = one / (one + two * r - r * last_p)
                last_q = (r * near + (one - two * r) * out[i, j] + r * last_q) * part
                last_p = r * part
                line[j], half[i, j] = last_p, last_q
            for j in range(n - 2, -1, -1):
                half[i, j] += line[j] * half[i, j + 1]
        for i in range(n):
            for j in range(n):
                near = (half[i, j - 1] if j > 0 else zero) + (half[i, j + 1] if j < n - 1 else zero)
                part = one / (one + two * r - (r * p[i - 1, j] if i > 0 else zero))
                p[i, j] = r * part
                q[i, j] = (r * near + (one - two * r) * half[i, j] + (r * q[i - 1, j] if i > 0 else zero)) * part
        for j in range(n):
            out[n - 1, j] = q[n - 1, j]
        for i in range(n - 2, -1, -1):
            for j in range(n):
                out[i, j] = q[i, j] + p[i, j] * out[i + 1, j]


def gauss_jordan() -> Made:
    """The inverse of a matrix in its place, by a sweep for each row; no rows are exchanged."""
    n = 200

    def step(t: Any, a: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            row = tl.select(j == t, 1 / a[t, t], a[t, j] / a[t, t])
            return tl.select(i == t, row, tl.select(j == t, 0.0, a[i, j]) - a[i, t] * row)

        return tl.compute((n, n), element, name="next")

    return tl.scan(step, operand("A", n, n), n, keep="last", name="inverse"), (floats(n, n) / n + np.eye(n, dtype=np.float32),)


def _gauss_jordan(a: Any, out: Any) -> None:
    n = a.shape[0]
    out[:] = a
    for t in range(n):
        pivot = np.float32(1) / out[t, t]
        out[t, t] = np.float32(1)
        for j in range(n):
            out[t, j] *= pivot
        for i in range(n):
            if i != t:
                factor = out[i, t]
                out[i, t] = np.float32(0)
                for j in range(n):
                    out[i, j] -= factor * out[t, j]


def gram_schmidt() -> Made:
    """An orthogonal basis of the columns of a matrix, a column at a time (modified Gram and Schmidt)."""
    rows, columns, k = 300, 100, tl.reduce_axis(300)

    def step(t: Any, a: Any) -> Any:
        length = tl.compute((1,), lambda _: tl.sqrt(tl.sum(a[k, t] * a[k, t], axis=k)), name="length")
        unit = tl.compute((rows,), lambda i: a[i, t] / length[0], name="unit")
        shadow = tl.compute((columns,), lambda j: tl.sum(unit[k] * a[k, j], axis=k), name="shadow")

        def element(i: Any, j: Any) -> Any:
            return tl.select(j == t, unit[i], tl.select(j > t, a[i, j] - unit[i] * shadow[j], a[i, j]))

        return tl.compute((rows, columns), element, name="next")

    return tl.scan(step, operand("A", rows, columns), columns, keep="last", name="Q"), (floats(rows, columns),)


def _gram_schmidt(a: Any, out: Any) -> None:
    rows, columns = a.shape
    shadow = np.empty(columns, np.float32)
    out[:] = a
    for t in range(columns):
        square = np.float32(0)
        for i in range(rows):
            square += out[i, t] * out[i, t]
        scale = np.float32(1) / np.sqrt(square)
        shadow[:] = np.float32(0)
        for i in range(rows):
            out[i, t] *= scale
            for j in range(t + 1, columns):
                shadow[j] += out[i, t] * out[i, j]
        for i in range(rows):
            for j in range(t + 1, columns):
                out[i, j] -= out[i, t] * shadow[j]


def conjugate_gradients() -> Made:
    """Ten steps towards the solution of Poisson's equation between walls."""
    n = 256
    i, j = tl.reduce_axis(n), tl.reduce_axis(n)

    def product(x: Any, y: Any, name: str) -> Any:
        return tl.compute((1,), lambda _: tl.sum(x[i, j] * y[i, j], axis=(i, j)), name=name)

    def step(_: Any, state: Any) -> Any:
        x, rest, way, square = state

        def curvature(a: Any, b: Any) -> Any:
            rows = tl.select(a > 0, way[tl.maximum(a - 1, 0), b], 0.0) + tl.select(a < n - 1, way[tl.minimum(a + 1, n - 1), b], 0.0)
            columns = tl.select(b > 0, way[a, tl.maximum(b - 1, 0)], 0.0) + tl.select(b < n - 1, way[a, tl.minimum(b + 1, n - 1)], 0.0)
            return 4 * way[a, b] - rows - columns

        bent = tl.compute((n, n), curvature, name="bent")
        slope = product(way, bent, "slope")
        nearer = tl.compute((n, n), lambda a, b: x[a, b] + square[0] / slope[0] * way[a, b], name="nearer")
        left = tl.compute((n, n), lambda a, b: rest[a, b] - square[0] / slope[0] * bent[a, b], name="left")
        smaller = product(left, left, "smaller")
        turned = tl.compute((n, n), lambda a, b: left[a, b] + smaller[0] / square[0] * way[a, b], name="turned")
        return nearer, left, turned, smaller

    given = operand("B", n, n)
    start = tl.compute((n, n), lambda *_: tl.cast(0, "float32"), name="start"), given, given, product(given, given, "square")
    return tl.scan(step, start, 10, keep="last", name="poisson")[0], (floats(n, n) - 0.5,)


def _conjugate_gradients(given: Any, x: Any) -> None:
    n, zero = given.shape[0], np.float32(0)
    rest, way, bent, square = given.copy(), given.copy(), np.empty_like(given), zero
    x[:] = zero
    for a in range(n):
        for b in range(n):
            square += rest[a, b] * rest[a, b]
    for _ in range(10):
        slope = zero
        for a in range(n):
            for b in range(n):
                near = (way[a - 1, b] if a > 0 else zero) + (way[a + 1, b] if a < n - 1 else zero)
                near += (way[a, b - 1] if b > 0 else zero) + (way[a, b + 1] if b < n - 1 else zero)
                bent[a, b] = np.float32(4) * way[a, b] - near
                slope += way[a, b] * bent[a, b]
        far, smaller = square / slope, zero
        for a in range(n):
            for b in range(n):
                x[a, b] += far * way[a, b]
                rest[a, b] -= far * bent[a, b]
                smaller += rest[a, b] * rest[a, b]
        turn, square = smaller / square, smaller
        for a in range(n):
            for b in range(n):
                way[a, b] = rest[a, b] + turn * way[a, b]


def page_rank() -> Made:
    """Ranks of the pages of a web after twenty steps: what those that link to a page hand on."""
    n, links = 5000, 40_000
    pointer, source, degree = operand("pointer", n + 1, dtype="int32"), operand("source", links, dtype="int32"), operand("degree", n)

    def step(_: Any, rank: Any) -> Any:
        share = tl.compute((n,), lambda i: rank[i] / degree[i], name="share")

        def element(i: Any) -> Any:
            k = tl.reduce_axis((pointer[i], pointer[i + 1]), within=links)
            return 0.15 + 0.85 * tl.sum(share[tl.clamp(source[k], 0, n - 1)], axis=k)

        return tl.compute((n,), element, name="next")

    start = tl.compute((n,), lambda _: tl.cast(1, "float32"), name="start")
    source_of, target_of = integers(n, "int32", links), np.sort(integers(n, "int32", links))
    given = np.searchsorted(target_of, np.arange(n + 1)).astype("int32"), source_of
    ranks = tl.scan(step, start, 20, keep="last", name="ranks")
    return ranks, (*given, np.maximum(np.bincount(source_of, minlength=n), 1).astype("float32"))


def _page_rank(pointer: Any, source: Any, degree: Any, out: Any) -> None:
    n = out.shape[0]
    share = np.empty(n, np.float32)
    out[:] = np.float32(1)
    for _ in range(20):
        for i in range(n):
            share[i] = out[i] / degree[i]
        for i in range(n):
            total = np.float32(0)
            for k in range(pointer[i], pointer[i + 1]):
                total += share[source[k]]
            out[i] = np.float32(0.15) + np.float32(0.85) * total


def two_grids() -> Made:
    """A cycle of two grids for Poisson's equation: red and black sweeps, the rest on half as many points, and its correction."""
    n = 256
    half, given = n // 2, operand("B", n, n)

    def around(x: Any, i: Any, j: Any, m: int) -> Any:
        """The sum of four neighbours; zero beyond the walls."""
        rows = tl.select(i > 0, x[tl.maximum(i - 1, 0), j], 0.0) + tl.select(i < m - 1, x[tl.minimum(i + 1, m - 1), j], 0.0)
        return rows + tl.select(j > 0, x[i, tl.maximum(j - 1, 0)], 0.0) + tl.select(j < m - 1, x[i, tl.minimum(j + 1, m - 1)], 0.0)

    def swept(x: Any, right: Any, m: int, name: str) -> Any:
        for colour in range(2):
            x = tl.compute(
                (m, m),
                lambda i, j, x=x, colour=colour: tl.select((i + j) % 2 == colour, 0.25 * (right[i, j] + around(x, i, j, m)), x[i, j]),
                name=f"{name}_{colour}",
            )
        return x

    near = swept(swept(tl.compute((n, n), lambda *_: 0.0, name="zero"), given, n, "first"), given, n, "second")
    rest = tl.compute((n, n), lambda i, j: given[i, j] + around(near, i, j, n) - 4 * near[i, j], name="rest")
    coarse = tl.compute((half, half), lambda i, j: sum(rest[2 * i + a, 2 * j + b] for a in range(2) for b in range(2)), name="coarse")
    error = tl.compute((half, half), lambda *_: 0.0, name="none")
    for sweep in range(4):
        error = swept(error, coarse, half, f"coarse_{sweep}")
    better = tl.compute((n, n), lambda i, j: near[i, j] + error[i // 2, j // 2], name="better")
    return swept(better, given, n, "last"), (floats(n, n) - 0.5,)


def _two_grids(given: Any, out: Any) -> None:
    n, quarter, four = given.shape[0], np.float32(0.25), np.float32(4)
    half = n // 2
    fine, right = np.zeros((n + 2, n + 2), np.float32), np.empty((half, half), np.float32)
    error = np.zeros((half + 2, half + 2), np.float32)
    for sweep in range(4):
        for i in range(1, n + 1):
            for j in range(1 + (i + 1 + sweep) % 2, n + 1, 2):
                fine[i, j] = quarter * (given[i - 1, j - 1] + fine[i - 1, j] + fine[i + 1, j] + fine[i, j - 1] + fine[i, j + 1])
    for i in range(half):
        for j in range(half):
            right[i, j] = np.float32(0)
            for a in range(2 * i + 1, 2 * i + 3):
                for b in range(2 * j + 1, 2 * j + 3):
                    near = fine[a - 1, b] + fine[a + 1, b] + fine[a, b - 1] + fine[a, b + 1]
                    right[i, j] += given[a - 1, b - 1] + near - four * fine[a, b]
    for sweep in range(8):
        for i in range(1, half + 1):
            for j in range(1 + (i + 1 + sweep) % 2, half + 1, 2):
                error[i, j] = quarter * (right[i - 1, j - 1] + error[i - 1, j] + error[i + 1, j] + error[i, j - 1] + error[i, j + 1])
    for i in range(n):
        for j in range(n):
            fine[i + 1, j + 1] += error[i // 2 + 1, j // 2 + 1]
    for sweep in range(2):
        for i in range(1, n + 1):
            for j in range(1 + (i + 1 + sweep) % 2, n + 1, 2):
                fine[i, j] = quarter * (given[i - 1, j - 1] + fine[i - 1, j] + fine[i + 1, j] + fine[i, j - 1] + fine[i, j + 1])
    out[:] = fine[1 : n + 1, 1 : n + 1]


PROGRAMS: Final = named(
    (alternating_directions, _alternating_directions),
    (gauss_jordan, _gauss_jordan),
    (gram_schmidt, _gram_schmidt),
    (conjugate_gradients, _conjugate_gradients),
    (page_rank, _page_rank),
    (two_grids, _two_grids),
)
