"""`bench.programs.pyramids` as arrays: slices of every other row, rows and columns put together from two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.programs.pyramids import FINE, LEVELS, SHADES, SMALL, STRENGTH
from bench.programs.whole.dialects import bordered


def _parts(xp: Any, x: Any, axis: int, count: int, step: int) -> list[Any]:
    """Slices of so many elements along an axis, from one before the first on."""
    widths = [0] * x.ndim
    widths[axis] = 1
    x = bordered(xp, x, *widths)
    after: list[Any] = [slice(None)] * (-1 - axis)
    return [x[(..., slice(start, start + (count - 1) * step + 1, step), *after)] for start in range(2 + step)]


def _halved(xp: Any, x: Any, mean: Callable[..., Any]) -> Any:
    """Every other row and column, each from four."""
    for axis in (-2, -1):
        x = mean(*_parts(xp, x, axis, x.shape[axis] // 2, 2))
    return x


def _doubled(xp: Any, x: Any, pair: Callable[..., Any]) -> Any:
    """Two rows and columns for each, from three."""
    for axis in (-2, -1):
        shape = list(x.shape)
        shape[axis] *= 2
        x = xp.reshape(xp.stack(pair(*_parts(xp, x, axis, x.shape[axis], 1)), axis=axis), tuple(shape))
    return x


def local_laplacian(xp: Any, x: Any) -> Any:
    """All shades at once; what is between two of them is a sum of all, of which two have a weight."""
    finest = FINE * (SHADES - 1)
    colour = xp.astype(x, xp.float32) / 65535
    gray = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]
    apart = xp.astype(xp.arange(-finest, finest + 1), xp.float32) / FINE
    curve = STRENGTH * apart * xp.exp(-apart * apart / 2)
    step = xp.astype(gray * finest + 0.5, xp.int32)
    shades, guides = [gray[None] + curve[step[None] - FINE * xp.arange(SHADES)[:, None, None] + finest]], [gray]
    for _ in range(1, LEVELS):
        for levels in (shades, guides):
            levels.append(_halved(xp, levels[-1], lambda a, b, c, d: (a + 3 * (b + c) + d) / 8))

    def doubled(level: Any) -> Any:
        return _doubled(xp, level, lambda a, b, c: (0.75 * b + 0.25 * a, 0.75 * b + 0.25 * c))

    def chosen(details: Any, guide: Any) -> Any:
        away = xp.abs(guide[None] * (SHADES - 1) - xp.astype(xp.arange(SHADES), xp.float32)[:, None, None])
        return xp.sum(xp.clip(1 - away, 0, 1) * details, axis=0)

    result = chosen(shades[-1], guides[-1])
    for level in reversed(range(LEVELS - 1)):
        result = doubled(result) + chosen(shades[level] - doubled(shades[level + 1]), guides[level])
    return xp.astype(65535 * xp.clip(result * (colour + SMALL) / (gray + SMALL), 0, 1), xp.uint16)


def interpolated(xp: Any, x: Any) -> Any:
    """All four planes at once."""
    levels = [xp.concat([x[:3] * x[3:], x[3:]], axis=0)]
    for _ in range(1, LEVELS):
        levels.append(_halved(xp, levels[-1], lambda a, b, c, _: (a + 2 * b + c) / 4))
    result = levels[-1]
    for known in reversed(levels[:-1]):
        result = known + (1 - known[3:]) * _doubled(xp, result, lambda _, b, c: (b, (b + c) / 2))
    return result[:3] / result[3:]


FORMS: Final = (local_laplacian, interpolated)
