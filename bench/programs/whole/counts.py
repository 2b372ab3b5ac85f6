"""`bench.programs.counts` as arrays: sums and extrema by index, gathers, products."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.dialects import extreme, summed


def joint_histogram(xp: Any, x: Any, y: Any) -> Any:
    """Ones, added up by one index for both."""
    i, j = (xp.clip(xp.astype(part * 64, xp.int32), 0, 63) for part in (x, y))
    return xp.reshape(summed(xp, 64 * 64, 64 * i + j, xp.ones(x.shape, dtype=xp.int32)), (64, 64))


def equalised(xp: Any, x: Any) -> Any:
    """Ones, added up by index, their running sums, and a gather; a byte is no index to torch."""
    at = xp.astype(x, xp.int32)
    counts = summed(xp, 256, xp.reshape(at, (-1,)), xp.ones(x.shape[0] * x.shape[1], dtype=xp.int32))
    below = xp.astype(xp.cumulative_sum(counts), xp.float32)
    return xp.astype(below * (255 / (x.shape[0] * x.shape[1])), xp.uint8)[at]


def clusters(xp: Any, x: Any, centre: Any) -> Any:
    """Distances by a product, and sums by index."""
    many = centre.shape[0]
    nearest = xp.argmin(xp.sum(centre * centre, axis=1)[None, :] - 2 * (x @ centre.T), axis=1)
    size = summed(xp, many, nearest, xp.ones(x.shape[0], dtype=x.dtype))
    return summed(xp, many, nearest, x) / xp.maximum(size, xp.ones_like(size))[:, None]


def group_extrema(xp: Any, x: Any, group: Any) -> Any:
    """Extrema by index."""
    return extreme(xp, "min", xp.full(1000, 1e30, dtype=x.dtype), group, x), extreme(
        xp, "max", xp.full(1000, -1e30, dtype=x.dtype), group, x
    )


def messages(xp: Any, x: Any, source: Any, target: Any, w: Any) -> Any:
    """Gathers, sums by index, and a product."""
    sent = x[source] - x[target]
    layer = (x + summed(xp, x.shape[0], target, xp.maximum(sent, xp.zeros_like(sent)))) @ w
    return xp.maximum(layer, xp.zeros_like(layer))


FORMS: Final = (
    joint_histogram,
    equalised,
    clusters,
    group_extrema,
    messages,
)
