"""PolyBench/C 4.2, linear algebra kernels: 2mm, 3mm, atax, bicg, doitgen, mvt."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand

P, Q, R, S, T = 5, 6, 7, 8, 9
ALPHA, BETA = 1.5, 1.2


def product(A: tl.Tensor, B: tl.Tensor, name: str) -> tl.Tensor:
    k = tl.reduce_axis(A.shape[1], name="k")
    result: tl.Tensor = tl.compute((A.shape[0], B.shape[1]), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name=name)
    return result


def loops(a: Any, b: Any) -> Any:
    result = np.zeros((len(a), b.shape[1]))
    for i in range(len(a)):
        for j in range(b.shape[1]):
            for k in range(len(b)):
                result[i, j] += a[i, k] * b[k, j]
    return result


def test_2mm() -> None:
    A, B, C, D = operand("A", P, Q), operand("B", Q, R), operand("C", R, S), operand("D", P, S)
    E = product(product(A, B, "AB"), C, "ABC")
    F = tl.compute((P, S), lambda i, j: ALPHA * E[i, j] + BETA * D[i, j], name="F")
    a, b, c, d = array(P, Q), array(Q, R), array(R, S), array(P, S)
    agree(F, {A: a, B: b, C: c, D: d}, ALPHA * loops(loops(a, b), c) + BETA * d)


def test_3mm() -> None:
    A, B, C, D = operand("A", P, Q), operand("B", Q, R), operand("C", R, S), operand("D", S, T)
    G = product(product(A, B, "E"), product(C, D, "F"), "G")
    a, b, c, d = array(P, Q), array(Q, R), array(R, S), array(S, T)
    agree(G, {A: a, B: b, C: c, D: d}, loops(loops(a, b), loops(c, d)))


def test_atax() -> None:
    A, x = operand("A", P, Q), operand("x", Q)
    i, j = tl.reduce_axis(P, name="i"), tl.reduce_axis(Q, name="j")
    t = tl.compute((P,), lambda i: tl.sum(A[i, j] * x[j], axis=j), name="t")
    y = tl.compute((Q,), lambda j: tl.sum(A[i, j] * t[i], axis=i), name="y")
    a, v = array(P, Q), array(Q)
    want = np.zeros(Q)
    for r in range(P):
        inner = sum(a[r, c] * v[c] for c in range(Q))
        for c in range(Q):
            want[c] += a[r, c] * inner
    agree(y, {A: a, x: v}, want)


def test_bicg() -> None:
    A, p, r = operand("A", P, Q), operand("p", Q), operand("r", P)
    i, j = tl.reduce_axis(P, name="i"), tl.reduce_axis(Q, name="j")
    s = tl.compute((Q,), lambda j: tl.sum(r[i] * A[i, j], axis=i), name="s")
    q = tl.compute((P,), lambda i: tl.sum(A[i, j] * p[j], axis=j), name="q")
    a, ps, rs = array(P, Q), array(Q), array(P)
    want_s, want_q = np.zeros(Q), np.zeros(P)
    for row in range(P):
        for column in range(Q):
            want_s[column] += rs[row] * a[row, column]
            want_q[row] += a[row, column] * ps[column]
    agree((s, q), {A: a, p: ps, r: rs}, (want_s, want_q))


def test_doitgen() -> None:
    A, C = operand("A", P, Q, R), operand("C4", R, R)
    s = tl.reduce_axis(R, name="s")
    B = tl.compute((P, Q, R), lambda r, q, p: tl.sum(A[r, q, s] * C[s, p], axis=s), name="B")
    a, c = array(P, Q, R), array(R, R)
    want = a.copy()
    for r in range(P):
        for q in range(Q):
            want[r, q] = [sum(a[r, q, k] * c[k, p] for k in range(R)) for p in range(R)]
    agree(B, {A: a, C: c}, want)


def test_mvt() -> None:
    A, x1, x2, y1, y2 = operand("A", P, P), *(operand(name, P) for name in ("x1", "x2", "y1", "y2"))
    j = tl.reduce_axis(P, name="j")
    z1 = tl.compute((P,), lambda i: x1[i] + tl.sum(A[i, j] * y1[j], axis=j), name="z1")
    z2 = tl.compute((P,), lambda i: x2[i] + tl.sum(A[j, i] * y2[j], axis=j), name="z2")
    a, *vectors = array(P, P), *(array(P) for _ in range(4))
    want1, want2 = vectors[0].copy(), vectors[1].copy()
    for row in range(P):
        for column in range(P):
            want1[row] += a[row, column] * vectors[2][column]
            want2[row] += a[column, row] * vectors[3][column]
    agree((z1, z2), dict(zip((A, x1, x2, y1, y2), (a, *vectors), strict=True)), (want1, want2))
