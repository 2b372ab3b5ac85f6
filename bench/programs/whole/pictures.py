"""`bench.programs.pictures` as arrays: shifted slices, images put together from four, rolls on a torus."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from bench.programs.whole.dialects import scanned, stepped


def bilateral(xp: Any, x: Any) -> Any:
    """A shift at a time."""
    h, w = x.shape[0] - 4, x.shape[1] - 4
    total, weights = xp.zeros((h, w), dtype=x.dtype), xp.zeros((h, w), dtype=x.dtype)
    for a, b in product(range(5), repeat=2):
        shifted = x[a : a + h, b : b + w]
        weight = xp.exp(-8.0 * (shifted - x[2:-2, 2:-2]) ** 2)
        total, weights = total + weight * shifted, weights + weight
    return total / weights


def edges(xp: Any, image: Any) -> Any:
    """Sobel's slices."""
    parts = xp.asarray([77, 150, 29], dtype=xp.int32)
    g = xp.sum(xp.astype(image, xp.int32) * parts, axis=2, dtype=xp.int32) >> 8
    across = g[:-2, 2:] - g[:-2, :-2] + 2 * (g[1:-1, 2:] - g[1:-1, :-2]) + g[2:, 2:] - g[2:, :-2]
    down = g[2:, :-2] - g[:-2, :-2] + 2 * (g[2:, 1:-1] - g[:-2, 1:-1]) + g[2:, 2:] - g[:-2, 2:]
    total = xp.abs(across) + xp.abs(down)
    return xp.astype(xp.minimum(total, xp.full_like(total, 255)), xp.uint8)


def dilation(xp: Any, image: Any) -> Any:
    """The greatest of rows, then of columns."""
    rows = xp.maximum(xp.maximum(image[:-2], image[1:-1]), image[2:])
    return xp.maximum(xp.maximum(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:])


def halved(xp: Any, x: Any) -> Any:  # noqa: ARG001 - as every form
    """Four images of every other pixel."""
    return 0.25 * (x[::2, ::2] + x[::2, 1::2] + x[1::2, ::2] + x[1::2, 1::2])


def doubled(xp: Any, x: Any) -> Any:
    """The pixels and those between them, row by row and within rows."""
    h, w = x.shape[0] - 1, x.shape[1] - 1

    def widened(rows: Any) -> Any:
        return xp.reshape(xp.stack([rows[:, :-1], 0.5 * (rows[:, :-1] + rows[:, 1:])], axis=2), (h, 2 * w))

    return xp.reshape(xp.stack([widened(x[:-1]), widened(0.5 * (x[:-1] + x[1:]))], axis=1), (2 * h, 2 * w))


def moving_means(xp: Any, x: Any) -> Any:  # noqa: ARG001 - as every form
    """Thirty-two slices."""
    return sum(x[:, k : k + 4000] for k in range(32)) / 32


def smoothed(xp: Any, x: Any) -> Any:
    """A row after the other."""

    def step(last: Any, row: Any) -> tuple[Any, Any]:
        now = 0.9 * last + 0.1 * row
        return now, now

    return scanned(xp, step, xp.zeros_like(x[0]), x)[1]


def life(xp: Any, start: Any) -> Any:
    """Rolls along both axes."""

    def step(_: Any, x: Any) -> Any:
        rows = x + xp.roll(x, 1, axis=0) + xp.roll(x, -1, axis=0)
        count = rows + xp.roll(rows, 1, axis=1) + xp.roll(rows, -1, axis=1) - x
        return xp.astype((count == 3) | ((count == 2) & (x == 1)), xp.uint8)

    return stepped(xp, 20, step, start)


FORMS: Final = (bilateral, edges, dilation, halved, doubled, moving_means, smoothed, life)
