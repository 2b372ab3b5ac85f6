"""More images and signals: edges of bytes, dilation, a bilateral filter, pyramids, moving means, the game of life."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


def bilateral() -> Made:
    """A bilateral filter of 5 x 5, by differences of brightness alone."""
    h, w = 300, 400
    x, a, b = operand("X", h + 4, w + 4), tl.reduce_axis(5), tl.reduce_axis(5)

    def weight(i: Any, j: Any) -> Any:
        return tl.exp(-8.0 * (x[i + a, j + b] - x[i + 2, j + 2]) ** 2)

    total = tl.compute((h, w), lambda i, j: tl.sum(weight(i, j) * x[i + a, j + b], axis=(a, b)), name="total")
    weights = tl.compute((h, w), lambda i, j: tl.sum(weight(i, j), axis=(a, b)), name="weights")
    return tl.compute((h, w), lambda i, j: total[i, j] / weights[i, j], name="O"), (floats(h + 4, w + 4),)


def _bilateral(x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total, weights = np.float32(0), np.float32(0)
            for a in range(5):
                for b in range(5):
                    apart = x[i + a, j + b] - x[i + 2, j + 2]
                    weight = np.exp(np.float32(-8) * apart * apart)
                    total += weight * x[i + a, j + b]
                    weights += weight
            out[i, j] = total / weights


def edges() -> Made:
    """Sobel's edges of a colour image of bytes."""
    h, w = 480, 640
    image = operand("I", h + 2, w + 2, 3, dtype="uint8")

    def grey(i: Any, j: Any) -> Any:
        return sum(tl.cast(image[i, j, c], "int32") * part for c, part in enumerate((77, 150, 29))) >> 8

    g = tl.compute((h + 2, w + 2), grey, name="g")

    def element(i: Any, j: Any) -> Any:
        across = g[i, j + 2] - g[i, j] + 2 * (g[i + 1, j + 2] - g[i + 1, j]) + g[i + 2, j + 2] - g[i + 2, j]
        down = g[i + 2, j] - g[i, j] + 2 * (g[i + 2, j + 1] - g[i, j + 1]) + g[i + 2, j + 2] - g[i, j + 2]
        return tl.cast(tl.minimum(tl.abs(across) + tl.abs(down), 255), "uint8")

    return tl.compute((h, w), element, name="edges"), (integers(256, "uint8", h + 2, w + 2, 3),)


def _edges(image: Any, out: Any) -> None:
    h, w = out.shape
    g = np.empty((h + 2, w + 2), np.int32)
    for i in range(h + 2):
        for j in range(w + 2):
            g[i, j] = (np.int32(image[i, j, 0]) * 77 + np.int32(image[i, j, 1]) * 150 + np.int32(image[i, j, 2]) * 29) >> 8
    for i in range(h):
        for j in range(w):
            across = g[i, j + 2] - g[i, j] + 2 * (g[i + 1, j + 2] - g[i + 1, j]) + g[i + 2, j + 2] - g[i + 2, j]
            down = g[i + 2, j] - g[i, j] + 2 * (g[i + 2, j + 1] - g[i, j + 1]) + g[i + 2, j + 2] - g[i, j + 2]
            out[i, j] = min(abs(across) + abs(down), 255)


def dilation() -> Made:
    """The greatest of 3 x 3 bytes."""
    h, w = 480, 640
    image, a, b = operand("I", h + 2, w + 2, dtype="uint8"), tl.reduce_axis(3), tl.reduce_axis(3)
    most = tl.compute((h, w), lambda i, j: tl.max(image[i + a, j + b], axis=(a, b)), name="most")
    return most, (integers(256, "uint8", h + 2, w + 2),)


