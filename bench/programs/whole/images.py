"""`bench.programs.images` as arrays: shifted slices, a gather, a sum by index."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from bench.programs.images import MEDIAN, TAPS
from bench.programs.whole.dialects import bordered, is_torch, summed


def unsharp(xp: Any, x: Any) -> Any:
    """The blur as five shifted images along each axis."""
    h, w, _ = x.shape
    x = xp.astype(x, xp.float32)
    gray = 0.3 * x[:, :, 0] + 0.59 * x[:, :, 1] + 0.11 * x[:, :, 2]
    wide = bordered(xp, gray, 0, 2)
    across = bordered(xp, sum(tap * wide[:, d : d + w] for d, tap in enumerate(TAPS)), 2, 0)
    return 2 * gray - sum(tap * across[d : d + h] for d, tap in enumerate(TAPS))


def blur(xp: Any, x: Any) -> Any:
    """Sums of three slices; torch computes little in words without a sign."""
    word = xp.int32 if is_torch(xp) else xp.uint32
    x = xp.astype(x, word)
    across = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) // 3
    return xp.astype((across[:-2] + across[1:-1] + across[2:]) // 3, xp.uint16)


def demosaic(xp: Any, x: Any) -> Any:
    """All means, of which every other is taken."""
    h, w = x.shape
    x = xp.astype(x, xp.int32)
    wide = bordered(xp, x, 1, 1)
    around = (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]) // 4
    even = (xp.arange(h)[:, None] + xp.arange(w)[None, :]) % 2 == 0
    return xp.astype(xp.where(even, x, around), xp.uint16)


def median(xp: Any, x: Any) -> Any:
    """The exchanges, of whole images."""
    h, w = x.shape[0] - 2, x.shape[1] - 2
    found = [x[a : a + h, b : b + w] for a, b in product(range(3), repeat=2)]
    for a, b in MEDIAN:
        found[a], found[b] = xp.minimum(found[a], found[b]), xp.maximum(found[a], found[b])
    return found[4]


def non_local_means(xp: Any, x: Any) -> Any:
    """A shift at a time; the sum over 3 x 3 is one of rows, then of columns."""
    h, w = x.shape[0] - 8, x.shape[1] - 8
    total, weights = xp.zeros((h, w), dtype=x.dtype), xp.zeros((h, w), dtype=x.dtype)
    for s, t in product(range(5), repeat=2):
        apart = (x[3 : h + 5, 3 : w + 5] - x[1 + s : h + 3 + s, 1 + t : w + 3 + t]) ** 2
        rows = apart[:-2] + apart[1:-1] + apart[2:]
        weight = xp.exp(-4 * (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]))
        total = total + weight * x[2 + s : h + 2 + s, 2 + t : w + 2 + t]
        weights = weights + weight
    return total / weights


def table(xp: Any, x: Any, found: Any) -> Any:
    """A gather; a byte is no index to torch."""
    return found[xp.astype(x, xp.int32)]


def histogram(xp: Any, x: Any) -> Any:
    """Ones, added up by index."""
    return summed(xp, 256, xp.astype(x, xp.int32), xp.ones(x.shape, dtype=xp.int32))


FORMS: Final = (unsharp, blur, demosaic, median, non_local_means, table, histogram)
