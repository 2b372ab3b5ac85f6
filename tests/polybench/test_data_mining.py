"""PolyBench/C 4.2, data mining: correlation, covariance."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand

N, M = 11, 7


def mean_of(data: tl.Tensor) -> tl.Tensor:
    i = tl.reduce_axis(N, name="i")
    result: tl.Tensor = tl.compute((M,), lambda j: tl.sum(data[i, j], axis=i) / float(N), name="mean")
    return result


def product(c: tl.Tensor, *, by: float, unit: bool) -> tl.Tensor:
    k = tl.reduce_axis(N, name="k")
    total = tl.compute((M, M), lambda i, j: tl.sum(c[k, i] * c[k, j], axis=k), name="total")
    result: tl.Tensor = tl.compute((M, M), lambda i, j: tl.select((i == j) & unit, 1.0, total[i, j] / by), name="result")
    return result


def test_covariance() -> None:
    data = operand("data", N, M)
    mean = mean_of(data)
    centred = tl.compute((N, M), lambda i, j: data[i, j] - mean[j], name="centred")
    d = array(N, M)
    want = np.zeros((M, M))
    m = [sum(d[i, j] for i in range(N)) / N for j in range(M)]
    for i in range(M):
        for j in range(M):
            want[i, j] = sum((d[k, i] - m[i]) * (d[k, j] - m[j]) for k in range(N)) / (N - 1)
    agree(product(centred, by=N - 1.0, unit=False), {data: d}, want)


def test_correlation() -> None:
    data = operand("data", N, M)
    mean = mean_of(data)
    i = tl.reduce_axis(N, name="i")
    variance = tl.compute((M,), lambda j: tl.sum((data[i, j] - mean[j]) ** 2, axis=i) / float(N), name="variance")
    deviation = tl.compute((M,), lambda j: tl.select(tl.sqrt(variance[j]) <= 0.1, 1.0, tl.sqrt(variance[j])), name="deviation")
    scaled = tl.compute((N, M), lambda i, j: (data[i, j] - mean[j]) / (tl.cast(N**0.5, "float64") * deviation[j]), name="scaled")
    d = array(N, M)
    d[:, 2] = 1.0 + 1e-3 * d[:, 2]
    m = [sum(d[i, j] for i in range(N)) / N for j in range(M)]
    s = [(sum((d[i, j] - m[j]) ** 2 for i in range(N)) / N) ** 0.5 for j in range(M)]
    s = [1.0 if value <= 0.1 else value for value in s]
    want = np.zeros((M, M))
    for a in range(M):
        for b in range(M):
            want[a, b] = 1.0 if a == b else sum((d[k, a] - m[a]) * (d[k, b] - m[b]) for k in range(N)) / (N * s[a] * s[b])
    agree(product(scaled, by=1.0, unit=True), {data: d}, want)
