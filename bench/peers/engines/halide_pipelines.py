"""Halide algorithms and their schedules by hand. Dimensions are innermost first: `x` is the last axis of the array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import halide as hl
import numpy as np

from bench.peers.engines.halide_rows import gelu, layer_norm, softmax
from bench.peers.engines.halide_stencils import harris, jacobi
from bench.peers.engines.halide_values import VECTOR, Pipeline, parameter
from bench.peers.workload import Array, Workload, aligned

x, y, c, n = (hl.Var(name) for name in "xycn")
xo, yo, co, xi, yi, ci = (hl.Var(name) for name in ("xo", "yo", "co", "xi", "yi", "ci"))


def matmul(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """A tile of the result in registers, a panel of B packed for each column of tiles."""
    (m, depth), (_, width) = workload.shapes
    a, b = parameter(2, "a"), parameter(2, "b")
    k = hl.RDom([(0, depth)])
    product, out, panel = hl.Func("product"), hl.Func("out"), hl.Func("panel")
    panel[x, y] = b[x, y]
    product[x, y] = hl.f32(0)
    product[x, y] += a[k.x, y] * panel[x, k.x]
    out[x, y] = product[x, y]
    if scheduled:
        columns, rows = (4 * VECTOR, 6) if width % (4 * VECTOR) == 0 else (3 * VECTOR, 8)
        out.bound(x, 0, width).bound(y, 0, m)
        out.tile(x, y, xo, yo, xi, yi, columns, rows).reorder(xi, yi, yo, xo).vectorize(xi, VECTOR).unroll(xi).unroll(yi)
        product.compute_at(out, yo).bound_extent(x, columns).vectorize(x, VECTOR).unroll(x).unroll(y)
        product.update().reorder(x, y, k.x).vectorize(x, VECTOR).unroll(x).unroll(y).unroll(k.x, 2)
        panel.compute_at(out, xo).vectorize(x, VECTOR).unroll(x)
    return Pipeline(out, ((a, operands[0]), (b, operands[1])))


def conv2d(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Lanes are output channels, so that the image needs no other layout: its elements are broadcast. Weights lie channel by channel."""
    image, weights = operands
    stride, pad = workload.attributes["stride"], workload.attributes["padding"]
    outputs, channels, rows, columns = weights.shape
    height, width = workload.result[0][2:]
    packed = aligned(np.ascontiguousarray(weights.transpose(1, 2, 3, 0)))
    a, w = parameter(4, "image"), parameter(4, "weights")
    source = bordered(a, image.shape, pad)
    r = hl.RDom([(0, columns), (0, rows), (0, channels)])
    product, out = hl.Func("product"), hl.Func("out")
    product[c, x, y] = hl.f32(0)
    product[c, x, y] += source[x * stride + r.x, y * stride + r.y, r.z, 0] * w[c, r.x, r.y, r.z]
    out[x, y, c, n] = product[c, x, y]
    if scheduled:
        pixels = next(size for size in (14, 7, 8) if width % size == 0)
        lanes = (2 if pixels == 14 else 4) * VECTOR
        out.bound(x, 0, width).bound(y, 0, height).bound(c, 0, outputs).bound(n, 0, 1)
        out.split(x, xo, xi, pixels).split(c, co, ci, lanes).reorder(xi, ci, xo, y, co, n).vectorize(xi).unroll(ci, 4)
        product.compute_at(out, xo).bound_extent(c, lanes).bound_extent(x, pixels).vectorize(c, VECTOR).unroll(c).unroll(x)
        product.update().reorder(c, x, r.x, r.y, r.z, y).vectorize(c, VECTOR).unroll(c).unroll(x)
        if pad:
            source.compute_root().vectorize(x, VECTOR, hl.TailStrategy.RoundUp)
    return Pipeline(out, ((a, image), (w, packed)))


def bordered(image: Any, shape: tuple[int, ...], pad: int) -> hl.Func:
    """The image with a border of zeros, which begins at 0."""
    zero, source = hl.BoundaryConditions.constant_exterior, hl.Func("bordered")
    inside = zero(image, hl.f32(0), [(0, extent) for extent in reversed(shape)]) if pad else image
    source[x, y, c, n] = inside[x - pad, y - pad, c, n]
    return source


def depthwise(workload: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Lanes are columns; a channel with its border at a time."""
    image, weights = operands
    stride, pad = workload.attributes["stride"], workload.attributes["padding"]
    rows, columns = weights.shape[2:]
    a, w = parameter(4, "image"), parameter(4, "weights")
    source, out = bordered(a, image.shape, pad), hl.Func("out")
    taps = (source[x * stride + s, y * stride + r, c, n] * w[s, r, 0, c] for r in range(rows) for s in range(columns))
    total = next(taps)
    for tap in taps:
        total += tap
    out[x, y, c, n] = total
    if scheduled:
        height, width = workload.result[0][2:]
        tail = hl.TailStrategy.ShiftInwards if width >= VECTOR else hl.TailStrategy.GuardWithIf
        out.bound(x, 0, width).bound(y, 0, height).bound(n, 0, 1).vectorize(x, VECTOR, tail)
        out.unroll(y, 2, hl.TailStrategy.GuardWithIf)
        source.compute_at(out, c).vectorize(x, VECTOR, hl.TailStrategy.RoundUp)
    return Pipeline(out, ((a, image), (w, weights)))


def chain(_: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Four vectors at a time."""
    a, out = parameter(1, "a"), hl.Func("out")
    out[x] = hl.max(a[x] * hl.f32(1.5) + hl.f32(0.25), hl.f32(0)) * a[x]
    if scheduled:
        out.split(x, xo, xi, 4 * VECTOR).vectorize(xi, VECTOR).unroll(xi)
    return Pipeline(out, ((a, operands[0]),))


def transpose(_: Workload, operands: Sequence[Array], scheduled: bool) -> Pipeline:
    """Tiles whose rows are read as vectors and turned in registers."""
    a, out, tile = parameter(2, "a"), hl.Func("out"), hl.Func("tile")
    tile[x, y] = a[x, y]
    out[x, y] = tile[y, x]
    if scheduled:
        out.tile(x, y, xo, yo, xi, yi, VECTOR, VECTOR).vectorize(xi).unroll(yi)
        tile.in_(out).compute_at(out, xo).vectorize(x).unroll(y)
    return Pipeline(out, ((a, operands[0]),))


OPERATORS: Final[Mapping[str, Callable[[Workload, Sequence[Array], bool], Pipeline]]] = {
    "matmul": matmul,
    "conv2d": conv2d,
    "depthwise": depthwise,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "gelu": gelu,
    "chain": chain,
    "transpose": transpose,
    "jacobi": jacobi,
    "harris": harris,
}
