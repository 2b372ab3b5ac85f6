"""Photographs again: from what the sensor of a camera gives to colours, and a bilateral filter by a grid."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.photographs import HEIGHT, WIDTH, grey, photograph
from bench.programs.program import Made, named, operand, real

MARGIN: Final = 8
"""Pixels of the sensor around those of the picture."""
WHITE: Final = 1023
STRENGTH: Final = 24
"""Of sharpening, in parts of 32."""
CELL: Final = 8
"""Pixels to a side of a cell of the grid."""
SHADES: Final = 10
"""Cells of the grid from black to white."""


def sensor(h: int, w: int) -> Any:
    """What a sensor would give for a photograph: a colour at each pixel, ten bits of light, and every thousandth of them too bright."""
    photo, drawn = photograph(h, w), np.random.default_rng(0)
    light = WHITE * (photo / 255) ** 2.2
    rows, columns = np.indices((h, w)) % 2
    colour = np.where(rows == columns, 1, np.where(rows == 0, 0, 2))
    raw = np.take_along_axis(light, colour[:, :, None], 2)[:, :, 0]
    return np.where(drawn.random((h, w)) < 1e-3, WHITE, raw).astype("uint16")


def mean(a: Any, b: Any) -> Any:
    """Of two whole numbers, rounded up."""
    return (a + b + 1) >> 1


def closer(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The mean of the pair that is less apart: `a` and `b`, or `c` and `d`."""
    return tl.select(tl.abs(a - b) < tl.abs(c - d), mean(a, b), mean(c, d))


