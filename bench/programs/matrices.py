"""Matrices: symmetric, triangular and packed ones, updates of rank two, systems of Toeplitz, many small filters."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real


def rank_two() -> Made:
    """PolyBench's gemver: a matrix and two outer products, its transposed by a vector, and itself by what that gives."""
    n = 700
    a, u, v, s, t, y, z = operand("A", n, n), *(operand(name, n) for name in "uvstyz")
    k, q = tl.reduce_axis(n), tl.reduce_axis(n)
    b = tl.compute((n, n), lambda i, j: a[i, j] + u[i] * v[j] + s[i] * t[j], name="B")
    x = tl.compute((n,), lambda i: 1.2 * tl.sum(b[k, i] * y[k], axis=k) + z[i], name="x")
    w = tl.compute((n,), lambda i: 1.5 * tl.sum(b[i, q] * x[q], axis=q), name="w")
    return (b, x, w), (floats(n, n), *(floats(n) / n for _ in range(6)))


def _rank_two(a: Any, u: Any, v: Any, s: Any, t: Any, y: Any, z: Any, b: Any, x: Any, w: Any) -> None:
    n = a.shape[0]
    x[:] = z
    for i in range(n):
        for j in range(n):
            b[i, j] = a[i, j] + u[i] * v[j] + s[i] * t[j]
            x[j] += np.float32(1.2) * b[i, j] * y[i]
    for i in range(n):
        total = np.float32(0)
        for j in range(n):
            total += b[i, j] * x[j]
        w[i] = np.float32(1.5) * total


def symmetric_product() -> Made:
    """PolyBench's symm: a matrix of which only the lower triangle is stored times another one."""
    n, columns, k = 200, 240, tl.reduce_axis(200)
    a, b = operand("A", n, n), operand("B", n, columns)

    def element(i: Any, j: Any) -> Any:
        return tl.sum(a[tl.maximum(i, k), tl.minimum(i, k)] * b[k, j], axis=k)

    return tl.compute((n, columns), element, name="C"), (floats(n, n), floats(n, columns))


def _symmetric_product(a: Any, b: Any, out: Any) -> None:
    out[:] = np.float32(0)
    for i in range(a.shape[0]):
        for k in range(i):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
                out[k, j] += a[i, k] * b[i, j]
        for j in range(b.shape[1]):
            out[i, j] += a[i, i] * b[i, j]


def triangular_product() -> Made:
    """PolyBench's trmm: the transposed of a lower triangle with ones on its diagonal times a matrix."""
    n, columns, k = 200, 240, tl.reduce_axis(200)
    a, b = operand("A", n, n), operand("B", n, columns)
    product = tl.compute((n, columns), lambda i, j: b[i, j] + tl.sum(a[k, i] * b[k, j], axis=k, where=k > i), name="C")
    return product, (floats(n, n), floats(n, columns))


