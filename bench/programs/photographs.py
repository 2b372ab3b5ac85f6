"""Photographs: blurs of words, a histogram made even, corners, the brightest within a circle, a recursive filter.

The photographs are the two that scikit-learn ships, continued by their mirror images.
"""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, named, operand

HEIGHT, WIDTH = 1536, 2560
BINOMIAL: Final = (1, 4, 6, 4, 1)
STAGES: Final = 10
RADIUS: Final = 10
KEPT: Final = 0.1
"""What a recursive filter takes of a new element; the rest is what it had before."""


@functools.cache
def photograph(h: int, w: int, which: int = 0) -> Any:
    """A temple or a flower in bytes, h x w x 3. Raises `ImportError` without scikit-learn or Pillow."""
    from sklearn.datasets import load_sample_images  # noqa: PLC0415 - a second to load

    photo = load_sample_images().images[which]
    return np.pad(photo, ((0, h - photo.shape[0]), (0, w - photo.shape[1]), (0, 0)), mode="symmetric")


@functools.cache
def grey(h: int, w: int) -> Any:
    """The brightness of a photograph in bytes."""
    return (photograph(h, w).astype("int32") @ np.array([77, 150, 29], "int32") >> 8).astype("uint8")


def blur16() -> Made:
    """Means of 3 x 3 words as two sums of three, which do not leave their type."""
    h, w = HEIGHT, WIDTH
    x = operand("X", h + 2, w + 2, dtype="uint16")
    across = tl.compute((h + 2, w), lambda i, j: (x[i, j] + x[i, j + 1] + x[i, j + 2]) // 3, name="across")
    down = tl.compute((h, w), lambda i, j: (across[i, j] + across[i + 1, j] + across[i + 2, j]) // 3, name="down")
    return down, (grey(h + 2, w + 2).astype("uint16") * np.uint16(64),)


def _blur16(x: Any, out: Any) -> None:
    h, w = out.shape
    across = np.empty((h + 2, w), np.uint16)
    for i in range(h + 2):
        for j in range(w):
            across[i, j] = np.uint16(x[i, j] + x[i, j + 1] + x[i, j + 2]) // np.uint16(3)
    for i in range(h):
        for j in range(w):
            out[i, j] = np.uint16(across[i, j] + across[i + 1, j] + across[i + 2, j]) // np.uint16(3)


def chained() -> Made:
    """Ten binomial filters of 5 x 5 one after the other, each a sum of 25 words (after Halide's stencil_chain)."""
    h, w = HEIGHT, WIDTH

    def smoothed(x: Any, name: str) -> Any:
        def element(i: Any, j: Any) -> Any:
            return sum(BINOMIAL[a] * BINOMIAL[b] * x[i + a, j + b] for a, b in product(range(5), repeat=2)) >> 8

        return tl.compute((x.shape[0] - 4, x.shape[1] - 4), element, name=name)

    image = operand("X", h + 4 * STAGES, w + 4 * STAGES, dtype="uint16")
    for stage in range(STAGES):
        image = smoothed(image, f"stage{stage}")
    return image, (grey(h + 4 * STAGES, w + 4 * STAGES).astype("uint16"),)


def _chained(x: Any, out: Any) -> None:
    image, weights = x, np.array([1, 4, 6, 4, 1], np.uint16)
    for _ in range(10):
        h, w = image.shape[0] - 4, image.shape[1] - 4
        after = np.empty((h, w), np.uint16)
        for i in range(h):
            for j in range(w):
                total = np.uint32(0)
                for a in range(5):
                    for b in range(5):
                        total += np.uint32(weights[a]) * np.uint32(weights[b]) * np.uint32(image[i + a, j + b])
                after[i, j] = total >> 8
        image = after
    out[:] = image


def equalised() -> Made:
    """The brightness of a photograph spread so that its histogram is even: counts, their sums, a table."""
    h, w = HEIGHT, WIDTH
    x, i, j = operand("X", h, w, dtype="uint8"), tl.reduce_axis(h), tl.reduce_axis(w)
    none = tl.compute((256,), lambda _: tl.cast(0, "int32"), name="none")
    counts = tl.scatter(none, axes=(i, j), index=lambda i, j: x[i, j], value=lambda *_: tl.cast(1, "int32"), name="counts")
    up_to = tl.recurrence((256,), lambda v, total: total[v - 1] + counts[v], name="up_to", dtype="int32")
    table = tl.compute((256,), lambda v: tl.cast(up_to[v] * 255 // (h * w), "uint8"), name="table")
    return tl.compute((h, w), lambda i, j: table[x[i, j]], name="equalised"), (grey(h, w),)


def _equalised(x: Any, out: Any) -> None:
    h, w = x.shape
    counts, table, total = np.zeros(256, np.int32), np.empty(256, np.uint8), 0
    for i in range(h):
        for j in range(w):
            counts[x[i, j]] += 1
    for v in range(256):
        total += counts[v]
        table[v] = total * 255 // (h * w)
    for i in range(h):
        for j in range(w):
            out[i, j] = table[x[i, j]]


def corners() -> Made:
    """How much of a corner is at each pixel of a colour photograph (Harris and Stephens, 1988)."""
    h, w = HEIGHT, WIDTH
    x, a, b = operand("X", h + 4, w + 4, 3), tl.reduce_axis(3), tl.reduce_axis(3)
    g = tl.compute((h + 4, w + 4), lambda i, j: 0.299 * x[i, j, 0] + 0.587 * x[i, j, 1] + 0.114 * x[i, j, 2], name="g")

    def across(i: Any, j: Any) -> Any:
        return (g[i, j + 2] - g[i, j] + 2 * (g[i + 1, j + 2] - g[i + 1, j]) + g[i + 2, j + 2] - g[i + 2, j]) / 12

    def down(i: Any, j: Any) -> Any:
        return (g[i + 2, j] - g[i, j] + 2 * (g[i + 2, j + 1] - g[i, j + 1]) + g[i + 2, j + 2] - g[i, j + 2]) / 12

    dx, dy = tl.compute((h + 2, w + 2), across, name="dx"), tl.compute((h + 2, w + 2), down, name="dy")

    def window(p: Any, q: Any, name: str) -> Any:
        return tl.compute((h, w), lambda i, j: tl.sum(p[i + a, j + b] * q[i + a, j + b], axis=(a, b)), name=name)

    xx, yy, xy = window(dx, dx, "xx"), window(dy, dy, "yy"), window(dx, dy, "xy")

    def response(i: Any, j: Any) -> Any:
        trace = xx[i, j] + yy[i, j]
        return xx[i, j] * yy[i, j] - xy[i, j] * xy[i, j] - 0.04 * trace * trace

    return tl.compute((h, w), response, name="corners"), (photograph(h + 4, w + 4).astype("float32") / np.float32(255),)


def _corners(x: Any, out: Any) -> None:
    h, w = out.shape
    g = np.empty((h + 4, w + 4), np.float32)
    dx, dy = np.empty((h + 2, w + 2), np.float32), np.empty((h + 2, w + 2), np.float32)
    two, twelfth = np.float32(2), np.float32(1 / 12)
    for i in range(h + 4):
        for j in range(w + 4):
            g[i, j] = np.float32(0.299) * x[i, j, 0] + np.float32(0.587) * x[i, j, 1] + np.float32(0.114) * x[i, j, 2]
    for i in range(h + 2):
        for j in range(w + 2):
            right = g[i, j + 2] - g[i, j] + two * (g[i + 1, j + 2] - g[i + 1, j]) + g[i + 2, j + 2] - g[i + 2, j]
            below = g[i + 2, j] - g[i, j] + two * (g[i + 2, j + 1] - g[i, j + 1]) + g[i + 2, j + 2] - g[i, j + 2]
            dx[i, j], dy[i, j] = right * twelfth, below * twelfth
    for i in range(h):
        for j in range(w):
            xx, yy, xy = np.float32(0), np.float32(0), np.float32(0)
            for a in range(3):
                for b in range(3):
                    p, q = dx[i + a, j + b], dy[i + a, j + b]
                    xx, yy, xy = xx + p * p, yy + q * q, xy + p * q
            out[i, j] = xx * yy - xy * xy - np.float32(0.04) * (xx + yy) * (xx + yy)


def max_filter() -> Made:
    """The brightest within a circle of radius 10."""
    h, w, most = HEIGHT // 2, WIDTH // 2, 2 * RADIUS + 1
    x, a, b = operand("X", h + 2 * RADIUS, w + 2 * RADIUS, dtype="uint8"), tl.reduce_axis(most), tl.reduce_axis(most)
    inside = (a - RADIUS) * (a - RADIUS) + (b - RADIUS) * (b - RADIUS) <= RADIUS * RADIUS
    found = tl.compute((h, w), lambda i, j: tl.max(x[i + a, j + b], axis=(a, b), where=inside), name="brightest")
    return found, (grey(h + 2 * RADIUS, w + 2 * RADIUS),)


def _max_filter(x: Any, out: Any) -> None:
    h, w = out.shape
    for i in range(h):
        row = out[i]
        row[:] = 0
        for a in range(21):
            wide = int(np.sqrt(100 - (a - 10) * (a - 10)))
            for b in range(10 - wide, 11 + wide):
                near = x[i + a, b : b + w]
                for j in range(w):
                    row[j] = max(row[j], near[j])


def iir_blur() -> Made:
    """A blur that forgets exponentially: down and up the columns, then the same along the rows (after Halide's iir_blur)."""
    h, w = HEIGHT, WIDTH

    def turned(x: Any, name: str) -> Any:
        rows, columns = x.shape

        def down(i: Any, j: Any, y: Any) -> Any:
            return tl.select(i == 0, x[0, j], KEPT * x[i, j] + (1 - KEPT) * y[i - 1, j])

        falling = tl.recurrence((rows, columns), down, name=f"{name}_down")

        def up(i: Any, j: Any, y: Any) -> Any:
            return tl.select(i == 0, falling[rows - 1, j], KEPT * falling[rows - 1 - i, j] + (1 - KEPT) * y[i - 1, j])

        rising = tl.recurrence((rows, columns), up, name=f"{name}_up")
        return tl.compute((columns, rows), lambda j, i: rising[rows - 1 - i, j], name=f"{name}_turned")

    x = operand("X", h, w)
    return turned(turned(x, "columns"), "rows"), (grey(h, w).astype("float32") / np.float32(255),)


def _iir_blur(x: Any, out: Any) -> None:
    (h, w), new, old = x.shape, np.float32(0.1), np.float32(0.9)
    y = np.empty((h, w), np.float32)
    for j in range(w):
        y[0, j] = x[0, j]
    for i in range(1, h):
        for j in range(w):
            y[i, j] = new * x[i, j] + old * y[i - 1, j]
    for i in range(h - 2, -1, -1):
        for j in range(w):
            y[i, j] = new * y[i, j] + old * y[i + 1, j]
    for i in range(h):
        value = y[i, 0]
        for j in range(w):
            value = new * y[i, j] + old * value
            out[i, j] = value
        for j in range(w - 1, -1, -1):
            value = new * out[i, j] + old * value
            out[i, j] = value


PROGRAMS: Final = named(
    (blur16, _blur16),
    (chained, _chained),
    (equalised, _equalised),
    (corners, _corners),
    (max_filter, _max_filter),
    (iir_blur, _iir_blur),
)
