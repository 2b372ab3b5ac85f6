"""From a sensor to a picture: half rows of the four colours of a Bayer mosaic slide through strips of the picture."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.programs.cameras import STRENGTH, WHITE
from bench.programs.halide.common import REALS, WORDS, Shape, c, real, total, x, y, yi, yo


def mean(a: Any, b: Any) -> Any:
    """Of two words, rounded up; the instruction is of words without a sign."""
    return hl.i16(hl.rounding_halving_add(hl.u16(a), hl.u16(b)))


def apart(a: Any, b: Any) -> Any:
    """How far two words are apart."""
    return hl.absd(a, b)


def camera(_: Shape, by_hand: bool, raw: Any, matrix: Any) -> hl.Func:
    """Pixel (0, 0) of the picture is (8, 8) of the sensor, which is (4, 4) of the four planes; each starts at its own first element."""

    def made(name: str, value: Any) -> hl.Func:
        stage = hl.Func(name)
        stage[x, y] = value
        return stage

    around = hl.max(hl.max(raw[x - 2, y], raw[x + 2, y]), hl.max(raw[x, y - 2], raw[x, y + 2]))
    cool = made("cool", hl.i16(hl.min(raw[x, y], around)))
    gr, r = made("green_r", cool[2 * x, 2 * y]), made("red", cool[2 * x + 1, 2 * y])
    b, gb = made("blue", cool[2 * x, 2 * y + 1]), made("green_b", cool[2 * x + 1, 2 * y + 1])

    def closer(name: str, pair: tuple[Any, Any], other: tuple[Any, Any]) -> hl.Func:
        return made(name, hl.select(apart(*pair) < apart(*other), mean(*pair), mean(*other)))

    g_r = closer("green_at_red", (gb[x, y - 1], gb[x, y]), (gr[x, y], gr[x + 1, y]))
    g_b = closer("green_at_blue", (gr[x, y], gr[x, y + 1]), (gb[x - 1, y], gb[x, y]))

    def along(there: hl.Func, colour: hl.Func, green: hl.Func, ends: tuple[tuple[int, int], ...]) -> Any:
        seen, greens = ([image[x + q, y + p] for p, q in ends] for image in (colour, green))
        return mean(*seen) + there[x, y] - mean(*greens)

    def across(there: hl.Func, colour: hl.Func, green: hl.Func, p: int, q: int) -> Any:
        falling, rising = ((p, q), (p + 1, q + 1)), ((p, q + 1), (p + 1, q))
        steps = [apart(*(colour[x + s, y + t] for t, s in ends)) for ends in (falling, rising)]
        return hl.select(steps[0] < steps[1], *(along(there, colour, green, ends) for ends in (falling, rising)))

    r_gr = made("red_at_gr", along(gr, r, g_r, ((0, -1), (0, 0))))
    b_gr = made("blue_at_gr", along(gr, b, g_b, ((-1, 0), (0, 0))))
    r_gb = made("red_at_gb", along(gb, r, g_r, ((0, 0), (1, 0))))
    b_gb = made("blue_at_gb", along(gb, b, g_b, ((0, 0), (0, 1))))
    r_b, b_r = made("red_at_blue", across(g_b, r, g_r, 0, -1)), made("blue_at_red", across(g_r, b, g_b, -1, 0))

    def woven(name: str, *quarters: hl.Func) -> hl.Func:
        even, odd = (hl.select(x % 2 == 0, *(part[x // 2, y // 2] for part in pair)) for pair in (quarters[:2], quarters[2:]))
        return made(name, hl.select(y % 2 == 0, even, odd))

    colours = woven("reds", r_gr, r, r_b, r_gb), woven("greens", gr, g_r, g_b, gb), woven("blues", b_gr, b_r, b, b_gb)
    curve, shown, columns, out = (hl.Func(name) for name in ("curve", "shown", "columns", "out"))
    light = hl.pow(hl.f32(x) / real(WHITE), real(1 / 2.2))
    curve[x] = hl.u8(real(255) * (real(0.7) * light + real(0.3) * light * light * (real(3) - real(2) * light)) + real(0.5))
    parts = total(hl.i32(matrix[place, c]) * hl.i32(colour[x, y]) for place, colour in enumerate(colours))
    shown[x, y, c] = curve[hl.i32(hl.clamp(hl.i16((parts + hl.i32(matrix[3, c])) >> 8), hl.i16(0), hl.i16(WHITE)))]

    def smooth(before: Any, here: Any, after: Any) -> Any:
        return hl.rounding_halving_add(hl.rounding_halving_add(before, after), here)

    columns[x, y, c] = smooth(shown[x, y - 1, c], shown[x, y, c], shown[x, y + 1, c])
    level = hl.i16(shown[x + 8, y + 8, c])
    soft = hl.i16(smooth(columns[x + 7, y + 8, c], columns[x + 8, y + 8, c], columns[x + 9, y + 8, c]))
    out[c, x, y] = hl.u8_sat(level + ((level - soft) * hl.i16(STRENGTH) >> hl.i16(5)))
    if by_hand:
        curve.compute_root().vectorize(x, REALS)
        out.split(y, yo, yi, 128, hl.TailStrategy.GuardWithIf).reorder(c, x, yi, yo).vectorize(x, 2 * WORDS).unroll(c)
        for stage in (gr, r, b, gb, g_r, g_b):
            stage.store_at(out, yo).compute_at(out, yi).vectorize(x, WORDS)
        shown.store_at(out, yo).compute_at(out, yi).reorder(c, x, y).vectorize(x, WORDS).unroll(c)
    return out
