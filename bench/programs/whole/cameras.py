"""`bench.programs.cameras` as arrays: slices of every other pixel, planes put together from four, a sum by index, gathers."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from bench.programs.cameras import CELL, SHADES, STRENGTH, WHITE
from bench.programs.whole.dialects import summed


def _mean(a: Any, b: Any) -> Any:
    return (a + b + 1) >> 1


def camera(xp: Any, raw: Any, matrix: Any) -> Any:
    """Planes of the four colours, of the same size throughout; the edge, where rolls are wrong, is cut off."""
    raw = xp.astype(raw, xp.int16)
    across, down = xp.maximum(raw[2:-2, :-4], raw[2:-2, 4:]), xp.maximum(raw[:-4, 2:-2], raw[4:, 2:-2])
    cool = xp.minimum(raw[2:-2, 2:-2], xp.maximum(across, down))
    gr, r, b, gb = cool[::2, ::2], cool[::2, 1::2], cool[1::2, ::2], cool[1::2, 1::2]

    def near(plane: Any, p: int, q: int) -> Any:
        """The element `p` rows below and `q` columns to the right."""
        return xp.roll(plane, (-p, -q), axis=(0, 1)) if p or q else plane

    def closer(a: Any, b: Any, c: Any, d: Any) -> Any:
        return xp.where(xp.abs(a - b) < xp.abs(c - d), _mean(a, b), _mean(c, d))

    g_r, g_b = closer(near(gb, -1, 0), gb, gr, near(gr, 0, 1)), closer(gr, near(gr, 1, 0), near(gb, 0, -1), gb)

    def along(there: Any, colour: Any, green: Any, *ends: tuple[int, int]) -> Any:
        return _mean(*(near(colour, *end) for end in ends)) + there - _mean(*(near(green, *end) for end in ends))

    def across_from(there: Any, colour: Any, green: Any, p: int, q: int) -> Any:
        falling, rising = ((p, q), (p + 1, q + 1)), ((p, q + 1), (p + 1, q))
        steps = [xp.abs(near(colour, *first) - near(colour, *second)) for first, second in (falling, rising)]
        return xp.where(steps[0] < steps[1], along(there, colour, green, *falling), along(there, colour, green, *rising))

    left, here, up, right, below = (0, -1), (0, 0), (-1, 0), (0, 1), (1, 0)
    reds = along(gr, r, g_r, left, here), r, across_from(g_b, r, g_r, 0, -1), along(gb, r, g_r, here, below)
    blues = along(gr, b, g_b, up, here), across_from(g_r, b, g_b, -1, 0), b, along(gb, b, g_b, here, right)

    def woven(parts: tuple[Any, ...]) -> Any:
        h, w = gr.shape
        rows = [xp.reshape(xp.stack(parts[start : start + 2], axis=2), (h, 2 * w)) for start in (0, 2)]
        return xp.reshape(xp.stack(rows, axis=1), (2 * h, 2 * w))[4:-4, 4:-4]

    colours = [xp.astype(woven(parts), xp.int32) for parts in (reds, (gr, g_r, g_b, gb), blues)]
    wide = xp.astype(matrix, xp.int32)[:, :, None, None]
    true = (wide[:, 0] * colours[0] + wide[:, 1] * colours[1] + wide[:, 2] * colours[2] + wide[:, 3]) >> 8
    light = (xp.astype(xp.arange(WHITE + 1), xp.float32) / WHITE) ** (1 / 2.2)
    curve = xp.astype(255 * (0.7 * light + 0.3 * light * light * (3 - 2 * light)) + 0.5, xp.int16)
    shown = curve[xp.clip(true, 0, WHITE)]
    columns = _mean(_mean(shown[:, 1:-3], shown[:, 3:-1]), shown[:, 2:-2])
    soft = _mean(_mean(columns[:, :, 1:-3], columns[:, :, 3:-1]), columns[:, :, 2:-2])
    level = shown[:, 2:-2, 2:-2]
    return xp.permute_dims(xp.astype(xp.clip(level + ((level - soft) * STRENGTH >> 5), 0, 255), xp.uint8), (1, 2, 0))


def bilateral_grid(xp: Any, x: Any) -> Any:
    """Pixels added up by the number of their cell; sums of five slices; gathers of cells."""
    h, w = x.shape
    shape = h // CELL + 5, w // CELL + 5, SHADES + 6
    i, j = xp.arange(h)[:, None], xp.arange(w)[None, :]
    cell = ((i + CELL // 2) // CELL + 2) * shape[1] + (j + CELL // 2) // CELL + 2
    at = cell * shape[2] + xp.astype(x * SHADES + 0.5, cell.dtype) + 2
    counted = xp.reshape(xp.stack([x, xp.ones_like(x)], axis=2), (-1, 2))
    grid = xp.reshape(summed(xp, shape[0] * shape[1] * shape[2], xp.reshape(at, (-1,)), counted), (*shape, 2))
    for axis in (2, 1, 0):
        count = shape[axis] - 4
        parts = [grid[(*[slice(None)] * axis, slice(start, start + count))] for start in range(5)]
        grid = parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]
    shade = x * SHADES
    k = xp.astype(shade, cell.dtype)
    deeper = (shade - xp.astype(k, x.dtype))[:, :, None]
    lower, right = (xp.astype(place % CELL, x.dtype)[:, :, None] / CELL for place in (i, j))
    total = xp.zeros((h, w, 2), dtype=x.dtype)
    for p, q in product(range(2), repeat=2):
        near, far = (grid[i // CELL + p, j // CELL + q, k + d] for d in range(2))
        total = total + (lower if p else 1 - lower) * (right if q else 1 - right) * (near + deeper * (far - near))
    return total[:, :, 0] / total[:, :, 1]


FORMS: Final = (camera, bilateral_grid)
