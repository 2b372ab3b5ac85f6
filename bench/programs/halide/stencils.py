"""Sums and maxima of what is around a pixel: windows of rows that slide through strips."""

from __future__ import annotations

from itertools import product
from typing import Any

import halide as hl

from bench.programs.halide.common import BYTES, REALS, WORDS, Shape, real, sliding, total, x, xi, xo, y, yi, yo
from bench.programs.images import TAPS
from bench.programs.photographs import BINOMIAL, RADIUS, STAGES


def blur16(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Tiles of a vector and eight rows: what is summed along a row stays in registers."""
    across, down = hl.Func("across"), hl.Func("down")
    across[x, y] = (image[x, y] + image[x + 1, y] + image[x + 2, y]) // hl.u16(3)
    down[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) // hl.u16(3)
    if by_hand:
        down.tile(x, y, xo, yo, xi, yi, WORDS, 8).vectorize(xi)
        across.store_at(down, xo).compute_at(down, yi).vectorize(x, WORDS)
    return down


def blur(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Sums of twice the width slide, a row at a time."""
    across, down = hl.Func("across"), hl.Func("down")
    across[x, y] = hl.u16((hl.u32(image[x, y]) + image[x + 1, y] + image[x + 2, y]) // 3)
    down[x, y] = hl.u16((hl.u32(across[x, y]) + across[x, y + 1] + across[x, y + 2]) // 3)
    if by_hand:
        sliding(down, WORDS, across)
    return down


def unsharp(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Grey and its sums of rows slide."""
    h, w = shape
    whole: Any = hl.BoundaryConditions.repeat_edge(image, [(0, 3), (0, w), (0, h)])
    gray, across, out = (hl.Func(name) for name in ("gray", "across", "out"))
    gray[x, y] = total(real(part) * hl.f32(whole[channel, x, y]) for channel, part in enumerate((0.3, 0.59, 0.11)))
    across[x, y] = total(real(tap) * gray[x + d - 2, y] for d, tap in enumerate(TAPS))
    out[x, y] = real(2) * gray[x, y] - total(real(tap) * across[x, y + d - 2] for d, tap in enumerate(TAPS))
    if by_hand:
        sliding(out, REALS, gray, across, strip=64)
    return out


def edges(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Grey slides; everything fits into sixteen bits."""
    g, out = hl.Func("g"), hl.Func("out")
    g[x, y] = hl.i16(total(hl.u16(part) * image[channel, x, y] for channel, part in enumerate((77, 150, 29))) >> hl.u16(8))
    two = hl.i16(2)
    across = g[x + 2, y] - g[x, y] + two * (g[x + 2, y + 1] - g[x, y + 1]) + g[x + 2, y + 2] - g[x, y + 2]
    down = g[x, y + 2] - g[x, y] + two * (g[x + 1, y + 2] - g[x + 1, y]) + g[x + 2, y + 2] - g[x + 2, y]
    out[x, y] = hl.u8(hl.min(hl.abs(across) + hl.abs(down), hl.u16(255)))
    if by_hand:
        sliding(out, WORDS, g)
    return out


def demosaic(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """One pass."""
    h, w = shape
    whole: Any = hl.BoundaryConditions.repeat_edge(image, [(0, w), (0, h)])
    out = hl.Func("out")
    around = (hl.u32(whole[x, y - 1]) + whole[x, y + 1] + whole[x - 1, y] + whole[x + 1, y]) // 4
    out[x, y] = hl.select((x + y) % 2 == 0, whole[x, y], hl.u16(around))
    if by_hand:
        out.vectorize(x, WORDS)
    return out


def dilation(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """The greatest of columns slide."""
    across, out = hl.Func("across"), hl.Func("out")
    across[x, y] = hl.max(hl.max(image[x, y], image[x + 1, y]), image[x + 2, y])
    out[x, y] = hl.max(hl.max(across[x, y], across[x, y + 1]), across[x, y + 2])
    if by_hand:
        sliding(out, BYTES, across)
    return out


def chained(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Every stage slides down the whole image behind the one before it, four rows at a time, so that a row is loaded for several."""
    before, stages = image, []
    for number in range(STAGES):
        stage = hl.Func(f"stage{number}")
        taps = (hl.u16(BINOMIAL[a] * BINOMIAL[b]) * before[x + b, y + a] for a, b in product(range(5), repeat=2))
        stage[x, y] = total(taps) >> hl.u16(8)
        stages.append(stage)
        before = stage
    *inner, out = stages
    if by_hand:
        out.split(y, yo, yi, 4).reorder(yi, x, yo).vectorize(x, WORDS).unroll(yi)
        for stage in inner:
            stage.store_root().compute_at(out, yo).reorder(y, x).vectorize(x, WORDS).unroll(y, 4)
    return out


def corners(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Grey and both slopes slide; their products are computed where they are summed."""
    g, dx, dy, out = (hl.Func(name) for name in ("g", "dx", "dy", "out"))
    g[x, y] = total(real(part) * image[channel, x, y] for channel, part in enumerate((0.299, 0.587, 0.114)))

    def slope(ends: tuple[tuple[int, int], ...]) -> Any:
        p = [g[x + i, y + j] for i, j in ends]
        return (p[1] - p[0] + real(2) * (p[3] - p[2]) + p[5] - p[4]) * real(1 / 12)

    dx[x, y] = slope(((0, 0), (2, 0), (0, 1), (2, 1), (0, 2), (2, 2)))
    dy[x, y] = slope(((0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2)))
    xx, yy, xy = (
        total(p[x + i, y + j] * q[x + i, y + j] for j, i in product(range(3), repeat=2)) for p, q in ((dx, dx), (dy, dy), (dx, dy))
    )
    out[x, y] = xx * yy - xy * xy - real(0.04) * (xx + yy) * (xx + yy)
    if by_hand:
        sliding(out, REALS, g, dx, dy)
    return out


def max_filter(_: Shape, by_hand: bool, image: Any) -> hl.Func:
    """All of the circle written out."""
    out, most = hl.Func("out"), None
    for a, b in product(range(-RADIUS, RADIUS + 1), repeat=2):
        if a * a + b * b <= RADIUS * RADIUS:
            level = image[x + RADIUS + b, y + RADIUS + a]
            most = level if most is None else hl.max(most, level)
    out[x, y] = most
    if by_hand:
        out.vectorize(x, BYTES)
    return out
