"""Filters of images and signals as their formulas are written: sums over windows, clamped to what there is."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand

CUBIC: Final = ((-0.0703, 0.8672, 0.2266, -0.0235), (-0.0235, 0.2266, 0.8672, -0.0703))
"""The weights of four neighbours a quarter, and three quarters, of the way between two of them (Keys, 1981)."""
DISPARITIES: Final = 32
RADIUS: Final = 4
"""How far a guided filter looks in each direction."""
GAUSS: Final = np.exp(-((np.arange(11) - 5) ** 2) / 4.5).astype(np.float32)
"""Weights of 11 neighbours, which a structural similarity takes the moments with."""


def window(*extents: int) -> tuple[Any, ...]:
    """The axes of a window."""
    return tuple(map(tl.reduce_axis, extents))


def averaged() -> Made:
    """Means of 5 x 5 pixels of three bytes, repeated at the edge."""
    h, w = 480, 640
    x, (a, b) = operand("X", h, w, 3, dtype="uint8"), window(5, 5)

    def mean(i: Any, j: Any, c: Any) -> Any:
        total = tl.sum(tl.cast(x[tl.clamp(i + a - 2, 0, h - 1), tl.clamp(j + b - 2, 0, w - 1), c], "int32"), axis=(a, b))
        return tl.cast(total // 25, "uint8")

    return tl.compute((h, w, 3), mean, name="averaged"), (integers(256, "uint8", h, w, 3),)


def _averaged(x: Any, out: Any) -> None:
    h, w, _ = x.shape
    for i in range(h):
        for j in range(w):
            for c in range(3):
                total = 0
                for a in range(5):
                    for b in range(5):
                        total += x[min(max(i + a - 2, 0), h - 1), min(max(j + b - 2, 0), w - 1), c]
                out[i, j, c] = total // 25


def sharpened() -> Made:
    """A 3 x 3 filter of pixels of three channels, repeated at the edge and kept between 0 and 1."""
    h, w = 480, 640
    x, g, (a, b) = operand("X", h, w, 3), operand("G", 3, 3), window(3, 3)

    def value(i: Any, j: Any, c: Any) -> Any:
        near = x[tl.clamp(i + a - 1, 0, h - 1), tl.clamp(j + b - 1, 0, w - 1), c]
        return tl.clamp(tl.sum(g[a, b] * near, axis=(a, b)), 0.0, 1.0)

    return tl.compute((h, w, 3), value, name="sharpened"), (floats(h, w, 3), floats(3, 3) - np.float32(0.4))


def _sharpened(x: Any, g: Any, out: Any) -> None:
    h, w, _ = x.shape
    for i in range(h):
        for j in range(w):
            for c in range(3):
                total = np.float32(0)
                for a in range(3):
                    for b in range(3):
                        total += g[a, b] * x[min(max(i + a - 1, 0), h - 1), min(max(j + b - 1, 0), w - 1), c]
                out[i, j, c] = min(max(total, np.float32(0)), np.float32(1))


def guided() -> Made:
    """An image smoothed except where another has edges (He, Sun and Tang, 2010)."""
    h, w, size = 240, 320, 2 * RADIUS + 1
    guide, image = operand("I", h, w), operand("P", h, w)

    def mean(of: Any, name: str) -> Any:
        a, b = (tl.reduce_axis((-RADIUS, RADIUS + 1)) for _ in range(2))

        def value(i: Any, j: Any) -> Any:
            return tl.sum(of(tl.clamp(i + a, 0, h - 1), tl.clamp(j + b, 0, w - 1)), axis=(a, b)) * (1.0 / size**2)

        return tl.compute((h, w), value, name=name)

    light, grey = mean(lambda i, j: guide[i, j], "light"), mean(lambda i, j: image[i, j], "grey")
    squares, both = mean(lambda i, j: guide[i, j] * guide[i, j], "squares"), mean(lambda i, j: guide[i, j] * image[i, j], "both")

    def slope(i: Any, j: Any) -> Any:
        return (both[i, j] - light[i, j] * grey[i, j]) / (squares[i, j] - light[i, j] * light[i, j] + 0.01)

    steep = tl.compute((h, w), slope, name="steep")
    base = tl.compute((h, w), lambda i, j: grey[i, j] - steep[i, j] * light[i, j], name="base")
    steepness, level = mean(lambda i, j: steep[i, j], "steepness"), mean(lambda i, j: base[i, j], "level")
    result = tl.compute((h, w), lambda i, j: steepness[i, j] * guide[i, j] + level[i, j], name="guided")
    return result, (floats(h, w), floats(h, w))


def _guided(guide: Any, image: Any, out: Any) -> None:
    h, w = guide.shape
    share = np.float32(1 / (2 * RADIUS + 1) ** 2)
    steep, base = np.empty((h, w), np.float32), np.empty((h, w), np.float32)
    for i in range(h):
        for j in range(w):
            light, grey, squares, both = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for a in range(-RADIUS, RADIUS + 1):
                for b in range(-RADIUS, RADIUS + 1):
                    y, x = min(max(i + a, 0), h - 1), min(max(j + b, 0), w - 1)
                    light += guide[y, x]
                    grey += image[y, x]
                    squares += guide[y, x] * guide[y, x]
                    both += guide[y, x] * image[y, x]
            light, grey = light * share, grey * share
            steep[i, j] = (both * share - light * grey) / (squares * share - light * light + np.float32(0.01))
            base[i, j] = grey - steep[i, j] * light
    for i in range(h):
        for j in range(w):
            steepness, level = np.float32(0), np.float32(0)
            for a in range(-RADIUS, RADIUS + 1):
                for b in range(-RADIUS, RADIUS + 1):
                    y, x = min(max(i + a, 0), h - 1), min(max(j + b, 0), w - 1)
                    steepness += steep[y, x]
                    level += base[y, x]
            out[i, j] = steepness * share * guide[i, j] + level * share


def similarity() -> Made:
    """How alike two images are around each pixel (Wang, Bovik, Sheikh and Simoncelli, 2004)."""
    h, w = 246, 246
    x, y, g = operand("X", h + 10, w + 10), operand("Y", h + 10, w + 10), operand("G", 11)

    def moment(of: Any, name: str) -> Any:
        a, b = window(11, 11)
        return tl.compute((h, w), lambda i, j: tl.sum(g[a] * g[b] * of(i + a, j + b), axis=(a, b)), name=name)

    p, q = moment(lambda i, j: x[i, j], "p"), moment(lambda i, j: y[i, j], "q")
    pp, qq = moment(lambda i, j: x[i, j] * x[i, j], "pp"), moment(lambda i, j: y[i, j] * y[i, j], "qq")
    pq = moment(lambda i, j: x[i, j] * y[i, j], "pq")

    def alike(i: Any, j: Any) -> Any:
        u, v = p[i, j], q[i, j]
        apart = (u * u + v * v + 1e-4) * (pp[i, j] - u * u + qq[i, j] - v * v + 9e-4)
        return (2 * u * v + 1e-4) * (2 * (pq[i, j] - u * v) + 9e-4) / apart

    weights = GAUSS / GAUSS.sum()
    return tl.compute((h, w), alike, name="similarity"), (floats(h + 10, w + 10), floats(h + 10, w + 10), weights)


def _similarity(x: Any, y: Any, g: Any, out: Any) -> None:
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            u, v, pp, qq, pq = np.float32(0), np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for a in range(11):
                for b in range(11):
                    k, p, q = g[a] * g[b], x[i + a, j + b], y[i + a, j + b]
                    u += k * p
                    v += k * q
                    pp += k * p * p
                    qq += k * q * q
                    pq += k * p * q
            near, apart = np.float32(1e-4), np.float32(9e-4)
            below = (u * u + v * v + near) * (pp - u * u + qq - v * v + apart)
            out[i, j] = (2 * u * v + near) * (2 * (pq - u * v) + apart) / below


def matched() -> Made:
    """How far each pixel of a left image is displaced in the right one: the least sum of differences over 5 x 5."""
    h, w, most = 196, 296, DISPARITIES
    left, right = operand("L", h + 4, w + 4 + most), operand("R", h + 4, w + 4 + most)
    (a, b), s = window(5, 5), tl.reduce_axis(most)

    def apart(i: Any, j: Any, d: Any) -> Any:
        return tl.sum(tl.abs(left[i + a, j + b + most] - right[i + a, j + b + most - d]), axis=(a, b))

    cost = tl.compute((h, w, most), apart, name="cost")
    found = tl.compute((h, w), lambda i, j: tl.argmin(cost[i, j, s], axis=s), name="matched")
    return found, (floats(h + 4, w + 4 + most), floats(h + 4, w + 4 + most))


def _matched(left: Any, right: Any, out: Any) -> None:
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            least, at = np.float32(math.inf), 0
            for d in range(DISPARITIES):
                total = np.float32(0)
                for a in range(5):
                    for b in range(5):
                        total += abs(left[i + a, j + b + DISPARITIES] - right[i + a, j + b + DISPARITIES - d])
                if total < least:
                    least, at = total, d
            out[i, j] = at


def decimated() -> Made:
    """Every fourth element of a filter of 64 taps."""
    n, taps = 65_536, 64
    x, f, k = operand("X", 4 * n + taps), operand("F", taps), tl.reduce_axis(taps)
    result = tl.compute((n,), lambda i: tl.sum(x[4 * i + k] * f[k], axis=k), name="decimated")
    return result, (floats(4 * n + taps), floats(taps))


def _decimated(x: Any, f: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        total = np.float32(0)
        for k in range(f.shape[0]):
            total += x[4 * i + k] * f[k]
        out[i] = total


def enlarged() -> Made:
    """An image of twice the size, each pixel from 4 x 4 of the image, repeated at the edge."""
    h, w = 200, 240
    x, f, (a, b) = operand("X", h, w), operand("F", 2, 4), window(4, 4)

    def value(i: Any, j: Any) -> Any:
        near = x[tl.clamp((i + 1) // 2 + a - 2, 0, h - 1), tl.clamp((j + 1) // 2 + b - 2, 0, w - 1)]
        return tl.sum(f[i % 2, a] * f[j % 2, b] * near, axis=(a, b))

    return tl.compute((2 * h, 2 * w), value, name="enlarged"), (floats(h, w), np.array(CUBIC, np.float32))


def _enlarged(x: Any, f: Any, out: Any) -> None:
    h, w = x.shape
    for i in range(2 * h):
        for j in range(2 * w):
            total = np.float32(0)
            for a in range(4):
                for b in range(4):
                    near = x[min(max((i + 1) // 2 + a - 2, 0), h - 1), min(max((j + 1) // 2 + b - 2, 0), w - 1)]
                    total += f[i % 2, a] * f[j % 2, b] * near
            out[i, j] = total


PROGRAMS: Final = named(
    (averaged, _averaged),
    (sharpened, _sharpened),
    (guided, _guided),
    (similarity, _similarity),
    (matched, _matched),
    (decimated, _decimated),
    (enlarged, _enlarged),
)
