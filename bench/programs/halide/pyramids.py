"""Pyramids: each level is computed whole, and what lies between two levels for the rows that need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl

from bench.programs.halide.common import REALS, WORDS, Shape, c, in_pairs, k, real, total, x, xi, xo, y, yi, yo
from bench.programs.pyramids import FINE, LEVELS, SHADES, SMALL, STRENGTH

guarded, rounded = hl.TailStrategy.GuardWithIf, hl.TailStrategy.RoundUp


def edged(level: Any, h: int, w: int) -> Any:
    """An image that goes on as its edge is."""
    return hl.BoundaryConditions.repeat_edge(level, [(0, w), (0, h)])


def resized(before: Any, others: tuple[Any, ...], name: str, along: Callable[[Callable[[int], Any], Any], Any], *, larger: bool) -> Any:
    """Rows, then columns: `along` combines what lies around twice an index, or half of one. Returns both stages."""
    tall, made = hl.Func(f"{name}_rows"), hl.Func(name)
    tall[x, y, *others] = along(lambda d: before[x, (y // 2 if larger else 2 * y) + d, *others], y)
    made[x, y, *others] = along(lambda d: tall[(x // 2 if larger else 2 * x) + d, y, *others], x)
    return tall, made


def _three_to_one(read: Any, _: Any) -> Any:
    return (read(-1) + real(3) * (read(0) + read(1)) + read(2)) * real(1 / 8)


def _quarters(read: Any, at: Any) -> Any:
    return real(0.75) * read(0) + real(0.25) * read(2 * (at % 2) - 1)


def _two_to_one(read: Any, _: Any) -> Any:
    return (read(-1) + real(2) * read(0) + read(1)) * real(1 / 4)


def _halves(read: Any, at: Any) -> Any:
    return (read(0) + read(at % 2)) * real(1 / 2)


def local_laplacian(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Rows of the finest shades slide, and are computed once more where they are chosen; the other levels are in memory."""
    _, h, w = shape
    finest = FINE * (SHADES - 1)
    gray, curve, remapped, out = (hl.Func(name) for name in ("gray", "curve", "remapped", "out"))
    gray[x, y] = total(real(part) * hl.f32(image[x, y, channel]) for channel, part in enumerate((0.299, 0.587, 0.114))) / real(65535)
    apart = hl.f32(x) / real(FINE)
    curve[x] = real(STRENGTH) * apart * hl.exp(-apart * apart / real(2))
    step = hl.i32(hl.clamp(gray[x, y] * real(finest) + real(0.5), real(0), real(finest)))
    remapped[x, y, k] = gray[x, y] + curve[step - FINE * k]
    shades, guides, between = [remapped], [gray], []
    for level in range(1, LEVELS):
        extents = h >> level - 1, w >> level - 1
        for stages, others, name in ((shades, (k,), "shades"), (guides, (), "guide")):
            source = edged(stages[-1], *extents)
            tall, made = resized(source, others, f"{name}{level}", _three_to_one, larger=False)
            stages.append(made)
            between.append((source, tall, made))

    def chosen(level: int, read: Any) -> Any:
        shade = guides[level][x, y] * real(SHADES - 1)
        place = hl.clamp(hl.i32(shade), 0, SHADES - 2)
        part = shade - hl.f32(place)
        return (real(1) - part) * read(place) + part * read(place + 1)

    results = [hl.Func(f"result{level}") for level in range(LEVELS)]
    results[-1][x, y] = chosen(LEVELS - 1, lambda shade: shades[-1][x, y, shade])
    for level in reversed(range(LEVELS - 1)):
        extents = h >> level + 1, w >> level + 1
        fine, coarse = shades[level], resized(edged(shades[level + 1], *extents), (k,), f"wide{level}", _quarters, larger=True)
        below = resized(edged(results[level + 1], *extents), (), f"below{level}", _quarters, larger=True)
        difference = chosen(level, lambda shade, fine=fine, coarse=coarse: fine[x, y, shade] - coarse[1][x, y, shade])
        results[level][x, y] = below[1][x, y] + difference
        if by_hand:
            for tall, _ in (coarse, below):
                tall.compute_at(results[level], yi).vectorize(x, REALS, rounded)
            in_pairs(below[1].compute_at(results[level], yi), REALS)
    colour = results[0][x, y] * (hl.f32(image[x, y, c]) / real(65535) + real(SMALL)) / (gray[x, y] + real(SMALL))
    out[x, y, c] = hl.u16(hl.clamp(colour, real(0), real(1)) * real(65535))
    if by_hand:
        curve.compute_root().vectorize(x, REALS)
        gray.compute_root().vectorize(x, REALS)
        for _, tall, made in between:
            made.compute_root().split(y, yo, yi, 64, guarded).vectorize(x, REALS, guarded)
            tall.compute_at(made, yi).vectorize(x, REALS, rounded)
        source, _, made = between[0]
        source.store_at(made, yo).compute_at(made, yi).vectorize(source.args()[0], REALS, rounded)
        for result in results:
            result.compute_root().split(y, yo, yi, 8, guarded).vectorize(x, REALS, guarded)
        out.reorder(x, c, y).vectorize(x, WORDS)
    return out


def interpolated(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Levels are in memory, but for the finest of what is known; rows between two of them slide."""
    _, h, w = shape
    known, out = hl.Func("known"), hl.Func("out")
    known[x, y, c] = hl.select(c < 3, image[x, y, c] * image[x, y, 3], image[x, y, 3])
    levels, between = [known], []
    for level in range(1, LEVELS):
        tall, made = resized(edged(levels[-1], h >> level - 1, w >> level - 1), (c,), f"known{level}", _two_to_one, larger=False)
        levels.append(made)
        between.append((tall, made))
    result = levels[-1]
    for level in reversed(range(LEVELS - 1)):
        around = resized(edged(result, h >> level + 1, w >> level + 1), (c,), f"around{level}", _halves, larger=True)
        result = hl.Func(f"filled{level}")
        result[x, y, c] = levels[level][x, y, c] + (real(1) - levels[level][x, y, 3]) * around[1][x, y, c]
        between.append((around[0], result))
    out[x, y, c] = result[x, y, c] / result[x, y, 3]
    if by_hand:
        for tall, made in between[: LEVELS - 1]:
            made.compute_root().bound(c, 0, 4).reorder(x, c, y).vectorize(x, REALS, guarded).unroll(c)
            tall.compute_at(made, y).bound_extent(c, 4).reorder(c, x, y).vectorize(x, REALS, rounded).unroll(c)
        for tall, made in between[LEVELS - 1 : -1]:
            made.compute_root().bound(c, 0, 4).split(x, xo, xi, 2, guarded).reorder(xi, c, xo, y).vectorize(xo, REALS, guarded)
            made.unroll(xi).unroll(c)
            tall.compute_at(made, y).vectorize(x, REALS, rounded)
        tall, filled = between[-1]
        filled.compute_at(out, y).bound_extent(c, 4).align_bounds(x, 2).split(x, xo, xi, 2, rounded).reorder(xi, c, xo, y)
        filled.vectorize(xo, REALS).unroll(xi).unroll(c)
        tall.compute_at(out, y).vectorize(x, REALS, rounded)
        out.reorder(x, c, y).vectorize(x, REALS).unroll(c)
    return out
