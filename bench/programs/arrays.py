"""Array programs: distances, forces, statistics, sparse and gathered products, a stage of an FFT."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.programs.program import Made, floats, integers, named, operand


def distances() -> Made:
    """Squared distances between all points of two sets."""
    x, y, k = operand("X", 600, 64), operand("Y", 500, 64), tl.reduce_axis(64)
    return tl.compute((600, 500), lambda i, j: tl.sum((x[i, k] - y[j, k]) ** 2, axis=k), name="D"), (floats(600, 64), floats(500, 64))


def _distances(x: Any, y: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            total = np.float32(0)
            for k in range(x.shape[1]):
                total += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
            out[i, j] = total


def nearest() -> Made:
    """The nearest of 32 centres of each point."""
    x, y, k, c = operand("X", 4000, 16), operand("C", 32, 16), tl.reduce_axis(16), tl.reduce_axis(32)
    apart = tl.compute((4000, 32), lambda i, j: tl.sum((x[i, k] - y[j, k]) ** 2, axis=k), name="D")
    return tl.compute((4000,), lambda i: tl.argmin(apart[i, c], axis=c), name="nearest"), (floats(4000, 16), floats(32, 16))


def _nearest(x: Any, y: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        best, place = np.float32(1e30), 0
        for j in range(y.shape[0]):
            total = np.float32(0)
            for k in range(16):
                total += (x[i, k] - y[j, k]) * (x[i, k] - y[j, k])
            if total < best:
                best, place = total, j
        out[i] = place


def gravity() -> Made:
    """Forces between a thousand bodies."""
    n, j = 1000, tl.reduce_axis(1000)
    at, mass = operand("P", n, 3), operand("M", n)

    def force(i: Any, a: Any) -> Any:
        square = sum((at[j, b] - at[i, b]) * (at[j, b] - at[i, b]) for b in range(3)) + 0.01
        return tl.sum(mass[j] * (at[j, a] - at[i, a]) * (1 / (square * tl.sqrt(square))), axis=j)

    return tl.compute((n, 3), force, name="F"), (floats(n, 3), floats(n))


def _gravity(at: Any, mass: Any, out: Any) -> None:
    for i in range(at.shape[0]):
        fx, fy, fz = np.float32(0), np.float32(0), np.float32(0)
        for j in range(at.shape[0]):
            dx, dy, dz = at[j, 0] - at[i, 0], at[j, 1] - at[i, 1], at[j, 2] - at[i, 2]
            square = dx * dx + dy * dy + dz * dz + np.float32(0.01)
            scale = mass[j] / (square * np.sqrt(square))
            fx, fy, fz = fx + scale * dx, fy + scale * dy, fz + scale * dz
        out[i, 0], out[i, 1], out[i, 2] = fx, fy, fz


def horizontal_diffusion() -> Made:
    """NPBench's stencil of weather models: a Laplacian, limited fluxes, their divergence."""
    rows, columns, levels = 130, 132, 64
    field, weight = operand("field", rows + 4, columns + 4, levels), operand("weight", rows, columns, levels)

    def curvature(i: Any, j: Any, k: Any) -> Any:
        around = field[i + 2, j + 1, k] + field[i, j + 1, k] + field[i + 1, j + 2, k] + field[i + 1, j, k]
        return 4 * field[i + 1, j + 1, k] - around

    laplacian = tl.compute((rows + 2, columns + 2, levels), curvature, name="laplacian")

    def limited(flux: Any, slope: Any) -> Any:
        return tl.select(flux * slope > 0, 0.0, flux)

    across = tl.compute(
        (rows + 1, columns, levels),
        lambda i, j, k: limited(laplacian[i + 1, j + 1, k] - laplacian[i, j + 1, k], field[i + 2, j + 2, k] - field[i + 1, j + 2, k]),
        name="across",
    )
    along = tl.compute(
        (rows, columns + 1, levels),
        lambda i, j, k: limited(laplacian[i + 1, j + 1, k] - laplacian[i + 1, j, k], field[i + 2, j + 2, k] - field[i + 2, j + 1, k]),
        name="along",
    )

    def element(i: Any, j: Any, k: Any) -> Any:
        return field[i + 2, j + 2, k] - weight[i, j, k] * (across[i + 1, j, k] - across[i, j, k] + along[i, j + 1, k] - along[i, j, k])

    return tl.compute((rows, columns, levels), element, name="diffused"), (
        floats(rows + 4, columns + 4, levels),
        floats(rows, columns, levels),
    )


