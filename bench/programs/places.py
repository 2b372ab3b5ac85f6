"""Places that floats tell, bytes that are put together otherwise, and filters in a row: what people write who have not read us."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real


def rings() -> Made:
    """NPBench's azimint: the mean of 20,000 numbers in each of 100 rings around a centre."""
    n, bins = 20_000, 100
    radius, data = operand("radius", n), operand("data", n)
    r, q = tl.reduce_axis(n), tl.reduce_axis(n)

    def ring(at: Any) -> Any:
        return tl.clamp(tl.cast(tl.floor(radius[at] * bins), "int32"), 0, bins - 1)

    none, zero = tl.compute((bins,), lambda _: 0.0, name="none"), tl.compute((bins,), lambda _: tl.cast(0, "int32"), name="zero")
    total = tl.scatter(none, (r,), ring, lambda r: data[r], name="total")
    count = tl.scatter(zero, (q,), ring, lambda _: tl.cast(1, "int32"), name="count")
    return tl.compute((bins,), lambda b: total[b] / real(tl.maximum(count[b], 1)), name="rings"), (floats(n), floats(n))


def _rings(radius: Any, data: Any, out: Any) -> None:
    bins = out.shape[0]
    total, count = np.zeros(bins, np.float32), np.zeros(bins, np.int32)
    for k in range(radius.shape[0]):
        ring = min(max(int(radius[k] * np.float32(bins)), 0), bins - 1)
        total[ring] += data[k]
        count[ring] += 1
    for ring in range(bins):
        out[ring] = total[ring] / np.float32(max(count[ring], 1))


def moments() -> Made:
    """The sum of an image, and where its middle is."""
    h, w = 480, 640
    x, i, j = operand("X", h, w), tl.reduce_axis(h), tl.reduce_axis(w)
    found = (
        tl.compute((), lambda: tl.sum(x[i, j], axis=(i, j)), name="mass"),
        tl.compute((), lambda: tl.sum(x[i, j] * real(i), axis=(i, j)), name="down"),
        tl.compute((), lambda: tl.sum(x[i, j] * real(j), axis=(i, j)), name="across"),
    )
    return found, (floats(h, w),)


def _moments(x: Any, mass: Any, down: Any, across: Any) -> None:
    all_of, rows, columns = np.float32(0), np.float32(0), np.float32(0)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            all_of += x[i, j]
            rows += np.float32(i) * x[i, j]
            columns += np.float32(j) * x[i, j]
    mass[()], down[()], across[()] = all_of, rows, columns


def bicubic() -> Made:
    """An image twice as large, each pixel of 4 x 4 by weights of its place (Keys 1981)."""
    h, w, rows, columns = 240, 320, 480, 640
    x, a, b = operand("X", h, w), tl.reduce_axis(4), tl.reduce_axis(4)

    def weight(far: Any) -> Any:
        near, other = (1.5 * far - 2.5) * far * far + 1, ((-0.5 * far + 2.5) * far - 4) * far + 2
        return tl.select(far < 1, near, tl.select(far < 2, other, 0.0))

    def pixel(i: Any, j: Any) -> Any:
        y, z = real(i) * (h / rows), real(j) * (w / columns)
        row, column = tl.cast(tl.floor(y), "int32") - 1 + a, tl.cast(tl.floor(z), "int32") - 1 + b
        seen = x[tl.clamp(row, 0, h - 1), tl.clamp(column, 0, w - 1)]
        return tl.sum(seen * weight(tl.abs(y - real(row))) * weight(tl.abs(z - real(column))), axis=(a, b))

    return tl.compute((rows, columns), pixel, name="bicubic"), (floats(h, w),)