def camera() -> Made:
    """A picture of a Bayer sensor: hot pixels, colours between others by the lesser gradient, a matrix, a tone curve, sharpening."""
    h, w, m = HEIGHT, WIDTH, MARGIN
    raw, matrix = operand("raw", h + 2 * m, w + 2 * m, dtype="uint16"), operand("M", 3, 4, dtype="int16")

    def cooled(i: Any, j: Any) -> Any:
        across, down = tl.maximum(raw[i + 2, j], raw[i + 2, j + 4]), tl.maximum(raw[i, j + 2], raw[i + 4, j + 2])
        return tl.cast(tl.minimum(raw[i + 2, j + 2], tl.maximum(across, down)), "int16")

    cool = tl.compute((h + 12, w + 12), cooled, name="cool")
    y, x = h // 2 + 6, w // 2 + 6
    plane = {
        name: tl.compute((y, x), lambda i, j, a=a, b=b: cool[2 * i + a, 2 * j + b], name=name)
        for name, a, b in (("green_r", 0, 0), ("red", 0, 1), ("blue", 1, 0), ("green_b", 1, 1))
    }
    gr, r, b, gb = (plane[name] for name in ("green_r", "red", "blue", "green_b"))

    def green_at_red(i: Any, j: Any) -> Any:
        return closer(gb[i, j + 1], gb[i + 1, j + 1], gr[i + 1, j + 1], gr[i + 1, j + 2])

    def green_at_blue(i: Any, j: Any) -> Any:
        return closer(gr[i + 1, j + 1], gr[i + 2, j + 1], gb[i + 1, j], gb[i + 1, j + 1])

    g_r = tl.compute((y - 2, x - 2), green_at_red, name="green_at_red")
    g_b = tl.compute((y - 2, x - 2), green_at_blue, name="green_at_blue")

    def between(name: str, there: Any, colour: Any, green: Any, first: tuple[int, int], second: tuple[int, int]) -> Any:
        """A colour where green was seen: the mean of two neighbours, and how much greener than they it is there."""

        def element(i: Any, j: Any) -> Any:
            seen = mean(*(colour[i + 2 + p, j + 2 + q] for p, q in (first, second)))
            return seen + there[i + 2, j + 2] - mean(*(green[i + 1 + p, j + 1 + q] for p, q in (first, second)))

        return tl.compute((y - 4, x - 4), element, name=name)

    r_gr, b_gr = between("red_at_gr", gr, r, g_r, (0, -1), (0, 0)), between("blue_at_gr", gr, b, g_b, (-1, 0), (0, 0))
    r_gb, b_gb = between("red_at_gb", gb, r, g_r, (0, 0), (1, 0)), between("blue_at_gb", gb, b, g_b, (0, 0), (0, 1))

    def across(name: str, there: Any, colour: Any, green: Any, corner: tuple[int, int]) -> Any:
        """Red where blue was seen, or blue where red was: along the diagonal that changes less."""

        def element(i: Any, j: Any) -> Any:
            p, q = corner
            square = [(p, q), (p + 1, q + 1), (p, q + 1), (p + 1, q)]
            seen, greens = ([x[i + s + p, j + s + q] for p, q in square] for x, s in ((colour, 2), (green, 1)))
            falling = mean(seen[0], seen[1]) + there[i + 1, j + 1] - mean(greens[0], greens[1])
            rising = mean(seen[2], seen[3]) + there[i + 1, j + 1] - mean(greens[2], greens[3])
            return tl.select(tl.abs(seen[0] - seen[1]) < tl.abs(seen[2] - seen[3]), falling, rising)

        return tl.compute((y - 4, x - 4), element, name=name)

    r_b, b_r = across("red_at_blue", g_b, r, g_r, (0, -1)), across("blue_at_red", g_r, b, g_b, (-1, 0))

    def woven(name: str, *quarters: Any) -> Any:
        """Four planes as one of twice the size."""

        def element(i: Any, j: Any) -> Any:
            even, odd = (tl.select(j % 2 == 0, *(read(i // 2, j // 2) for read in pair)) for pair in (quarters[:2], quarters[2:]))
            return tl.select(i % 2 == 0, even, odd)

        return tl.compute((h + 4, w + 4), element, name=name)

    def at(x: Any, s: int) -> Any:
        return lambda i, j: x[i + s, j + s]

    colours = (
        woven("reds", at(r_gr, 0), at(r, 2), at(r_b, 0), at(r_gb, 0)),
        woven("greens", at(gr, 2), at(g_r, 1), at(g_b, 1), at(gb, 2)),
        woven("blues", at(b_gr, 0), at(b_r, 0), at(b, 2), at(b_gb, 0)),
    )

    def corrected(c: Any, i: Any, j: Any) -> Any:
        parts = (tl.cast(matrix[c, k], "int32") * tl.cast(colour[i, j], "int32") for k, colour in enumerate(colours))
        return tl.cast((sum(parts) + matrix[c, 3]) >> 8, "int16")

    def tone(v: Any) -> Any:
        light = tl.pow(real(v) / WHITE, 1 / 2.2)
        return tl.cast(255 * (0.7 * light + 0.3 * light * light * (3 - 2 * light)) + 0.5, "uint8")

    true, curve = tl.compute((3, h + 4, w + 4), corrected, name="true"), tl.compute((WHITE + 1,), tone, name="curve")
    shown = tl.compute((3, h + 4, w + 4), lambda c, i, j: tl.cast(curve[tl.clamp(true[c, i, j], 0, WHITE)], "int16"), name="shown")
    columns = tl.compute(
        (3, h, w + 4), lambda c, i, j: mean(mean(shown[c, i + 1, j], shown[c, i + 3, j]), shown[c, i + 2, j]), name="columns"
    )
    soft = tl.compute((3, h, w), lambda c, i, j: mean(mean(columns[c, i, j + 1], columns[c, i, j + 3]), columns[c, i, j + 2]), name="soft")

    def sharpened(i: Any, j: Any, c: Any) -> Any:
        level = shown[c, i + 2, j + 2]
        return tl.cast(tl.clamp(level + ((level - soft[c, i, j]) * STRENGTH >> 5), 0, 255), "uint8")

    colours_of = np.array([[460, -160, -44, 0], [-60, 390, -74, 0], [4, -140, 392, 0]], "int16")
    return tl.compute((h, w, 3), sharpened, name="picture"), (sensor(h + 2 * m, w + 2 * m), colours_of)


def _camera(raw: Any, matrix: Any, out: Any) -> None:
    h, w, _ = out.shape

    def mean(a: int, b: int) -> int:
        return (a + b + 1) >> 1

    y, x = h // 2 + 6, w // 2 + 6
    gr, r, b, gb = np.empty((y, x), np.int16), np.empty((y, x), np.int16), np.empty((y, x), np.int16), np.empty((y, x), np.int16)
    for i in range(y):
        for p, even, odd in ((0, gr[i], r[i]), (1, b[i], gb[i])):
            above, here, below = raw[2 * i + p], raw[2 * i + p + 2], raw[2 * i + p + 4]
            for j in range(x):
                even[j] = min(here[2 * j + 2], max(here[2 * j], here[2 * j + 4], above[2 * j + 2], below[2 * j + 2]))
                odd[j] = min(here[2 * j + 3], max(here[2 * j + 1], here[2 * j + 5], above[2 * j + 3], below[2 * j + 3]))
    g_r, g_b = np.zeros((y, x), np.int16), np.zeros((y, x), np.int16)
    for i in range(1, y - 1):
        for j in range(1, x - 1):
            up, down, left, right = gb[i - 1, j], gb[i, j], gr[i, j], gr[i, j + 1]
            g_r[i, j] = mean(up, down) if abs(up - down) < abs(left - right) else mean(left, right)
            up, down, left, right = gr[i, j], gr[i + 1, j], gb[i, j - 1], gb[i, j]
            g_b[i, j] = mean(up, down) if abs(up - down) < abs(left - right) else mean(left, right)
    curve, shown = np.empty(1024, np.int16), np.empty((3, h + 4, w + 4), np.int16)
    for v in range(1024):
        light = np.float32(v / 1023) ** np.float32(1 / 2.2)
        curve[v] = int(255 * (np.float32(0.7) * light + np.float32(0.3) * light * light * (3 - 2 * light)) + np.float32(0.5))
    block = np.empty((3, 2, 2), np.int32)
    for i in range(2, y - 2):
        for j in range(2, x - 2):
            block[0, 0, 0] = mean(r[i, j - 1], r[i, j]) + gr[i, j] - mean(g_r[i, j - 1], g_r[i, j])
            block[1, 0, 0] = gr[i, j]
            block[2, 0, 0] = mean(b[i - 1, j], b[i, j]) + gr[i, j] - mean(g_b[i - 1, j], g_b[i, j])
            block[0, 0, 1], block[1, 0, 1] = r[i, j], g_r[i, j]
            if abs(b[i - 1, j] - b[i, j + 1]) < abs(b[i - 1, j + 1] - b[i, j]):
                block[2, 0, 1] = mean(b[i - 1, j], b[i, j + 1]) + g_r[i, j] - mean(g_b[i - 1, j], g_b[i, j + 1])
            else:
                block[2, 0, 1] = mean(b[i - 1, j + 1], b[i, j]) + g_r[i, j] - mean(g_b[i - 1, j + 1], g_b[i, j])
            block[1, 1, 0], block[2, 1, 0] = g_b[i, j], b[i, j]
            if abs(r[i, j - 1] - r[i + 1, j]) < abs(r[i, j] - r[i + 1, j - 1]):
                block[0, 1, 0] = mean(r[i, j - 1], r[i + 1, j]) + g_b[i, j] - mean(g_r[i, j - 1], g_r[i + 1, j])
            else:
                block[0, 1, 0] = mean(r[i, j], r[i + 1, j - 1]) + g_b[i, j] - mean(g_r[i, j], g_r[i + 1, j - 1])
            block[0, 1, 1] = mean(r[i, j], r[i + 1, j]) + gb[i, j] - mean(g_r[i, j], g_r[i + 1, j])
            block[1, 1, 1] = gb[i, j]
            block[2, 1, 1] = mean(b[i, j], b[i, j + 1]) + gb[i, j] - mean(g_b[i, j], g_b[i, j + 1])
            for p in range(2):
                for q in range(2):
                    for c in range(3):
                        total = matrix[c, 0] * block[0, p, q] + matrix[c, 1] * block[1, p, q] + matrix[c, 2] * block[2, p, q]
                        shown[c, 2 * i - 4 + p, 2 * j - 4 + q] = curve[min(max((total + matrix[c, 3]) >> 8, 0), 1023)]
    soft = np.empty(w + 4, np.int16)
    for c in range(3):
        for i in range(h):
            above, here, below = shown[c, i + 1], shown[c, i + 2], shown[c, i + 3]
            for j in range(w + 4):
                soft[j] = mean(mean(above[j], below[j]), here[j])
            for j in range(w):
                level = here[j + 2]
                out[i, j, c] = min(max(level + ((level - mean(mean(soft[j + 1], soft[j + 3]), soft[j + 2])) * 24 >> 5), 0), 255)


def bilateral_grid() -> Made:
    """Edges kept by a grid over places and brightness that is blurred and read between its cells (Chen, Paris and Durand, 2007)."""
    h, w, rows, columns, shades = HEIGHT, WIDTH, HEIGHT // CELL + 1, WIDTH // CELL + 1, SHADES + 2
    x, i, j, c = operand("X", h, w), tl.reduce_axis(h), tl.reduce_axis(w), tl.reduce_axis(2)

    def cell(i: Any, j: Any, c: Any) -> Any:
        shade = tl.cast(tl.clamp(x[i, j] * SHADES + 0.5, 0, SHADES), "int32")
        return (i + CELL // 2) // CELL + 2, (j + CELL // 2) // CELL + 2, shade + 2, c

    empty = tl.compute((rows + 4, columns + 4, shades + 4, 2), lambda *_: tl.cast(0, "float32"), name="empty")
    grid = tl.scatter(empty, axes=(i, j, c), index=cell, value=lambda i, j, c: tl.select(c == 0, x[i, j], 1.0), name="grid")

    def blurred(read: Any) -> Any:
        return read(0) + 4 * read(1) + 6 * read(2) + 4 * read(3) + read(4)

    deep = tl.compute((rows + 4, columns + 4, shades, 2), lambda i, j, k, c: blurred(lambda d: grid[i, j, k + d, c]), name="blurred_shades")
    wide = tl.compute((rows + 4, columns, shades, 2), lambda i, j, k, c: blurred(lambda d: deep[i, j + d, k, c]), name="blurred_columns")
    tall = tl.compute((rows, columns, shades, 2), lambda i, j, k, c: blurred(lambda d: wide[i + d, j, k, c]), name="blurred_rows")

    def sliced(i: Any, j: Any, c: Any) -> Any:
        shade = tl.clamp(x[i, j] * SHADES, 0, SHADES)
        k = tl.cast(shade, "int32")
        down, right, deeper = real(i % CELL) / CELL, real(j % CELL) / CELL, shade - real(k)

        def between(part: Any, first: Any, second: Any) -> Any:
            return first + part * (second - first)

        def along_shades(p: Any, q: Any) -> Any:
            return between(deeper, tall[p, q, k, c], tall[p, q, k + 1, c])

        y, z = i // CELL, j // CELL
        above, below = (between(right, along_shades(p, z), along_shades(p, z + 1)) for p in (y, y + 1))
        return between(down, above, below)

    slices = tl.compute((h, w, 2), sliced, name="slices")
    filtered = tl.compute((h, w), lambda i, j: slices[i, j, 0] / slices[i, j, 1], name="filtered")
    return filtered, (grey(h, w).astype("float32") / np.float32(255),)


def _bilateral_grid(x: Any, out: Any) -> None:
    h, w = out.shape
    rows, columns, shades, ten = h // 8 + 1, w // 8 + 1, 12, np.float32(10)
    four, six = np.float32(4), np.float32(6)
    grid = np.zeros((rows + 4, columns + 4, shades + 4, 2), np.float32)
    for i in range(h):
        for j in range(w):
            cell = grid[(i + 4) // 8 + 2, (j + 4) // 8 + 2, int(x[i, j] * ten + np.float32(0.5)) + 2]
            cell[0] += x[i, j]
            cell[1] += np.float32(1)
    deep = np.empty((rows + 4, columns + 4, shades, 2), np.float32)
    wide, tall = np.empty((rows + 4, columns, shades, 2), np.float32), np.empty((rows, columns, shades, 2), np.float32)
    for i in range(rows + 4):
        for j in range(columns + 4):
            for k in range(shades):
                for c in range(2):
                    far = grid[i, j, k, c] + grid[i, j, k + 4, c]
                    deep[i, j, k, c] = far + four * (grid[i, j, k + 1, c] + grid[i, j, k + 3, c]) + six * grid[i, j, k + 2, c]
        for j in range(columns):
            for k in range(shades):
                for c in range(2):
                    far = deep[i, j, k, c] + deep[i, j + 4, k, c]
                    wide[i, j, k, c] = far + four * (deep[i, j + 1, k, c] + deep[i, j + 3, k, c]) + six * deep[i, j + 2, k, c]
    for i in range(rows):
        for j in range(columns):
            for k in range(shades):
                for c in range(2):
                    far = wide[i, j, k, c] + wide[i + 4, j, k, c]
                    tall[i, j, k, c] = far + four * (wide[i + 1, j, k, c] + wide[i + 3, j, k, c]) + six * wide[i + 2, j, k, c]
    for i in range(h):
        y, down = i // 8, np.float32(i % 8) / np.float32(8)
        for j in range(w):
            z, right = j // 8, np.float32(j % 8) / np.float32(8)
            shade = x[i, j] * ten
            k = int(shade)
            deeper = shade - np.float32(k)
            total, weight = np.float32(0), np.float32(0)
            for p in range(2):
                for q in range(2):
                    part = (down if p else 1 - down) * (right if q else 1 - right)
                    near, far = tall[y + p, z + q, k], tall[y + p, z + q, k + 1]
                    total += part * (near[0] + deeper * (far[0] - near[0]))
                    weight += part * (near[1] + deeper * (far[1] - near[1]))
            out[i, j] = total / weight


PROGRAMS: Final = named((camera, _camera), (bilateral_grid, _bilateral_grid))
