"""PolyBench/C 4.2, linear algebra like BLAS: gemm, gemver, gesummv, symm, syr2k, syrk, trmm."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand

N, M, K = 7, 9, 5
ALPHA, BETA = 1.5, 1.2


def test_gemm() -> None:
    A, B, C = operand("A", N, K), operand("B", K, M), operand("C", N, M)
    k = tl.reduce_axis(K, name="k")
    P = tl.compute((N, M), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="P")
    D = tl.compute((N, M), lambda i, j: BETA * C[i, j] + ALPHA * P[i, j], name="D")
    a, b, c = array(N, K), array(K, M), array(N, M)
    want = c * BETA
    for i in range(N):
        for k_ in range(K):
            for j in range(M):
                want[i, j] += ALPHA * a[i, k_] * b[k_, j]
    agree(D, {A: a, B: b, C: c}, want)


def test_gemver() -> None:
    A, u1, v1, u2, v2 = operand("A", N, N), *(operand(name, N) for name in ("u1", "v1", "u2", "v2"))
    y, z = operand("y", N), operand("z", N)
    j = tl.reduce_axis(N, name="j")
    S = tl.compute((N, N), lambda i, j: A[i, j] + u1[i] * v1[j] + u2[i] * v2[j], name="S")
    x = tl.compute((N,), lambda i: BETA * tl.sum(S[j, i] * y[j], axis=j) + z[i], name="x")
    w = tl.compute((N,), lambda i: ALPHA * tl.sum(S[i, j] * x[j], axis=j), name="w")
    arrays = [array(N, N), *(array(N) for _ in range(6))]
    a, p1, q1, p2, q2, ys, zs = (value.copy() for value in arrays)
    xs, ws = np.zeros(N), np.zeros(N)
    for i in range(N):
        for k in range(N):
            a[i, k] += p1[i] * q1[k] + p2[i] * q2[k]
    for i in range(N):
        for k in range(N):
            xs[i] += BETA * a[k, i] * ys[k]
    xs += zs
    for i in range(N):
        for k in range(N):
            ws[i] += ALPHA * a[i, k] * xs[k]
    agree((S, x, w), dict(zip((A, u1, v1, u2, v2, y, z), arrays, strict=True)), (a, xs, ws))


def test_gesummv() -> None:
    A, B, x = operand("A", N, N), operand("B", N, N), operand("x", N)
    j = tl.reduce_axis(N, name="j")
    y = tl.compute((N,), lambda i: ALPHA * tl.sum(A[i, j] * x[j], axis=j) + BETA * tl.sum(B[i, j] * x[j], axis=j), name="y")
    a, b, v = array(N, N), array(N, N), array(N)
    want = np.zeros(N)
    for i in range(N):
        for k in range(N):
            want[i] += ALPHA * a[i, k] * v[k] + BETA * b[i, k] * v[k]
    agree(y, {A: a, B: b, x: v}, want)


def test_symm() -> None:
    A, B, C = operand("A", N, N), operand("B", N, M), operand("C", N, M)
    k = tl.reduce_axis(N, name="k")
    P = tl.compute((N, M), lambda i, j: tl.sum(tl.select(k <= i, A[i, k], A[k, i]) * B[k, j], axis=k), name="P")
    D = tl.compute((N, M), lambda i, j: BETA * C[i, j] + ALPHA * P[i, j], name="D")
    a, b, c = array(N, N), array(N, M), array(N, M)
    want = c.copy()
    for i in range(N):
        for j in range(M):
            rest = 0.0
            for k_ in range(i):
                want[k_, j] += ALPHA * b[i, j] * a[i, k_]
                rest += b[k_, j] * a[i, k_]
            want[i, j] = BETA * want[i, j] + ALPHA * b[i, j] * a[i, i] + ALPHA * rest
    agree(D, {A: a, B: b, C: c}, want)


def test_syr2k() -> None:
    A, B, C = operand("A", N, K), operand("B", N, K), operand("C", N, N)
    k = tl.reduce_axis(K, name="k")
    P = tl.compute((N, N), lambda i, j: tl.sum(A[j, k] * B[i, k] + B[j, k] * A[i, k], axis=k, where=j <= i), name="P")
    D = tl.compute((N, N), lambda i, j: tl.select(j <= i, BETA * C[i, j] + ALPHA * P[i, j], C[i, j]), name="D")
    a, b, c = array(N, K), array(N, K), array(N, N)
    want = c.copy()
    for i in range(N):
        for j in range(i + 1):
            want[i, j] *= BETA
            for k_ in range(K):
                want[i, j] += a[j, k_] * ALPHA * b[i, k_] + b[j, k_] * ALPHA * a[i, k_]
    agree(D, {A: a, B: b, C: c}, want)


def test_syrk() -> None:
    A, C = operand("A", N, K), operand("C", N, N)
    k = tl.reduce_axis(K, name="k")
    P = tl.compute((N, N), lambda i, j: tl.sum(A[i, k] * A[j, k], axis=k, where=j <= i), name="P")
    D = tl.compute((N, N), lambda i, j: tl.select(j <= i, BETA * C[i, j] + ALPHA * P[i, j], C[i, j]), name="D")
    a, c = array(N, K), array(N, N)
    want = c.copy()
    for i in range(N):
        for j in range(i + 1):
            want[i, j] = BETA * want[i, j] + sum(ALPHA * a[i, k_] * a[j, k_] for k_ in range(K))
    agree(D, {A: a, C: c}, want)


def test_trmm() -> None:
    A, B = operand("A", N, N), operand("B", N, M)
    k = tl.reduce_axis(N, name="k")
    D = tl.compute((N, M), lambda i, j: ALPHA * (B[i, j] + tl.sum(A[k, i] * B[k, j], axis=k, where=k > i)), name="D")
    a, b = array(N, N), array(N, M)
    want = b.copy()
    for i in range(N):
        for j in range(M):
            for k_ in range(i + 1, N):
                want[i, j] += a[k_, i] * want[k_, j]
            want[i, j] *= ALPHA
    agree(D, {A: a, B: b}, want)