def _triangular_product(a: Any, b: Any, out: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = b[i, j]
        for k in range(i + 1, a.shape[0]):
            for j in range(b.shape[1]):
                out[i, j] += a[k, i] * b[k, j]


def toeplitz() -> Made:
    """The solution of a system of Yule and Walker, an equation more in each step (Levinson and Durbin; PolyBench's durbin)."""
    n, k = 400, tl.reduce_axis(400)
    r = operand("r", n)

    def step(t: Any, state: Any) -> Any:
        y, rest = state
        off = tl.compute((1,), lambda _: r[t] + tl.sum(r[t - k - 1] * y[k], axis=k, where=k < t), name="off")
        reflected = tl.compute((1,), lambda _: -off[0] / rest[0], name="reflected")

        def element(i: Any) -> Any:
            return tl.select(i < t, y[i] + reflected[0] * y[t - 1 - i], tl.select(i == t, reflected[0], 0.0))

        return tl.compute((n,), element, name="next"), tl.compute((1,), lambda _: rest[0] * (1 - reflected[0] * reflected[0]), name="rest")

    start = tl.compute((n,), lambda _: 0.0, name="zero"), tl.compute((1,), lambda _: 1.0, name="one")
    return tl.scan(step, start, n, keep="last", name="solution")[0], ((0.5 ** np.arange(1, n + 1)).astype("float32") + floats(n) / 1000,)


def _toeplitz(r: Any, out: Any) -> None:
    n = r.shape[0]
    following, rest = np.empty_like(r), np.float32(1)
    for t in range(n):
        off = r[t]
        for k in range(t):
            off += r[t - k - 1] * out[k]
        reflected = -off / rest
        rest *= np.float32(1) - reflected * reflected
        for k in range(t):
            following[k] = out[k] + reflected * out[t - 1 - k]
        for k in range(t):
            out[k] = following[k]
        out[t] = reflected


def tracking() -> Made:
    """A thousand filters of Kalman that follow places and speeds in the plane over fifty measurements."""
    many, steps = 1000, 50
    seen, k, m = operand("Z", steps, many, 2), tl.reduce_axis(4), tl.reduce_axis(4)
    move = tl.buffer(np.eye(4, dtype=np.float32) + 0.1 * np.eye(4, k=2, dtype=np.float32), name="F")

    def step(t: Any, state: Any) -> Any:
        x, p = state
        ahead = tl.compute((many, 4), lambda b, i: tl.sum(move[i, k] * x[b, k], axis=k), name="ahead")
        half = tl.compute((many, 4, 4), lambda b, i, j: tl.sum(move[i, k] * p[b, k, j], axis=k), name="half")
        wide = tl.compute(
            (many, 4, 4), lambda b, i, j: tl.sum(half[b, i, m] * move[j, m], axis=m) + tl.select(i == j, 0.01, 0.0), name="wide"
        )

        def gained(b: Any, i: Any) -> Any:
            """By the inverse of what the measurements are unsure of, 2 x 2."""
            s = [[wide[b, i, j] + (0.1 if i == j else 0.0) for j in range(2)] for i in range(2)]
            whole = s[0][0] * s[1][1] - s[0][1] * s[1][0]
            first = (wide[b, i, 0] * s[1][1] - wide[b, i, 1] * s[1][0]) / whole
            return first, (wide[b, i, 1] * s[0][0] - wide[b, i, 0] * s[0][1]) / whole

        left, right = tl.compute((many, 4), gained, name="gain")

        def place(b: Any, i: Any) -> Any:
            return ahead[b, i] + left[b, i] * (seen[t, b, 0] - ahead[b, 0]) + right[b, i] * (seen[t, b, 1] - ahead[b, 1])

        sure = tl.compute(
            (many, 4, 4), lambda b, i, j: wide[b, i, j] - left[b, i] * wide[b, 0, j] - right[b, i] * wide[b, 1, j], name="sure"
        )
        return tl.compute((many, 4), place, name="place"), sure

    start = tl.compute((many, 4), lambda *_: 0.0, name="x"), tl.compute((many, 4, 4), lambda b, i, j: tl.select(i == j, 1.0, 0.0), name="p")
    return tl.scan(step, start, steps, keep="last", name="tracks")[0], (floats(steps, many, 2),)


def _tracking(seen: Any, out: Any) -> None:
    steps, many, _ = seen.shape
    p, h, x, d, tenth = (
        np.empty((4, 4), np.float32),
        np.empty((4, 4), np.float32),
        np.empty(4, np.float32),
        np.float32(0.1),
        np.float32(0.1),
    )
    for b in range(many):
        for i in range(4):
            x[i] = np.float32(0)
            for j in range(4):
                p[i, j] = np.float32(1) if i == j else np.float32(0)
        for t in range(steps):
            for i in range(2):
                x[i] += d * x[i + 2]
                for j in range(4):
                    p[i, j] += d * p[i + 2, j]
            for i in range(4):
                for j in range(2):
                    p[i, j] += d * p[i, j + 2]
                p[i, i] += np.float32(0.01)
            a, c, e, f = p[0, 0] + tenth, p[0, 1], p[1, 0], p[1, 1] + tenth
            part, off, away = np.float32(1) / (a * f - c * e), seen[t, b, 0] - x[0], seen[t, b, 1] - x[1]
            for i in range(4):
                left, right = (p[i, 0] * f - p[i, 1] * e) * part, (p[i, 1] * a - p[i, 0] * c) * part
                x[i] += left * off + right * away
                for j in range(4):
                    h[i, j] = p[i, j] - left * p[0, j] - right * p[1, j]
            p[:] = h
        out[b] = x


def packed_weights() -> Made:
    """Products with weights of four bits, two in a byte, each thirty-two of which share a scale."""
    rows, depth, width, group, k = 8, 1024, 1024, 32, tl.reduce_axis(1024)
    x, packed, scale = operand("X", rows, depth), operand("P", width, depth // 2, dtype="uint8"), operand("S", width, depth // group)
    w = tl.compute(
        (width, depth),
        lambda j, k: (real((packed[j, k // 2] >> tl.cast(4 * (k % 2), "uint8")) & 15) - 8) * scale[j, k // group],
        name="W",
    )
    product = tl.compute((rows, width), lambda i, j: tl.sum(x[i, k] * w[j, k], axis=k), name="Y")
    return product, (floats(rows, depth), integers(256, "uint8", width, depth // 2), floats(width, depth // group) / 100)


def _packed_weights(x: Any, packed: Any, scale: Any, out: Any) -> None:
    rows, depth = x.shape
    w, eight = np.empty(depth, np.float32), np.float32(8)
    for j in range(packed.shape[0]):
        for k in range(depth // 2):
            w[2 * k] = (np.float32(packed[j, k] & 15) - eight) * scale[j, k // 16]
            w[2 * k + 1] = (np.float32(packed[j, k] >> 4) - eight) * scale[j, k // 16]
        for i in range(rows):
            total = np.float32(0)
            for k in range(depth):
                total += x[i, k] * w[k]
            out[i, j] = total


PROGRAMS: Final = named(
    (rank_two, _rank_two),
    (symmetric_product, _symmetric_product),
    (triangular_product, _triangular_product),
    (toeplitz, _toeplitz),
    (tracking, _tracking),
    (packed_weights, _packed_weights),
)
