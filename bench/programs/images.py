"""Images: stencils of bytes and words, tables, denoising, a histogram."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand, real

TAPS: Final = (0.06, 0.24, 0.4, 0.24, 0.06)
MEDIAN: Final = (
    *((1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8)),
    *((0, 3), (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2)),
)
"""Exchanges after which the fifth of nine is their median (Paeth, 1990)."""


def unsharp() -> Made:
    """A grey image and what a 5 x 5 blur leaves of it, repeated at the edge."""
    h, w = 1000, 1500
    x = operand("X", h, w, 3, dtype="uint8")
    gray = tl.compute((h, w), lambda i, j: 0.3 * real(x[i, j, 0]) + 0.59 * real(x[i, j, 1]) + 0.11 * real(x[i, j, 2]), name="gray")
    across = tl.compute((h, w), lambda i, j: sum(t * gray[i, tl.clamp(j + d - 2, 0, w - 1)] for d, t in enumerate(TAPS)), name="across")
    down = tl.compute((h, w), lambda i, j: sum(t * across[tl.clamp(i + d - 2, 0, h - 1), j] for d, t in enumerate(TAPS)), name="down")
    return tl.compute((h, w), lambda i, j: 2 * gray[i, j] - down[i, j], name="sharp"), (integers(256, "uint8", h, w, 3),)


def _unsharp(x: Any, out: Any) -> None:
    h, w, _ = x.shape
    gray, across = np.empty((h, w), np.float32), np.empty((h, w), np.float32)
    a, b, c = np.float32(0.06), np.float32(0.24), np.float32(0.4)
    for i in range(h):
        for j in range(w):
            gray[i, j] = np.float32(0.3) * x[i, j, 0] + np.float32(0.59) * x[i, j, 1] + np.float32(0.11) * x[i, j, 2]
        for j in range(2, w - 2):
            across[i, j] = a * (gray[i, j - 2] + gray[i, j + 2]) + b * (gray[i, j - 1] + gray[i, j + 1]) + c * gray[i, j]
        for j in (0, 1, w - 2, w - 1):
            far = gray[i, max(j - 2, 0)] + gray[i, min(j + 2, w - 1)]
            across[i, j] = a * far + b * (gray[i, max(j - 1, 0)] + gray[i, min(j + 1, w - 1)]) + c * gray[i, j]
    for i in range(h):
        up, above, below, bottom = max(i - 2, 0), max(i - 1, 0), min(i + 1, h - 1), min(i + 2, h - 1)
        for j in range(w):
            blurred = a * (across[up, j] + across[bottom, j]) + b * (across[above, j] + across[below, j]) + c * across[i, j]
            out[i, j] = np.float32(2) * gray[i, j] - blurred


def blur() -> Made:
    """Halide's first example: means of three along rows and columns, of words."""
    h, w = 1000, 1536
    x = operand("X", h + 2, w + 2, dtype="uint16")

    def mean(read: Any) -> Any:
        return tl.cast((tl.cast(read(0), "uint32") + read(1) + read(2)) // 3, "uint16")

    across = tl.compute((h + 2, w), lambda i, j: mean(lambda d: x[i, j + d]), name="across")
    return tl.compute((h, w), lambda i, j: mean(lambda d: across[i + d, j]), name="blur"), (integers(60_000, "uint16", h + 2, w + 2),)


def _blur(x: Any, out: Any) -> None:
    h, w = out.shape
    across = np.empty((h + 2, w), np.uint16)
    for i in range(h + 2):
        for j in range(w):
            across[i, j] = (np.uint32(x[i, j]) + np.uint32(x[i, j + 1]) + np.uint32(x[i, j + 2])) // np.uint32(3)
    for i in range(h):
        for j in range(w):
            out[i, j] = (np.uint32(across[i, j]) + np.uint32(across[i + 1, j]) + np.uint32(across[i + 2, j])) // np.uint32(3)


def demosaic() -> Made:
    """The green channel of a Bayer image: every other pixel is the mean of its neighbours."""
    h, w = 600, 800
    x = operand("X", h, w, dtype="uint16")

    def at(i: Any, j: Any) -> Any:
        return tl.cast(x[tl.clamp(i, 0, h - 1), tl.clamp(j, 0, w - 1)], "int32")

    def green(i: Any, j: Any) -> Any:
        around = (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) // 4
        return tl.cast(tl.select((i + j) % 2 == 0, at(i, j), around), "uint16")

    return tl.compute((h, w), green, name="green"), (integers(60_000, "uint16", h, w),)


def _demosaic(x: Any, out: Any) -> None:
    h, w = x.shape
    for i in range(h):
        above, below = max(i - 1, 0), min(i + 1, h - 1)
        for j in range(w):
            if (i + j) % 2 == 0:
                out[i, j] = x[i, j]
            else:
                around = np.int32(x[above, j]) + np.int32(x[below, j]) + np.int32(x[i, max(j - 1, 0)]) + np.int32(x[i, min(j + 1, w - 1)])
                out[i, j] = around // 4


def median() -> Made:
    """The median of 3 x 3 bytes, by exchanges."""
    h, w = 500, 800
    x = operand("X", h + 2, w + 2, dtype="uint8")

    def middle(i: Any, j: Any) -> Any:
        found = [x[i + a, j + b] for a, b in product(range(3), repeat=2)]
        for a, b in MEDIAN:
            found[a], found[b] = tl.minimum(found[a], found[b]), tl.maximum(found[a], found[b])
        return found[4]

    return tl.compute((h, w), middle, name="median"), (integers(256, "uint8", h + 2, w + 2),)


def _median(x: Any, out: Any) -> None:
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            v0, v1, v2, v3, v4 = x[i, j], x[i, j + 1], x[i, j + 2], x[i + 1, j], x[i + 1, j + 1]
            v5, v6, v7, v8 = x[i + 1, j + 2], x[i + 2, j], x[i + 2, j + 1], x[i + 2, j + 2]
            v1, v2, v4, v5, v7, v8 = min(v1, v2), max(v1, v2), min(v4, v5), max(v4, v5), min(v7, v8), max(v7, v8)
            v0, v1, v3, v4, v6, v7 = min(v0, v1), max(v0, v1), min(v3, v4), max(v3, v4), min(v6, v7), max(v6, v7)
            v1, v2, v4, v5, v7, v8 = min(v1, v2), max(v1, v2), min(v4, v5), max(v4, v5), min(v7, v8), max(v7, v8)
            v3, v5, v4, v7 = max(v0, v3), min(v5, v8), min(v4, v7), max(v4, v7)
            v6, v4, v2 = max(v3, v6), max(v1, v4), min(v2, v5)
            v4 = min(v4, v7)
            v4, v2 = min(v4, v2), max(v4, v2)
            out[i, j] = min(max(v6, v4), v2)


def non_local_means() -> Made:
    """Means of 5 x 5 neighbours, weighted by how alike the 3 x 3 pixels around them are."""
    h, w = 128, 160
    x, s, t, a, b = operand("X", h + 8, w + 8), *(tl.reduce_axis(extent) for extent in (5, 5, 3, 3))

    def apart(u: Any, v: Any, i: Any, j: Any) -> Any:
        return tl.sum((x[i + 3 + a, j + 3 + b] - x[i + 1 + u + a, j + 1 + v + b]) ** 2, axis=(a, b))

    apart_by = tl.compute((5, 5, h, w), apart, name="apart")
    weight = tl.compute((5, 5, h, w), lambda u, v, i, j: tl.exp(-4 * apart_by[u, v, i, j]), name="weight")
    total = tl.compute((h, w), lambda i, j: tl.sum(weight[s, t, i, j] * x[i + 2 + s, j + 2 + t], axis=(s, t)), name="total")
    weights = tl.compute((h, w), lambda i, j: tl.sum(weight[s, t, i, j], axis=(s, t)), name="weights")
    return tl.compute((h, w), lambda i, j: total[i, j] / weights[i, j], name="denoised"), (floats(h + 8, w + 8),)


def _non_local_means(x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total, weights = np.float32(0), np.float32(0)
            for s in range(5):
                for t in range(5):
                    apart = np.float32(0)
                    for a in range(3):
                        for b in range(3):
                            apart += (x[i + 3 + a, j + 3 + b] - x[i + 1 + s + a, j + 1 + t + b]) ** 2
                    weight = np.exp(np.float32(-4) * apart)
                    total += weight * x[i + 2 + s, j + 2 + t]
                    weights += weight
            out[i, j] = total / weights


def table() -> Made:
    """Bytes by a table."""
    x, found = operand("X", 1 << 20, dtype="uint8"), operand("T", 256, dtype="uint8")
    return tl.compute((1 << 20,), lambda i: found[x[i]], name="Y"), (integers(256, "uint8", 1 << 20), integers(256, "uint8", 256))


def _table(x: Any, found: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = found[x[i]]


def histogram() -> Made:
    """How often each byte occurs."""
    x, r = operand("X", 1 << 20, dtype="uint8"), tl.reduce_axis(1 << 20)
    none = tl.compute((256,), lambda _: tl.cast(0, "int32"), name="none")
    counts = tl.scatter(none, axes=(r,), index=lambda r: x[r], value=lambda r: tl.cast(1, "int32"), name="counts")
    return counts, (integers(256, "uint8", 1 << 20),)


def _histogram(x: Any, out: Any) -> None:
    out[:] = 0
    for r in range(x.shape[0]):
        out[x[r]] += 1


PROGRAMS: Final = named(
    (unsharp, _unsharp),
    (blur, _blur),
    (demosaic, _demosaic),
    (median, _median),
    (non_local_means, _non_local_means),
    (table, _table),
    (histogram, _histogram),
)