def _horizontal_diffusion(field: Any, weight: Any, out: Any) -> None:
    rows, columns, levels = out.shape
    laplacian = np.empty((rows + 2, columns + 2, levels), np.float32)
    across, along = np.empty((rows + 1, columns, levels), np.float32), np.empty((rows, columns + 1, levels), np.float32)
    for i in range(rows + 2):
        for j in range(columns + 2):
            for k in range(levels):
                around = field[i + 2, j + 1, k] + field[i, j + 1, k] + field[i + 1, j + 2, k] + field[i + 1, j, k]
                laplacian[i, j, k] = np.float32(4) * field[i + 1, j + 1, k] - around
    for i in range(rows + 1):
        for j in range(columns):
            for k in range(levels):
                flux = laplacian[i + 1, j + 1, k] - laplacian[i, j + 1, k]
                across[i, j, k] = np.float32(0) if flux * (field[i + 2, j + 2, k] - field[i + 1, j + 2, k]) > 0 else flux
    for i in range(rows):
        for j in range(columns + 1):
            for k in range(levels):
                flux = laplacian[i + 1, j + 1, k] - laplacian[i + 1, j, k]
                along[i, j, k] = np.float32(0) if flux * (field[i + 2, j + 2, k] - field[i + 2, j + 1, k]) > 0 else flux
    for i in range(rows):
        for j in range(columns):
            for k in range(levels):
                moved = across[i + 1, j, k] - across[i, j, k] + along[i, j + 1, k] - along[i, j, k]
                out[i, j, k] = field[i + 2, j + 2, k] - weight[i, j, k] * moved


def correlation() -> Made:
    """Correlations of the columns of a table."""
    n, m = 1000, 120
    x, r, q, k = operand("X", n, m), tl.reduce_axis(n), tl.reduce_axis(n), tl.reduce_axis(n)
    mean = tl.compute((m,), lambda j: tl.sum(x[r, j], axis=r) / n, name="mean")
    spread = tl.compute((m,), lambda j: tl.sqrt(tl.sum((x[q, j] - mean[j]) ** 2, axis=q) / n), name="spread")
    scaled = tl.compute((n, m), lambda i, j: (x[i, j] - mean[j]) / (spread[j] * math.sqrt(n)), name="scaled")
    return tl.compute((m, m), lambda i, j: tl.sum(scaled[k, i] * scaled[k, j], axis=k), name="correlation"), (floats(n, m),)


def _correlation(x: Any, out: Any) -> None:
    n, m = x.shape
    mean, spread, scaled = np.zeros(m, np.float32), np.zeros(m, np.float32), np.empty((n, m), np.float32)
    for i in range(n):
        for j in range(m):
            mean[j] += x[i, j] / np.float32(n)
    for i in range(n):
        for j in range(m):
            spread[j] += (x[i, j] - mean[j]) ** 2
    for i in range(n):
        for j in range(m):
            scaled[i, j] = (x[i, j] - mean[j]) / np.sqrt(spread[j])
    out[:] = 0
    for k in range(n):
        for i in range(m):
            for j in range(m):
                out[i, j] += scaled[k, i] * scaled[k, j]


def sparse_product() -> Made:
    """A sparse matrix in rows (CSR) by a vector."""
    n, each = 20_000, 16
    pointer, column, value, x = (
        operand("pointer", n + 1, dtype="int64"),
        operand("column", n * each, dtype="int32"),
        operand("value", n * each),
        operand("x", n),
    )

    def row(i: Any) -> Any:
        k = tl.reduce_axis((pointer[i], pointer[i + 1]), within=n * each)
        return tl.sum(value[k] * x[tl.clamp(column[k], 0, n - 1)], axis=k)

    rows = np.arange(0, n * each + 1, each)
    return tl.compute((n,), row, name="y"), (rows, integers(n, "int32", n * each), floats(n * each), floats(n))


