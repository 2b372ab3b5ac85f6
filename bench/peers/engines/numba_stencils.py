"""The loops over images that Numba compiles: operands, the result, attributes."""

from __future__ import annotations

from typing import Any

import numpy as np


def depthwise(x: Any, w: Any, out: Any, stride: int, padding: int) -> None:
    """A channel with its border at a time, in it a row, in it a weight."""
    height, width = x.shape[2:]
    columns = out.shape[3]
    image = np.zeros((height + 2 * padding, width + 2 * padding), np.float32)
    for c in range(out.shape[1]):
        image[padding : padding + height, padding : padding + width] = x[0, c]
        for y in range(out.shape[2]):
            row = out[0, c, y]
            row[:] = 0
            for r in range(w.shape[2]):
                for s in range(w.shape[3]):
                    weight, line = w[c, 0, r, s], image[y * stride + r]
                    if stride == 1:
                        part = line[s : s + columns]  # without a step, so that it runs on vectors
                        for u in range(columns):
                            row[u] += weight * part[u]
                    else:
                        for u in range(columns):
                            row[u] += weight * line[u * stride + s]


def jacobi(a: Any, out: Any, steps: int) -> None:
    """Two images in turns."""
    out[...] = a
    other = a.copy()
    old, new = (out, other) if steps % 2 == 0 else (other, out)
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                new[i, j] = np.float32(0.2) * (old[i, j] + old[i, j - 1] + old[i, j + 1] + old[i - 1, j] + old[i + 1, j])
        old, new = new, old


def harris(rgb: Any, out: Any) -> None:
    """A row at a time: rings of three rows hold grey and the products of its slopes."""
    height, width = rgb.shape[1], rgb.shape[2]
    grey = np.empty((3, width), np.float32)
    products, sums = np.empty((3, 3, width), np.float32), np.empty((3, width), np.float32)
    twelfth = np.float32(1 / 12)
    for y in range(height):
        for j in range(width):
            grey[y % 3, j] = np.float32(0.299) * rgb[0, y, j] + np.float32(0.587) * rgb[1, y, j] + np.float32(0.114) * rgb[2, y, j]
        if y < 2:
            continue
        top, middle, low, ring = grey[(y - 2) % 3], grey[(y - 1) % 3], grey[y % 3], products[y % 3]
        for j in range(width - 2):
            dx = (top[j + 2] - top[j] + np.float32(2) * (middle[j + 2] - middle[j]) + low[j + 2] - low[j]) * twelfth
            dy = (low[j] - top[j] + np.float32(2) * (low[j + 1] - top[j + 1]) + low[j + 2] - top[j + 2]) * twelfth
            ring[0, j], ring[1, j], ring[2, j] = dx * dx, dy * dy, dx * dy
        if y < 4:
            continue
        sums[...] = products[0] + products[1] + products[2]
        for j in range(width - 4):
            xx = sums[0, j] + sums[0, j + 1] + sums[0, j + 2]
            yy = sums[1, j] + sums[1, j + 1] + sums[1, j + 2]
            xy = sums[2, j] + sums[2, j + 1] + sums[2, j + 2]
            trace = xx + yy
            out[y - 4, j] = xx * yy - xy * xy - np.float32(0.04) * trace * trace