def _dilation(image: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            most = image[i, j]
            for a in range(3):
                for b in range(3):
                    most = max(most, image[i + a, j + b])
            out[i, j] = most


def halved() -> Made:
    """Means of 2 x 2."""
    x = operand("X", 960, 1280)

    def element(i: Any, j: Any) -> Any:
        return 0.25 * (x[2 * i, 2 * j] + x[2 * i, 2 * j + 1] + x[2 * i + 1, 2 * j] + x[2 * i + 1, 2 * j + 1])

    return tl.compute((480, 640), element, name="half"), (floats(960, 1280),)


def _halved(x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.float32(0.25) * (x[2 * i, 2 * j] + x[2 * i, 2 * j + 1] + x[2 * i + 1, 2 * j] + x[2 * i + 1, 2 * j + 1])


def doubled() -> Made:
    """An image of twice the size, by linear interpolation."""
    h, w = 240, 320
    x = operand("X", h + 1, w + 1)

    def element(i: Any, j: Any) -> Any:
        down, right = 0.5 * tl.cast(i % 2, "float32"), 0.5 * tl.cast(j % 2, "float32")
        above = x[i // 2, j // 2] * (1 - right) + x[i // 2, j // 2 + 1] * right
        below = x[i // 2 + 1, j // 2] * (1 - right) + x[i // 2 + 1, j // 2 + 1] * right
        return above * (1 - down) + below * down

    return tl.compute((2 * h, 2 * w), element, name="twice"), (floats(h + 1, w + 1),)


def _doubled(x: Any, out: Any) -> None:
    half, one = np.float32(0.5), np.float32(1)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            down, right = half * np.float32(i % 2), half * np.float32(j % 2)
            above = x[i // 2, j // 2] * (one - right) + x[i // 2, j // 2 + 1] * right
            below = x[i // 2 + 1, j // 2] * (one - right) + x[i // 2 + 1, j // 2 + 1] * right
            out[i, j] = above * (one - down) + below * down


def moving_means() -> Made:
    """Means of 32 neighbours in 64 signals."""
    x, k = operand("X", 64, 4031), tl.reduce_axis(32)
    return tl.compute((64, 4000), lambda i, j: tl.sum(x[i, j + k], axis=k) / 32, name="means"), (floats(64, 4031),)


def _moving_means(x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            total = np.float32(0)
            for k in range(32):
                total += x[i, j + k]
            out[i, j] = total / np.float32(32)


def smoothed() -> Made:
    """Means of two thousand signals that forget exponentially, a row for each moment."""
    x = operand("X", 500, 2000)
    return tl.recurrence((500, 2000), lambda i, j, y: 0.9 * y[i - 1, j] + 0.1 * x[i, j], name="Y"), (floats(500, 2000),)


def _smoothed(x: Any, out: Any) -> None:
    for j in range(x.shape[1]):
        out[0, j] = np.float32(0.1) * x[0, j]
    for i in range(1, x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = np.float32(0.9) * out[i - 1, j] + np.float32(0.1) * x[i, j]


def life() -> Made:
    """Twenty generations on a torus."""
    n = 256

    def step(_: Any, x: Any) -> Any:
        def element(i: Any, j: Any) -> Any:
            near = [x[(i + a + n) % n, (j + b + n) % n] for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b]
            count = near[0]
            for cell in near[1:]:
                count = count + cell
            lives = (count == 3) | ((count == 2) & (x[i, j] == 1))
            return tl.select(lives, tl.cast(1, "uint8"), tl.cast(0, "uint8"))

        return tl.compute((n, n), element, name="next")

    return tl.scan(step, operand("X", n, n, dtype="uint8"), 20, keep="last", name="life"), (integers(2, "uint8", n, n),)


def _life(start: Any, out: Any) -> None:
    n, x, y = start.shape[0], start.copy(), start.copy()
    for _ in range(20):
        for i in range(n):
            up, down = (i - 1) % n, (i + 1) % n
            for j in range(n):
                left, right = (j - 1 if j > 0 else n - 1), (j + 1 if j < n - 1 else 0)
                count = x[up, left] + x[up, j] + x[up, right] + x[i, left] + x[i, right] + x[down, left] + x[down, j] + x[down, right]
                y[i, j] = 1 if count == 3 or (count == 2 and x[i, j] == 1) else 0
        x, y = y, x
    out[:] = x


PROGRAMS: Final = named(
    (bilateral, _bilateral),
    (edges, _edges),
    (dilation, _dilation),
    (halved, _halved),
    (doubled, _doubled),
    (moving_means, _moving_means),
    (smoothed, _smoothed),
    (life, _life),
)