def _sparse_product(pointer: Any, column: Any, value: Any, x: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        total = np.float32(0)
        for k in range(pointer[i], pointer[i + 1]):
            total += value[k] * x[column[k]]
        out[i] = total


def butterflies() -> Made:
    """One stage of a fast Fourier transform."""
    n, half = 1 << 16, 256
    re, im, wr, wi = operand("re", n), operand("im", n), operand("wr", half), operand("wi", half)

    def pair(i: Any) -> tuple[Any, Any]:
        k, block, upper = i % half, i // (2 * half) * (2 * half), i // half % 2 == 1
        a, b = block + k, block + k + half
        x, y = re[b] * wr[k] - im[b] * wi[k], re[b] * wi[k] + im[b] * wr[k]
        return tl.select(upper, re[a] - x, re[a] + x), tl.select(upper, im[a] - y, im[a] + y)

    return tl.compute((n,), pair, name="stage"), (floats(n), floats(n), floats(half), floats(half))


def _butterflies(re: Any, im: Any, wr: Any, wi: Any, out: Any, imaginary: Any) -> None:
    half = wr.shape[0]
    for block in range(0, re.shape[0], 2 * half):
        for k in range(half):
            a, b = block + k, block + k + half
            x, y = re[b] * wr[k] - im[b] * wi[k], re[b] * wi[k] + im[b] * wr[k]
            out[a], imaginary[a], out[b], imaginary[b] = re[a] + x, im[a] + y, re[a] - x, im[a] - y


def experts() -> Made:
    """Rows by the one of eight matrices that data names."""
    n, many, depth, width = 256, 8, 64, 64
    x, w, gate, k = operand("X", n, depth), operand("W", many, depth, width), operand("gate", n, dtype="int32"), tl.reduce_axis(depth)
    chosen = tl.compute((n, width), lambda i, j: tl.sum(x[i, k] * w[tl.clamp(gate[i], 0, many - 1), k, j], axis=k), name="Y")
    return chosen, (floats(n, depth), floats(many, depth, width), integers(many, "int32", n))


def _experts(x: Any, w: Any, gate: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i], expert = np.float32(0), gate[i]
        for k in range(x.shape[1]):
            value = x[i, k]
            for j in range(w.shape[2]):
                out[i, j] += value * w[expert, k, j]


def causal_softmax() -> Made:
    """Softmax of the lower triangle of scores."""
    n, k, q = 700, tl.reduce_axis(700), tl.reduce_axis(700)
    s = operand("S", n, n)
    top = tl.compute((n,), lambda i: tl.max(s[i, k], axis=k, where=k <= i), name="top")
    power = tl.compute((n, n), lambda i, j: tl.select(j <= i, tl.exp(s[i, j] - top[i]), 0.0), name="power")
    total = tl.compute((n,), lambda i: tl.sum(power[i, q], axis=q), name="total")
    return tl.compute((n, n), lambda i, j: power[i, j] / total[i], name="P"), (floats(n, n),)


def _causal_softmax(s: Any, out: Any) -> None:
    n = s.shape[0]
    for i in range(n):
        top, total = s[i, 0], np.float32(0)
        for k in range(i + 1):
            top = max(top, s[i, k])
        for k in range(i + 1):
            out[i, k] = np.exp(s[i, k] - top)
            total += out[i, k]
        for k in range(i + 1):
            out[i, k] /= total
        out[i, i + 1 :] = np.float32(0)


def small_products() -> Made:
    """Twenty thousand products of 4 x 4 matrices."""
    n, k = 20_000, tl.reduce_axis(4)
    a, b = operand("A", n, 4, 4), operand("B", n, 4, 4)
    return tl.compute((n, 4, 4), lambda m, i, j: tl.sum(a[m, i, k] * b[m, k, j], axis=k), name="C"), (floats(n, 4, 4), floats(n, 4, 4))


def _small_products(a: Any, b: Any, out: Any) -> None:
    for m in range(a.shape[0]):
        for i in range(4):
            for j in range(4):
                total = np.float32(0)
                for k in range(4):
                    total += a[m, i, k] * b[m, k, j]
                out[m, i, j] = total


def long_filter() -> Made:
    """A filter of 31 taps."""
    n, taps = 100_000, 31
    x, w, k = operand("X", n + taps - 1), operand("W", taps), tl.reduce_axis(taps)
    return tl.compute((n,), lambda i: tl.sum(x[i + k] * w[k], axis=k), name="Y"), (floats(n + taps - 1), floats(taps))


def _long_filter(x: Any, w: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        total = np.float32(0)
        for k in range(w.shape[0]):
            total += x[i + k] * w[k]
        out[i] = total


PROGRAMS: Final = named(
    (distances, _distances),
    (nearest, _nearest),
    (gravity, _gravity),
    (horizontal_diffusion, _horizontal_diffusion),
    (correlation, _correlation),
    (sparse_product, _sparse_product),
    (butterflies, _butterflies),
    (experts, _experts),
    (causal_softmax, _causal_softmax),
    (small_products, _small_products),
    (long_filter, _long_filter),
)
