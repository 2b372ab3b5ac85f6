"""`bench.programs.counts` as arrays: sums and extrema by index, gathers, products."""

from __future__ import annotations

from typing import Any, Final

from bench.programs.whole.dialects import extreme, placed, stepped, summed


def joint_histogram(xp: Any, x: Any, y: Any) -> Any:
    """Ones, added up by one index for both."""
    i, j = (xp.clip(xp.astype(part * 64, xp.int32), 0, 63) for part in (x, y))
    return xp.reshape(summed(xp, 64 * 64, 64 * i + j, xp.ones(x.shape, dtype=xp.int32)), (64, 64))


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


def suppression(xp: Any, box: Any) -> Any:
    """A matrix of overlaps, and a box after the other."""
    low, high = box[:, :2], box[:, 2:]
    apart = xp.minimum(high[:, None], high[None]) - xp.maximum(low[:, None], low[None])
    apart = xp.maximum(apart, xp.zeros_like(apart))
    both, area = apart[..., 0] * apart[..., 1], (high[:, 0] - low[:, 0]) * (high[:, 1] - low[:, 1])
    covers, place = both > 0.5 * (area[:, None] + area[None, :] - both), xp.arange(box.shape[0])

    def step(t: Any, kept: Any) -> Any:
        return kept & ~(covers[t] & kept[t] & (place > t))

    return xp.astype(stepped(xp, box.shape[0], step, xp.ones(box.shape[0], dtype=bool)), xp.uint8)


def compacted(xp: Any, x: Any) -> Any:
    """Running sums, and a place beyond the end for what is left out."""
    n, taken = x.shape[0], x > 0.5
    place = xp.cumulative_sum(xp.astype(taken, xp.int32))
    return placed(xp, xp.zeros(n + 1, dtype=x.dtype), xp.where(taken, place - 1, n), x)[:n], xp.astype(place[-1:], xp.int32)


def routed(xp: Any, x: Any, gate: Any, w: Any) -> Any:
    """All products of all experts, of which two count."""
    score, every = x @ gate, xp.permute_dims(x[None] @ w, (1, 0, 2))
    place, row = xp.arange(gate.shape[1]), xp.arange(x.shape[0])
    first = xp.argmax(score, axis=1)
    second = xp.argmax(xp.where(place == first[:, None], -xp.inf, score), axis=1)
    worth = (1 / (1 + xp.exp(score[row, second] - score[row, first])))[:, None]
    return worth * every[row, first] + (1 - worth) * every[row, second]


FORMS: Final = (
    joint_histogram,
    clusters,
    group_extrema,
    messages,
    suppression,
    compacted,
    routed,
)
