"""Pyramids of photographs: local Laplacian filters, gaps filled by interpolation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.photographs import HEIGHT, WIDTH, grey, photograph
from bench.programs.program import Made, named, operand, real

LEVELS: Final = 8
SHADES: Final = 8
"""Intensities for which a pyramid is made; others are between two of them."""
FINE: Final = 256
"""Steps of the tone curve from a shade to the next."""
STRENGTH: Final = 1 / 7
SMALL: Final = 0.01


def near(i: Any, n: int) -> Any:
    """An index, or that of the edge."""
    return tl.clamp(i, 0, n - 1)


def halved(x: Any, name: str) -> Any:
    """Every other row and column, weighted 1 3 3 1."""
    *many, h, w = x.shape

    def rows(*at: Any) -> Any:
        *k, i, j = at
        return (x[*k, near(2 * i - 1, h), j] + 3 * (x[*k, 2 * i, j] + x[*k, 2 * i + 1, j]) + x[*k, near(2 * i + 2, h), j]) / 8

    tall = tl.compute((*many, h // 2, w), rows, name=f"{name}_rows")

    def columns(*at: Any) -> Any:
        *k, i, j = at
        return (tall[*k, i, near(2 * j - 1, w)] + 3 * (tall[*k, i, 2 * j] + tall[*k, i, 2 * j + 1]) + tall[*k, i, near(2 * j + 2, w)]) / 8

    return tl.compute((*many, h // 2, w // 2), columns, name=name)


def doubled(x: Any, name: str) -> Any:
    """Rows and columns between those of an image, at a quarter of the way."""
    *many, h, w = x.shape

    def rows(*at: Any) -> Any:
        *k, i, j = at
        return 0.75 * x[*k, i // 2, j] + 0.25 * x[*k, near(i // 2 - 1 + 2 * (i % 2), h), j]

    tall = tl.compute((*many, 2 * h, w), rows, name=f"{name}_rows")

    def columns(*at: Any) -> Any:
        *k, i, j = at
        return 0.75 * tall[*k, i, j // 2] + 0.25 * tall[*k, i, near(j // 2 - 1 + 2 * (j % 2), w)]

    return tl.compute((*many, 2 * h, 2 * w), columns, name=name)


def local_laplacian() -> Made:
    """A colour photograph with more detail (Paris, Hasinoff and Kautz, 2011): Laplacian pyramids of eight shades, chosen by brightness."""
    h, w, finest = HEIGHT, WIDTH, FINE * (SHADES - 1)
    x = operand("X", 3, h, w, dtype="uint16")
    gray = tl.compute(
        (h, w), lambda i, j: (0.299 * real(x[0, i, j]) + 0.587 * real(x[1, i, j]) + 0.114 * real(x[2, i, j])) / 65535, name="gray"
    )

    def tone(i: Any) -> Any:
        apart = real(i - finest) / FINE
        return STRENGTH * apart * tl.exp(-apart * apart / 2)

    curve = tl.compute((2 * finest + 1,), tone, name="curve")

    def remapped(k: Any, i: Any, j: Any) -> Any:
        step = tl.cast(tl.clamp(gray[i, j] * finest + 0.5, 0, finest), "int32")
        return gray[i, j] + curve[step - FINE * k + finest]

    shades, guides = [tl.compute((SHADES, h, w), remapped, name="shades0")], [gray]
    for level in range(1, LEVELS):
        shades.append(halved(shades[-1], f"shades{level}"))
        guides.append(halved(guides[-1], f"guide{level}"))

    def detail(level: int) -> Any:
        fine, coarse = shades[level], doubled(shades[level + 1], f"wide{level}")
        return tl.compute(fine.shape, lambda k, i, j: fine[k, i, j] - coarse[k, i, j], name=f"detail{level}")

    def chosen(details: Any, guide: Any, name: str) -> Any:
        def element(i: Any, j: Any) -> Any:
            shade = guide[i, j] * (SHADES - 1)
            k = tl.cast(tl.clamp(shade, 0, SHADES - 2), "int32")
            part = shade - real(k)
            return (1 - part) * details[k, i, j] + part * details[k + 1, i, j]

        return tl.compute(guide.shape, element, name=name)

    result = chosen(shades[-1], guides[-1], f"chosen{LEVELS - 1}")
    for level in reversed(range(LEVELS - 1)):
        wide, added = doubled(result, f"result{level}_wide"), chosen(detail(level), guides[level], f"chosen{level}")
        result = tl.compute(added.shape, lambda i, j, wide=wide, added=added: wide[i, j] + added[i, j], name=f"result{level}")

    def coloured(c: Any, i: Any, j: Any) -> Any:
        return tl.cast(65535 * tl.clamp(result[i, j] * (real(x[c, i, j]) / 65535 + SMALL) / (gray[i, j] + SMALL), 0, 1), "uint16")

    return tl.compute((3, h, w), coloured, name="laplacian"), (planes(h, w).astype("uint16") * np.uint16(257),)


def planes(h: int, w: int) -> Any:
    """A photograph, a colour after the other."""
    return np.ascontiguousarray(photograph(h, w).transpose(2, 0, 1))


def _local_laplacian(x: Any, out: Any) -> None:
    _, h, w = x.shape
    three, eighth, most, less, half = np.float32(3), np.float32(0.125), np.float32(0.75), np.float32(0.25), np.float32(0.5)

    def halve(x: Any, y: Any) -> None:
        rows, columns = y.shape
        row = np.empty(2 * columns + 2, np.float32)
        for i in range(rows):
            first, second, third, fourth = x[max(2 * i - 1, 0)], x[2 * i], x[2 * i + 1], x[min(2 * i + 2, 2 * rows - 1)]
            for j in range(2 * columns):
                row[j + 1] = (first[j] + three * (second[j] + third[j]) + fourth[j]) * eighth
            row[0], row[2 * columns + 1] = row[1], row[2 * columns]
            for j in range(columns):
                y[i, j] = (row[2 * j] + three * (row[2 * j + 1] + row[2 * j + 2]) + row[2 * j + 3]) * eighth

    def double(x: Any, i: int, row: Any, y: Any) -> None:
        rows, columns = x.shape
        close, far = x[i // 2], x[min(max(i // 2 - 1 + 2 * (i % 2), 0), rows - 1)]
        for j in range(columns):
            row[j + 1] = most * close[j] + less * far[j]
        row[0], row[columns + 1] = row[1], row[columns]
        for j in range(columns):
            y[2 * j], y[2 * j + 1] = most * row[j + 1] + less * row[j], most * row[j + 1] + less * row[j + 2]

    curve = np.empty(3585, np.float32)
    for i in range(3585):
        apart = np.float32((i - 1792) / 256)
        curve[i] = apart * np.exp(-apart * apart / 2) / 7
    gray, remapped = np.empty((h, w), np.float32), np.empty((h, w), np.float32)
    for i in range(h):
        for j in range(w):
            gray[i, j] = (np.float32(0.299) * x[0, i, j] + np.float32(0.587) * x[1, i, j] + np.float32(0.114) * x[2, i, j]) / np.float32(
                65535
            )
    guides = [gray] + [np.empty((h >> level, w >> level), np.float32) for level in range(1, 8)]
    shades = [np.empty((8, h >> level, w >> level), np.float32) for level in range(1, 8)]
    for k in range(8):
        for i in range(h):
            for j in range(w):
                step = int(gray[i, j] * np.float32(1792) + half)
                remapped[i, j] = gray[i, j] + curve[step - 256 * k + 1792]
        halve(remapped, shades[0][k])
        for level in range(6):
            halve(shades[level][k], shades[level + 1][k])
    for level in range(7):
        halve(guides[level], guides[level + 1])
    result = np.zeros((h >> 7, w >> 7), np.float32)
    for level in range(7, -1, -1):
        guide = guides[level]
        rows, columns = guide.shape
        wide, coarse, row = np.zeros((8, columns), np.float32), np.zeros(columns, np.float32), np.empty(columns + 2, np.float32)
        now = np.empty((rows, columns), np.float32)
        for i in range(rows):
            if level < 7:
                for k in range(8):
                    double(shades[level][k], i, row, wide[k])
                double(result, i, row, coarse)
            for j in range(columns):
                shade = guide[i, j] * np.float32(7)
                k = min(int(shade), 6)
                part = shade - np.float32(k)
                if level > 0:
                    one, other = shades[level - 1][k, i, j], shades[level - 1][k + 1, i, j]
                else:
                    step = int(gray[i, j] * np.float32(1792) + half) - 256 * k + 1792
                    one, other = gray[i, j] + curve[step], gray[i, j] + curve[step - 256]
                now[i, j] = coarse[j] + (np.float32(1) - part) * (one - wide[k, j]) + part * (other - wide[k + 1, j])
        result = now
    small = np.float32(0.01)
    for c in range(3):
        for i in range(h):
            for j in range(w):
                level = result[i, j] * (x[c, i, j] / np.float32(65535) + small) / (gray[i, j] + small)
                out[c, i, j] = np.float32(65535) * min(max(level, np.float32(0)), np.float32(1))


def interpolated() -> Made:
    """Gaps of a photograph filled with what is around them, by a pyramid weighted by what is known (after Halide's interpolate)."""
    h, w = HEIGHT, WIDTH
    x = operand("X", 4, h, w)
    levels = [tl.compute((4, h, w), lambda c, i, j: tl.select(c < 3, x[c, i, j] * x[3, i, j], x[3, i, j]), name="known0")]
    for level in range(1, LEVELS):
        levels.append(gathered(levels[-1], f"known{level}"))
    result = levels[-1]
    for level in reversed(range(LEVELS - 1)):
        known, around = levels[level], spread(result, f"around{level}")
        result = tl.compute(
            known.shape,
            lambda c, i, j, known=known, around=around: known[c, i, j] + (1 - known[3, i, j]) * around[c, i, j],
            name=f"filled{level}",
        )
    shown = tl.compute((3, h, w), lambda c, i, j: result[c, i, j] / result[3, i, j], name="interpolated")
    seen = (grey(h, w) > 150)[None]
    return shown, (np.concatenate([planes(h, w) / np.float32(255), seen.astype("float32")]).astype("float32"),)


def gathered(x: Any, name: str) -> Any:
    """Every other row and column, weighted 1 2 1."""
    many, h, w = x.shape
    tall = tl.compute(
        (many, h // 2, w), lambda c, i, j: (x[c, near(2 * i - 1, h), j] + 2 * x[c, 2 * i, j] + x[c, 2 * i + 1, j]) / 4, name=f"{name}_rows"
    )
    return tl.compute(
        (many, h // 2, w // 2),
        lambda c, i, j: (tall[c, i, near(2 * j - 1, w)] + 2 * tall[c, i, 2 * j] + tall[c, i, 2 * j + 1]) / 4,
        name=name,
    )


def spread(x: Any, name: str) -> Any:
    """Rows and columns, and the means of two between them."""
    many, h, w = x.shape
    tall = tl.compute((many, 2 * h, w), lambda c, i, j: (x[c, i // 2, j] + x[c, near((i + 1) // 2, h), j]) / 2, name=f"{name}_rows")
    return tl.compute((many, 2 * h, 2 * w), lambda c, i, j: (tall[c, i, j // 2] + tall[c, i, near((j + 1) // 2, w)]) / 2, name=name)


def _interpolated(x: Any, out: Any) -> None:
    _, h, w = x.shape
    half, quarter, one = np.float32(0.5), np.float32(0.25), np.float32(1)
    levels = [np.empty((4, h >> level, w >> level), np.float32) for level in range(8)]
    for c in range(4):
        for i in range(h):
            for j in range(w):
                levels[0][c, i, j] = x[c, i, j] * x[3, i, j] if c < 3 else x[3, i, j]
    for level in range(1, 8):
        for c in range(4):
            fine, coarse = levels[level - 1][c], levels[level][c]
            rows, columns = coarse.shape
            row = np.empty(2 * columns + 1, np.float32)
            for i in range(rows):
                first, second, third = fine[max(2 * i - 1, 0)], fine[2 * i], fine[2 * i + 1]
                for j in range(2 * columns):
                    row[j + 1] = (first[j] + second[j] + second[j] + third[j]) * quarter
                row[0] = row[1]
                for j in range(columns):
                    coarse[i, j] = (row[2 * j] + row[2 * j + 1] + row[2 * j + 1] + row[2 * j + 2]) * quarter
    for level in range(6, -1, -1):
        known = levels[level][3].copy()
        for c in range(4):
            fine, coarse = levels[level][c], levels[level + 1][c]
            rows, columns = coarse.shape
            row = np.empty(columns + 1, np.float32)
            for i in range(2 * rows):
                close, far = coarse[i // 2], coarse[min((i + 1) // 2, rows - 1)]
                for j in range(columns):
                    row[j] = half * (close[j] + far[j])
                row[columns] = row[columns - 1]
                for j in range(columns):
                    fine[i, 2 * j] += (one - known[i, 2 * j]) * row[j]
                    fine[i, 2 * j + 1] += (one - known[i, 2 * j + 1]) * half * (row[j] + row[j + 1])
    for c in range(3):
        for i in range(h):
            for j in range(w):
                out[c, i, j] = levels[0][c, i, j] / levels[0][3, i, j]


PROGRAMS: Final = named((local_laplacian, _local_laplacian), (interpolated, _interpolated))
