"""Means weighted by brightness: bilateral filters, over windows and by a grid, and means of what is alike."""

from __future__ import annotations

from itertools import product
from typing import Any

import halide as hl

from bench.programs.cameras import CELL, SHADES
from bench.programs.halide.common import REALS, Shape, c, k, real, total, x, y


def bilateral(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Both sums in registers."""
    out, shifted = hl.Func("out"), [image[x + b, y + a] for a, b in product(range(5), repeat=2)]
    apart = [level - image[x + 2, y + 2] for level in shifted]
    weights = [hl.exp(real(-8) * d * d) for d in apart]
    out[x, y] = total(weight * level for weight, level in zip(weights, shifted, strict=True)) / total(weights)
    if by_hand:
        out.vectorize(x, REALS)
    return out


def non_local_means(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Squared differences of rows are summed before those of columns, for a row and all shifts at a time."""
    s, t = hl.Var("s"), hl.Var("t")
    apart, down, weight, out = (hl.Func(name) for name in ("apart", "down", "weight", "out"))
    apart[x, y, s, t] = image[x + 3, y + 3] - image[x + 1 + t, y + 1 + s]
    down[x, y, s, t] = total(apart[x, y + a, s, t] * apart[x, y + a, s, t] for a in range(3))
    weight[x, y, s, t] = hl.exp(real(-4) * total(down[x + b, y, s, t] for b in range(3)))
    shifts = list(product(range(5), repeat=2))
    out[x, y] = total(weight[x, y, a, b] * image[x + 2 + b, y + 2 + a] for a, b in shifts) / total(weight[x, y, a, b] for a, b in shifts)
    if by_hand:
        out.vectorize(x, REALS)
        down.compute_at(out, y).vectorize(x, REALS)
    return out


def bilateral_grid(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Rows of cells are filled just before their shades are blurred; those between two rows are made for a row of pixels."""
    h, w = shape
    whole: Any = hl.BoundaryConditions.constant_exterior(image, real(0), [(0, w), (0, h)])
    r = hl.RDom([(0, CELL), (0, CELL)])
    grid, deep, wide, tall, here, out = (hl.Func(name) for name in ("grid", "deep", "wide", "tall", "here", "out"))
    column, row = x * CELL + r.x - CELL // 2, y * CELL + r.y - CELL // 2
    level = hl.clamp(whole[column, row], real(0), real(1))
    grid[x, y, k, c] = real(0)
    counted = hl.select((column >= 0) & (column < w) & (row >= 0) & (row < h), real(1), real(0))
    grid[x, y, hl.i32(level * real(SHADES) + real(0.5)), c] += hl.select(c == 0, level, counted)

    def blurred(read: Any) -> Any:
        return read(-2) + real(4) * read(-1) + real(6) * read(0) + real(4) * read(1) + read(2)

    deep[x, y, k, c] = blurred(lambda d: grid[x, y, k + d, c])
    wide[x, y, k, c] = blurred(lambda d: deep[x + d, y, k, c])
    tall[x, y, k, c] = blurred(lambda d: wide[x, y + d, k, c])
    shade = hl.clamp(image[x, y], real(0), real(1)) * real(SHADES)
    cell = hl.i32(shade)
    deeper, right, lower = shade - hl.f32(cell), hl.f32(x % CELL) / real(CELL), hl.f32(y % CELL) / real(CELL)

    here[x, y, k, c] = hl.lerp(tall[x, y // CELL, k, c], tall[x, y // CELL + 1, k, c], lower)

    def sliced(channel: int) -> Any:
        left, other = (hl.lerp(*(here[x // CELL + q, y, cell + d, channel] for d in range(2)), deeper) for q in range(2))
        return hl.lerp(left, other, right)

    out[x, y] = sliced(0) / sliced(1)
    if by_hand:
        grid.compute_at(deep, y).vectorize(x, REALS)
        grid.update().reorder(c, r.x, r.y, x, y).unroll(c)
        deep.compute_root().reorder(x, k, c, y).vectorize(x, REALS)
        wide.compute_root().reorder(x, k, c, y).vectorize(x, REALS)
        tall.compute_root().reorder(x, k, c, y).vectorize(x, REALS)
        out.vectorize(x, REALS)
        here.compute_at(out, y).vectorize(x, REALS, hl.TailStrategy.GuardWithIf)
    return out
