"""What is summed in order: a histogram made even, a recursive filter."""

from __future__ import annotations

from typing import Any

import halide as hl

from bench.programs.halide.common import REALS, Shape, real, x, xi, xo, y
from bench.programs.photographs import KEPT


def equalised(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """Four histograms, of every fourth column, so that no two counts wait for one another."""
    h, w = shape
    counts, up_to, table, out = (hl.Func(name) for name in ("counts", "up_to", "table", "out"))
    r, v = hl.RDom([(0, w), (0, h)]), hl.RDom([(1, 255)])
    counts[x] = hl.i32(0)
    counts[hl.i32(image[r.x, r.y])] += 1
    up_to[x] = counts[x]
    up_to[v.x] += up_to[v.x - 1]
    table[x] = hl.u8(up_to[x] * 255 // (h * w))
    out[x, y] = table[hl.i32(image[x, y])]
    if by_hand:
        outer, inner, lane = hl.RVar("outer"), hl.RVar("inner"), hl.Var("lane")
        parts = counts.update().split(r.x, outer, inner, 4).rfactor(inner, lane)
        parts.compute_root().vectorize(x, REALS).update().reorder(lane, outer, r.y).unroll(lane)
        counts.compute_root().vectorize(x, REALS)
        up_to.compute_root()
        table.compute_root().vectorize(x, REALS)
        out.unroll(x, 16)
    return out


def iir_blur(shape: Shape, by_hand: bool, image: Any) -> hl.Func:
    """A strip of columns at a time, down, up and turned in tiles; then the same once more."""
    h, w = shape

    def turned(before: Any, extent: int, name: str) -> hl.Func:
        blurred, back, r = hl.Func(f"{name}_blurred"), hl.Func(f"{name}_turned"), hl.RDom([(1, extent - 1)])
        blurred[x, y] = hl.undef(hl.Float(32))
        blurred[x, 0] = before[x, 0]
        blurred[x, r.x] = real(KEPT) * before[x, r.x] + real(1 - KEPT) * blurred[x, r.x - 1]
        rising = extent - 1 - r.x
        blurred[x, rising] = real(KEPT) * blurred[x, rising] + real(1 - KEPT) * blurred[x, rising + 1]
        back[x, y] = blurred[y, x]
        if by_hand:
            tile = hl.Var("tile")
            back.split(y, tile, y, REALS).split(x, xo, xi, REALS).reorder(xi, y, xo, tile).vectorize(xi).unroll(y)
            blurred.compute_at(back, tile)
            for stage in range(3):
                blurred.update(stage).vectorize(x, REALS)
        return back

    first = turned(image, h, "columns")
    second = turned(first, w, "rows")
    if by_hand:
        first.compute_root()
    return second
