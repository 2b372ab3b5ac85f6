"""Halide on images: sliding windows of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import halide as hl

from bench.peers.engines.halide_values import VECTOR, Pipeline, parameter
from bench.peers.workload import Array, Workload

TOGETHER: Final = 10
"""Steps in time that are computed row after row, one behind the other."""
STRIP: Final = 32

x, y = hl.Var("x"), hl.Var("y")
yo, yi = hl.Var("yo"), hl.Var("yi")


def jacobi(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Some steps in one pipeline, which is called for the rest."""
    height, width = workload.shapes[0]
    a = parameter(2, "a")
    before: Any = hl.BoundaryConditions.repeat_edge(a, [(0, width), (0, height)])
    steps = []
    for number in range(TOGETHER):
        step = hl.Func(f"step{number}")
        inside = (x >= 1) & (x < width - 1) & (y >= 1) & (y < height - 1)
        mean = hl.f32(0.2) * (before[x, y] + before[x - 1, y] + before[x + 1, y] + before[x, y - 1] + before[x, y + 1])
        step[x, y] = hl.select(inside, mean, before[x, y])
        steps.append(step)
        before = step
    *inner, out = steps
    if scheduled:
        out.bound(x, 0, width).bound(y, 0, height).vectorize(x, VECTOR)
        for step in inner:
            step.store_root().compute_at(out, y).vectorize(x, VECTOR)
    return Pipeline(out, ((a, operands[0]),), repeat=workload.attributes["steps"] // TOGETHER)


def harris(_: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Grey and both slopes slide through strips of rows; the rest is computed where it is used."""
    a = parameter(3, "rgb")
    grey, dx, dy, out = (hl.Func(name) for name in ("grey", "dx", "dy", "out"))
    grey[x, y] = hl.f32(0.299) * a[x, y, 0] + hl.f32(0.587) * a[x, y, 1] + hl.f32(0.114) * a[x, y, 2]

    def slope(parts: Sequence[tuple[int, int]]) -> Any:
        g = [grey[x + i, y + j] for i, j in parts]
        return (g[1] - g[0] + hl.f32(2) * (g[3] - g[2]) + g[5] - g[4]) * hl.f32(1 / 12)

    dx[x, y] = slope(((0, 0), (2, 0), (0, 1), (2, 1), (0, 2), (2, 2)))
    dy[x, y] = slope(((0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2)))

    def box(left: hl.Func, right: hl.Func) -> Any:
        parts = [left[x + i, y + j] * right[x + i, y + j] for j in range(3) for i in range(3)]
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    xx, yy, xy = box(dx, dx), box(dy, dy), box(dx, dy)
    out[x, y] = xx * yy - xy * xy - hl.f32(0.04) * (xx + yy) * (xx + yy)
    if scheduled:
        out.split(y, yo, yi, STRIP).vectorize(x, VECTOR)
        for stage in (grey, dx, dy):
            stage.store_at(out, yo).compute_at(out, yi).vectorize(x, VECTOR)
    return Pipeline(out, ((a, operands[0]),))
