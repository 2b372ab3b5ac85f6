"""PolyBench/C 4.2, solvers: cholesky, durbin, gramschmidt, lu, ludcmp, trisolv."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand

N, M = 9, 11


def definite() -> Any:
    a = array(N, N)
    return a @ a.T + N * np.eye(N)


def test_cholesky() -> None:
    A = operand("A", N, N)
    k = tl.reduce_axis(N, name="k")

    def body(i: Any, j: Any, self: Any) -> Any:
        rest = A[i, j] - tl.sum(self[i, k] * self[j, k], axis=k, where=(k < j) & (j <= i))
        return tl.select(j > i, A[i, j], tl.select(i == j, tl.sqrt(rest), rest / tl.select(j < i, self[j, j], 1.0)))

    L = tl.recurrence((N, N), body, name="L")
    a = definite()
    want = a.copy()
    for i in range(N):
        for j in range(i):
            for k_ in range(j):
                want[i, j] -= want[i, k_] * want[j, k_]
            want[i, j] /= want[j, j]
        for k_ in range(i):
            want[i, i] -= want[i, k_] ** 2
        want[i, i] = np.sqrt(want[i, i])
    agree(L, {A: a}, want)


def factors(A: tl.Tensor) -> tl.Tensor:
    """L below the diagonal, U from it on."""
    k = tl.reduce_axis(N, name="k")

    def body(i: Any, j: Any, self: Any) -> Any:
        rest = A[i, j] - tl.sum(self[i, k] * self[k, j], axis=k, where=(k < i) & (k < j))
        return tl.select(j < i, rest / self[j, j], rest)

    result: tl.Tensor = tl.recurrence((N, N), body, name="LU")
    return result


def factored(a: Any) -> Any:
    lu = a.copy()
    for i in range(N):
        for j in range(i):
            for k in range(j):
                lu[i, j] -= lu[i, k] * lu[k, j]
            lu[i, j] /= lu[j, j]
        for j in range(i, N):
            for k in range(i):
                lu[i, j] -= lu[i, k] * lu[k, j]
    return lu


def test_lu() -> None:
    A = operand("A", N, N)
    a = definite()
    agree(factors(A), {A: a}, factored(a))


def test_ludcmp() -> None:
    A, b = operand("A", N, N), operand("b", N)
    LU = factors(A)
    j = tl.reduce_axis(N, name="j")
    y = tl.recurrence((N,), lambda i, self: b[i] - tl.sum(LU[i, j] * self[j], axis=j, where=j < i), name="y")

    def backward(n: Any, self: Any) -> Any:
        i = N - 1 - n
        return (y[i] - tl.sum(LU[i, j] * self[N - 1 - j], axis=j, where=j > i)) / LU[i, i]

    turned = tl.recurrence((N,), backward, name="turned")
    x = tl.compute((N,), lambda i: turned[N - 1 - i], name="x")
    a, rhs = definite(), array(N)
    lu = factored(a)
    ys, xs = np.zeros(N), np.zeros(N)
    for i in range(N):
        ys[i] = rhs[i] - sum(lu[i, k] * ys[k] for k in range(i))
    for i in reversed(range(N)):
        xs[i] = (ys[i] - sum(lu[i, k] * xs[k] for k in range(i + 1, N))) / lu[i, i]
    agree(x, {A: a, b: rhs}, xs)
    np.testing.assert_allclose(a @ xs, rhs)


def test_trisolv() -> None:
    L, b = operand("L", N, N), operand("b", N)
    j = tl.reduce_axis(N, name="j")
    x = tl.recurrence((N,), lambda i, self: (b[i] - tl.sum(L[i, j] * self[j], axis=j, where=j < i)) / L[i, i], name="x")
    a, rhs = array(N, N) + N * np.eye(N), array(N)
    want = np.zeros(N)
    for i in range(N):
        want[i] = rhs[i]
        for k in range(i):
            want[i] -= a[i, k] * want[k]
        want[i] /= a[i, i]
    agree(x, {L: a, b: rhs}, want)


def test_durbin() -> None:
    r = operand("r", N)
    y0 = tl.compute((N,), lambda i: tl.select(i == 0, -r[0], 0.0), name="y0")
    alpha0 = tl.compute((), lambda: -r[0], name="alpha0")
    beta0 = tl.compute((), lambda: tl.cast(1.0, "float64"), name="beta0")

    def step(t: Any, state: Any) -> Any:
        y, alpha, beta = state
        k = t + 1
        i = tl.reduce_axis(N, name="i")
        new_beta = tl.compute((), lambda: (1.0 - alpha[()] ** 2) * beta[()], name="beta")
        total = tl.compute((), lambda: tl.sum(r[k - i - 1] * y[i], axis=i, where=i < k), name="total")
        new_alpha = tl.compute((), lambda: -(r[k] + total[()]) / new_beta[()], name="alpha")

        def element(i: Any) -> Any:
            return tl.select(i < k, y[i] + new_alpha[()] * y[tl.clamp(k - i - 1, 0, N - 1)], tl.select(i == k, new_alpha[()], y[i]))

        return tl.compute((N,), element, name="y"), new_alpha, new_beta

    y, _, _ = tl.scan(step, (y0, alpha0, beta0), N - 1, keep="last", name="durbin")
    rs = array(N) / 10
    want = np.zeros(N)
    want[0], alpha, beta = -rs[0], -rs[0], 1.0
    for k in range(1, N):
        beta = (1 - alpha * alpha) * beta
        alpha = -(rs[k] + sum(rs[k - i - 1] * want[i] for i in range(k))) / beta
        want[:k] = [want[i] + alpha * want[k - i - 1] for i in range(k)]
        want[k] = alpha
    agree(y, {r: rs}, want)


def test_gramschmidt() -> None:
    A = operand("A", M, N)
    column = tl.compute((M,), lambda _: tl.cast(0.0, "float64"), name="column")
    row = tl.compute((N,), lambda _: tl.cast(0.0, "float64"), name="row")

    def step(k: Any, state: Any) -> Any:
        a, _, _ = state
        i = tl.reduce_axis(M, name="i")
        norm = tl.compute((), lambda: tl.sqrt(tl.sum(a[i, k] ** 2, axis=i)), name="norm")
        q = tl.compute((M,), lambda i: a[i, k] / norm[()], name="q")
        dot = tl.compute((N,), lambda j: tl.sum(q[i] * a[i, j], axis=i, where=j > k), name="dot")
        r = tl.compute((N,), lambda j: tl.select(j == k, norm[()], dot[j]), name="r")
        return tl.compute((M, N), lambda i, j: tl.select(j > k, a[i, j] - q[i] * r[j], a[i, j]), name="a"), q, r

    _, columns, R = tl.scan(step, (A, column, row), N, name="gs")
    Q = tl.compute((M, N), lambda i, k: columns[k, i], name="Q")
    a = array(M, N) + np.eye(M, N) * 3
    left, q, r = a.copy(), np.zeros((M, N)), np.zeros((N, N))
    for k in range(N):
        r[k, k] = np.sqrt(sum(left[i, k] ** 2 for i in range(M)))
        q[:, k] = left[:, k] / r[k, k]
        for j in range(k + 1, N):
            r[k, j] = sum(q[i, k] * left[i, j] for i in range(M))
            left[:, j] -= q[:, k] * r[k, j]
    agree((Q, R), {A: a}, (q, r))
