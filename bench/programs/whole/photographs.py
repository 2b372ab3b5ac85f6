"""`bench.programs.photographs` as arrays: shifted slices, rows before columns, a sum by index, rows in order."""

from __future__ import annotations

import math
from typing import Any, Final

from bench.programs.photographs import BINOMIAL, KEPT, RADIUS, STAGES
from bench.programs.whole.dialects import is_torch, scanned, summed


def _words(xp: Any, x: Any) -> Any:
    """Torch computes little in words without a sign."""
    return xp.astype(x, xp.int32) if is_torch(xp) else x


def blur16(xp: Any, x: Any) -> Any:
    """Sums of three slices."""
    x = _words(xp, x)
    across = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) // 3
    return xp.astype((across[:-2] + across[1:-1] + across[2:]) // 3, xp.uint16)


def chained(xp: Any, x: Any) -> Any:
    """The sums of 25 by rows, then by columns."""
    image = _words(xp, x)
    for _ in range(STAGES):
        h, w = image.shape[0] - 4, image.shape[1] - 4
        rows = sum(tap * image[d : d + h] for d, tap in enumerate(BINOMIAL))
        image = sum(tap * rows[:, d : d + w] for d, tap in enumerate(BINOMIAL)) >> 8
    return xp.astype(image, xp.uint16)


def equalised(xp: Any, x: Any) -> Any:
    """Ones, added up by index; sums; two gathers."""
    level = xp.astype(x, xp.int32)
    counts = summed(xp, 256, xp.reshape(level, (-1,)), xp.ones(x.shape[0] * x.shape[1], dtype=xp.int32))
    up_to = xp.cumulative_sum(counts, dtype=xp.int32)
    return xp.astype(up_to * 255 // (x.shape[0] * x.shape[1]), xp.uint8)[level]


def corners(xp: Any, x: Any) -> Any:  # noqa: ARG001 - as every form
    """Sobel's slices; the sums of 3 x 3 by rows, then by columns."""
    g = 0.299 * x[:, :, 0] + 0.587 * x[:, :, 1] + 0.114 * x[:, :, 2]
    dx = (g[:-2, 2:] - g[:-2, :-2] + 2 * (g[1:-1, 2:] - g[1:-1, :-2]) + g[2:, 2:] - g[2:, :-2]) / 12
    dy = (g[2:, :-2] - g[:-2, :-2] + 2 * (g[2:, 1:-1] - g[:-2, 1:-1]) + g[2:, 2:] - g[:-2, 2:]) / 12

    def window(p: Any) -> Any:
        rows = p[:-2] + p[1:-1] + p[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    xx, yy, xy = window(dx * dx), window(dy * dy), window(dx * dy)
    return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2


def max_filter(xp: Any, x: Any) -> Any:
    """The greatest of rows of each width, each from the one before it; then of those that the circle has."""
    h, w = x.shape[0] - 2 * RADIUS, x.shape[1] - 2 * RADIUS
    wide = [x[:, RADIUS : RADIUS + w]]
    for reach in range(1, RADIUS + 1):
        ends = xp.maximum(x[:, RADIUS - reach : RADIUS - reach + w], x[:, RADIUS + reach : RADIUS + reach + w])
        wide.append(xp.maximum(wide[-1], ends))
    found = wide[0][:h]
    for a in range(1, 2 * RADIUS + 1):
        found = xp.maximum(found, wide[math.isqrt(RADIUS**2 - (a - RADIUS) ** 2)][a : a + h])
    return found


def iir_blur(xp: Any, x: Any) -> Any:
    """A row after the other, forwards and backwards, and the same of what is turned."""

    def step(last: Any, row: Any) -> tuple[Any, Any]:
        now = KEPT * row + (1 - KEPT) * last
        return now, now

    for _ in range(2):
        down = scanned(xp, step, x[0], x)[1]
        x = xp.flip(scanned(xp, step, down[-1], xp.flip(down, axis=0))[1], axis=0).T
    return x


FORMS: Final = (blur16, chained, equalised, corners, max_filter, iir_blur)
