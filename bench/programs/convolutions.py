"""Blocks of convolutions: one that is narrow, wide and narrow again, one of a diffusion model, one that doubles an image."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, named, operand


def mobile_block() -> Made:
    """A product that widens the channels, a filter of each, a product that narrows them, and what came in (MobileNet's block)."""
    n, narrow, wide = 28, 32, 192
    x, up, w, down = operand("X", n, n, narrow), operand("U", narrow, wide), operand("W", 3, 3, wide), operand("D", wide, narrow)
    k, q, a, b = tl.reduce_axis(narrow), tl.reduce_axis(wide), tl.reduce_axis(3), tl.reduce_axis(3)

    def limited(value: Any) -> Any:
        return tl.clamp(value, 0.0, 6.0)

    widened = tl.compute((n, n, wide), lambda i, j, c: limited(tl.sum(x[i, j, k] * up[k, c], axis=k)), name="widened")
    framed = tl.pad(widened, ((1, 1), (1, 1), (0, 0)))
    filtered = tl.compute((n, n, wide), lambda i, j, c: limited(tl.sum(framed[i + a, j + b, c] * w[a, b, c], axis=(a, b))), name="filtered")
    block = tl.compute((n, n, narrow), lambda i, j, c: x[i, j, c] + tl.sum(filtered[i, j, q] * down[q, c], axis=q), name="block")
    return block, (floats(n, n, narrow), floats(narrow, wide) - 0.5, floats(3, 3, wide) - 0.5, floats(wide, narrow) - 0.5)


def _mobile_block(x: Any, up: Any, w: Any, down: Any, out: Any) -> None:
    n, _, narrow = x.shape
    wide, zero, six = up.shape[1], np.float32(0), np.float32(6)
    framed, row = np.zeros((n + 2, n + 2, wide), np.float32), np.empty(wide, np.float32)
    for i in range(n):
        for j in range(n):
            for k in range(narrow):
                for c in range(wide):
                    framed[i + 1, j + 1, c] += x[i, j, k] * up[k, c]
            for c in range(wide):
                framed[i + 1, j + 1, c] = min(max(framed[i + 1, j + 1, c], zero), six)
    for i in range(n):
        for j in range(n):
            row[:], out[i, j] = zero, x[i, j]
            for a in range(3):
                for b in range(3):
                    for c in range(wide):
                        row[c] += framed[i + a, j + b, c] * w[a, b, c]
            for k in range(wide):
                value = min(max(row[k], zero), six)
                for c in range(narrow):
                    out[i, j, c] += value * down[k, c]


def diffusion_block() -> Made:
    """Groups of channels normalised, SiLU, and a convolution of 3 x 3, to which what came in is added."""
    n, channels, groups = 32, 64, 8
    each = channels // groups
    x, w, gain, bias = operand("X", channels, n, n), operand("W", channels, channels, 3, 3), operand("g", channels), operand("b", channels)
    d, i, j, k, a, b = (tl.reduce_axis(extent) for extent in (each, n, n, channels, 3, 3))
    mean = tl.compute((groups,), lambda g: tl.mean(x[g * each + d, i, j], axis=(d, i, j)), name="mean")
    spread = tl.compute((groups,), lambda g: tl.mean((x[g * each + d, i, j] - mean[g]) ** 2, axis=(d, i, j)), name="spread")

    def normal(c: Any, u: Any, v: Any) -> Any:
        return (x[c, u, v] - mean[c // each]) * tl.rsqrt(spread[c // each] + 1e-5) * gain[c] + bias[c]

    normed = tl.compute((channels, n, n), normal, name="normed")
    active = tl.compute((channels, n, n), lambda c, u, v: normed[c, u, v] * tl.sigmoid(normed[c, u, v]), name="active")
    framed = tl.pad(active, ((0, 0), (1, 1), (1, 1)))

    def element(c: Any, u: Any, v: Any) -> Any:
        return x[c, u, v] + tl.sum(framed[k, u + a, v + b] * w[c, k, a, b], axis=(k, a, b))

    given = floats(channels, n, n), (floats(channels, channels, 3, 3) - 0.5) / 10, floats(channels), floats(channels)
    return tl.compute((channels, n, n), element, name="block"), given


def _diffusion_block(x: Any, w: Any, gain: Any, bias: Any, out: Any) -> None:
    channels, n, _ = x.shape
    each, one, framed = channels // 8, np.float32(1), np.zeros((channels, n + 2, n + 2), np.float32)
    for g in range(8):
        mean, spread = np.float32(0), np.float32(0)
        for c in range(g * each, g * each + each):
            for u in range(n):
                for v in range(n):
                    mean += x[c, u, v]
        mean /= np.float32(each * n * n)
        for c in range(g * each, g * each + each):
            for u in range(n):
                for v in range(n):
                    spread += (x[c, u, v] - mean) * (x[c, u, v] - mean)
        scale = one / np.sqrt(spread / np.float32(each * n * n) + np.float32(1e-5))
        for c in range(g * each, g * each + each):
            for u in range(n):
                for v in range(n):
                    value = (x[c, u, v] - mean) * scale * gain[c] + bias[c]
                    framed[c, u + 1, v + 1] = value / (one + np.exp(-value))
    out[:] = x
    for c in range(channels):
        for k in range(channels):
            for a in range(3):
                for b in range(3):
                    for u in range(n):
                        for v in range(n):
                            out[c, u, v] += framed[k, u + a, v + b] * w[c, k, a, b]


def doubling_layer() -> Made:
    """A transposed convolution of 4 x 4 by strides of two, with a bias and what is positive of it (U-Net's way up)."""
    n, deep, wide = 16, 64, 32
    x, w, bias = operand("X", n, n, deep), operand("W", 4, 4, deep, wide), operand("b", wide)
    k, a, b = tl.reduce_axis(deep), tl.reduce_axis(2), tl.reduce_axis(2)
    framed = tl.pad(x, ((1, 1), (1, 1), (0, 0)))

    def element(i: Any, j: Any, c: Any) -> Any:
        down, right = (i + 1) % 2, (j + 1) % 2
        taken = framed[(i + 1) // 2 + 1 - a, (j + 1) // 2 + 1 - b, k] * w[down + 2 * a, right + 2 * b, k, c]
        return tl.maximum(tl.sum(taken, axis=(a, b, k)) + bias[c], 0)

    return tl.compute((2 * n, 2 * n, wide), element, name="doubled"), (floats(n, n, deep), floats(4, 4, deep, wide) - 0.5, floats(wide))


def _doubling_layer(x: Any, w: Any, bias: Any, out: Any) -> None:
    n, _, deep = x.shape
    for i in range(2 * n):
        for j in range(2 * n):
            out[i, j] = bias
    for i in range(n):
        for j in range(n):
            for a in range(max(0, 1 - 2 * i), min(4, 2 * n + 1 - 2 * i)):
                for b in range(max(0, 1 - 2 * j), min(4, 2 * n + 1 - 2 * j)):
                    for k in range(deep):
                        for c in range(w.shape[3]):
                            out[2 * i + a - 1, 2 * j + b - 1, c] += x[i, j, k] * w[a, b, k, c]
    for i in range(2 * n):
        for j in range(2 * n):
            for c in range(w.shape[3]):
                out[i, j, c] = max(out[i, j, c], np.float32(0))


PROGRAMS: Final = named(
    (mobile_block, _mobile_block),
    (diffusion_block, _diffusion_block),
    (doubling_layer, _doubling_layer),
)
