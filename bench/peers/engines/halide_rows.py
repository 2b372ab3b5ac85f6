"""Halide on rows: a row at a time, sums and maxima over lanes by `rfactor`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import halide as hl

from bench.peers.engines.halide_values import VECTOR, Pipeline, parameter
from bench.peers.plain import EPSILON
from bench.peers.workload import Array, Workload

x, y, lane = hl.Var("x"), hl.Var("y"), hl.Var("lane")
outer, inner = hl.RVar("outer"), hl.RVar("inner")


def over_lanes(total: hl.Func, r: Any, row: hl.Func, scheduled: bool) -> None:
    """Schedule a reduction of a row: partial results in a vector, then their own reduction."""
    if not scheduled:
        return
    total.update().split(r.x, outer, inner, 2 * VECTOR, hl.TailStrategy.GuardWithIf)
    partial = total.update().rfactor(inner, lane)
    partial.compute_at(row, y).vectorize(lane, VECTOR).unroll(lane)
    partial.update().reorder(lane, outer).vectorize(lane, VECTOR).unroll(lane)
    total.compute_at(row, y)


def softmax(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Maximum, powers and their sum, quotient."""
    width = workload.shapes[0][1]
    a = parameter(2, "a")
    r = hl.RDom([(0, width)])
    top, power, total, out = (hl.Func(name) for name in ("top", "power", "total", "out"))
    top[y] = hl.Float(32).min()
    top[y] = hl.max(top[y], a[r.x, y])
    power[x, y] = hl.fast_exp(a[x, y] - top[y])
    total[y] = hl.f32(0)
    total[y] += power[r.x, y]
    scale = hl.Func("scale")
    scale[y] = hl.f32(1) / total[y]
    out[x, y] = power[x, y] * scale[y]
    if scheduled:
        out.vectorize(x, VECTOR).unroll(x, 2)
        power.compute_at(out, y).vectorize(x, VECTOR)
        scale.compute_at(out, y)
    over_lanes(top, r, out, scheduled)
    over_lanes(total, r, out, scheduled)
    return Pipeline(out, ((a, operands[0]),))


def layer_norm(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Mean, then variance."""
    width = workload.shapes[0][1]
    a, weight, bias = parameter(2, "a"), parameter(1, "weight"), parameter(1, "bias")
    r = hl.RDom([(0, width)])
    total, square, scale, mean, out = (hl.Func(name) for name in ("total", "square", "scale", "mean", "out"))
    total[y] = hl.f32(0)
    total[y] += a[r.x, y]
    mean[y] = total[y] / width
    square[y] = hl.f32(0)
    square[y] += (a[r.x, y] - mean[y]) * (a[r.x, y] - mean[y])
    scale[y] = hl.f32(1) / hl.sqrt(square[y] / width + hl.f32(EPSILON))
    out[x, y] = (a[x, y] - mean[y]) * scale[y] * weight[x] + bias[x]
    if scheduled:
        out.vectorize(x, VECTOR).unroll(x, 2)
        mean.compute_at(out, y)
        scale.compute_at(out, y)
    over_lanes(total, r, out, scheduled)
    over_lanes(square, r, out, scheduled)
    return Pipeline(out, ((a, operands[0]), (weight, operands[1]), (bias, operands[2])))


def gelu(_: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Halide's error function is a polynomial, so it runs on vectors."""
    a, out = parameter(2, "a"), hl.Func("out")
    out[x, y] = hl.f32(0.5) * a[x, y] * (hl.f32(1) + hl.erf(a[x, y] * hl.f32(math.sqrt(0.5))))
    if scheduled:
        out.vectorize(x, VECTOR).unroll(x, 2)
    return Pipeline(out, ((a, operands[0]),))