def _bicubic(x: Any, out: Any) -> None:
    h, w = x.shape
    first, weights = np.empty((2, out.shape[1]), np.int64), np.empty((2, out.shape[1], 4), np.float32)
    for axis in range(2):
        for k in range(out.shape[axis]):
            place = np.float32(k) * np.float32(x.shape[axis] / out.shape[axis])
            first[axis, k] = int(np.floor(place)) - 1
            for tap in range(4):
                far = abs(place - np.float32(first[axis, k] + tap))
                weights[axis, k, tap] = ((np.float32(-0.5) * far + np.float32(2.5)) * far - np.float32(4)) * far + np.float32(2)
                if far < 1:
                    weights[axis, k, tap] = (np.float32(1.5) * far - np.float32(2.5)) * far * far + np.float32(1)
                if far >= 2:
                    weights[axis, k, tap] = np.float32(0)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = np.float32(0)
            for a in range(4):
                row = min(max(first[0, i] + a, 0), h - 1)
                part = np.float32(0)
                for b in range(4):
                    part += x[row, min(max(first[1, j] + b, 0), w - 1)] * weights[1, j, b]
                total += part * weights[0, i, a]
            out[i, j] = total


def letters() -> Made:
    """192,000 bytes as letters of six bits each (base 64)."""
    n = 192_000
    data, table = operand("data", n, dtype="uint8"), operand("table", 64, dtype="uint8")

    def letter(i: Any) -> Any:
        block, part = 3 * (i // 4), i % 4
        word = tl.cast(data[block], "uint32") << 16 | tl.cast(data[block + 1], "uint32") << 8 | tl.cast(data[block + 2], "uint32")
        return table[(word >> tl.cast(18 - 6 * part, "uint32")) & 63]

    spelled = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
    return tl.compute((n // 3 * 4,), letter, name="letters"), (integers(256, "uint8", n), spelled)


def _letters(data: Any, table: Any, out: Any) -> None:
    for block in range(data.shape[0] // 3):
        word = np.uint32(data[3 * block]) << 16 | np.uint32(data[3 * block + 1]) << 8 | np.uint32(data[3 * block + 2])
        out[4 * block] = table[(word >> 18) & 63]
        out[4 * block + 1] = table[(word >> 12) & 63]
        out[4 * block + 2] = table[(word >> 6) & 63]
        out[4 * block + 3] = table[word & 63]


def sections() -> Made:
    """A signal through four recursive filters of the second order, one after the other, in double precision."""
    n, stages = 20_000, 4
    x, c = operand("x", n, dtype="float64"), operand("c", stages, 5, dtype="float64")
    signal = x
    for stage in range(stages):

        def filtered(t: Any, y: Any, s: int = stage, x: Any = signal) -> Any:
            one, two = tl.select(t >= 1, x[t - 1], 0.0), tl.select(t >= 2, x[t - 2], 0.0)
            return c[s, 0] * x[t] + c[s, 1] * one + c[s, 2] * two - c[s, 3] * y[t - 1] - c[s, 4] * y[t - 2]

        signal = tl.recurrence((n,), lambda t, y, filtered=filtered: filtered(t, y), name=f"y{stage}")
    parts = np.array([[0.2, 0.4, 0.2, -0.5, 0.3], [0.3, 0.1, 0.3, -0.2, 0.4], [0.5, -0.2, 0.5, 0.1, 0.2], [0.9, 0.3, 0.1, -0.7, 0.5]])
    return signal, (floats(n).astype(np.float64) - 0.5, parts)


def _sections(x: Any, c: Any, out: Any) -> None:
    first, second = np.zeros(c.shape[0]), np.zeros(c.shape[0])
    for t in range(x.shape[0]):
        value = x[t]
        for s in range(c.shape[0]):
            y = c[s, 0] * value + first[s]
            first[s] = c[s, 1] * value - c[s, 3] * y + second[s]
            second[s] = c[s, 2] * value - c[s, 4] * y
            value = y
        out[t] = value


PROGRAMS: Final = named((rings, _rings), (moments, _moments), (bicubic, _bicubic), (letters, _letters), (sections, _sections))
