"""PolyBench/C 4.2, stencils: adi, fdtd-2d, heat-3d, jacobi-1d, jacobi-2d, seidel-2d."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tests.polybench.kernels import agree, array, operand

T, N = 4, 8


def inside(*axes: Any) -> Any:
    result = None
    for axis in axes:
        test = (axis >= 1) & (axis < N - 1)
        result = test if result is None else result & test
    return result


def alternating(rank: int, formula: Any) -> Any:
    """A and B, each computed from the other in every step, their borders kept."""
    A, B = operand("A", *(N,) * rank), operand("B", *(N,) * rank)

    def step(_: Any, state: Any) -> Any:
        a, b = state
        b1 = tl.compute(A.shape, lambda *i: tl.select(inside(*i), formula(a, i), b[i]), name="B1")
        return tl.compute(A.shape, lambda *i: tl.select(inside(*i), formula(b1, i), a[i]), name="A1"), b1

    return A, B, tl.scan(step, (A, B), T, keep="last", name="S")


def check_alternating(rank: int, formula: Any) -> None:
    A, B, outputs = alternating(rank, formula)
    a, b = array(*(N,) * rank), array(*(N,) * rank)
    x, y = a.copy(), b.copy()
    for _ in range(T):
        for source, target in ((x, y), (y, x)):
            for i in np.ndindex(*(N - 2,) * rank):
                at = tuple(part + 1 for part in i)
                target[at] = formula(source, at)
    agree(outputs, {A: a, B: b}, (x, y))


def near(array_: Any, at: Any, axis: int, by: int) -> Any:
    return array_[tuple(part + by if n == axis else part for n, part in enumerate(at))]


def test_jacobi_1d() -> None:
    check_alternating(1, lambda a, i: 0.33333 * (near(a, i, 0, -1) + a[i] + near(a, i, 0, 1)))


def test_jacobi_2d() -> None:
    check_alternating(2, lambda a, i: 0.2 * (a[i] + near(a, i, 1, -1) + near(a, i, 1, 1) + near(a, i, 0, 1) + near(a, i, 0, -1)))


def test_heat_3d() -> None:
    def formula(a: Any, i: Any) -> Any:
        result = a[i]
        for axis in range(3):
            result = result + 0.125 * (near(a, i, axis, 1) - 2.0 * a[i] + near(a, i, axis, -1))
        return result

    check_alternating(3, formula)


def test_fdtd_2d() -> None:
    X, Y, Z, F = operand("ex", N, N), operand("ey", N, N), operand("hz", N, N), operand("fict", T)

    def step(t: Any, state: Any) -> Any:
        ex, ey, hz = state
        ey1 = tl.compute(
            (N, N), lambda i, j: tl.select(i == 0, F[t], ey[i, j] - 0.5 * (hz[i, j] - hz[tl.maximum(i - 1, 0), j])), name="ey1"
        )
        ex1 = tl.compute(
            (N, N), lambda i, j: tl.select(j == 0, ex[i, j], ex[i, j] - 0.5 * (hz[i, j] - hz[i, tl.maximum(j - 1, 0)])), name="ex1"
        )

        def field(i: Any, j: Any) -> Any:
            curl = 0.7 * (ex1[i, tl.minimum(j + 1, N - 1)] - ex1[i, j] + ey1[tl.minimum(i + 1, N - 1), j] - ey1[i, j])
            return tl.select((i < N - 1) & (j < N - 1), hz[i, j] - curl, hz[i, j])

        return ex1, ey1, tl.compute((N, N), field, name="hz1")

    x, y, z, f = array(N, N), array(N, N), array(N, N), array(T)
    outputs = tl.scan(step, (X, Y, Z), T, keep="last", name="S")
    ex, ey, hz = x.copy(), y.copy(), z.copy()
    for t in range(T):
        ey[0] = f[t]
        for i in range(1, N):
            for j in range(N):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(N):
            for j in range(1, N):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(N - 1):
            for j in range(N - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    agree(outputs, {X: x, Y: y, Z: z, F: f}, (ex, ey, hz))


def test_seidel_2d() -> None:
    A = operand("A", N, N)

    def body(t: Any, i: Any, j: Any, self: Any) -> Any:
        new = self[t, i - 1, j - 1] + self[t, i - 1, j] + self[t, i - 1, j + 1] + self[t, i, j - 1]
        old = self[t - 1, i, j] + self[t - 1, i, j + 1] + self[t - 1, i + 1, j - 1] + self[t - 1, i + 1, j] + self[t - 1, i + 1, j + 1]
        return tl.select((t == 0) | ~inside(i, j), A[i, j], (new + old) / 9.0)

    S = tl.recurrence((T + 1, N, N), body, name="S")
    last = tl.compute((N, N), lambda i, j: S[T, i, j], name="last")
    a = array(N, N)
    want = a.copy()
    for _ in range(T):
        for i in range(1, N - 1):
            for j in range(1, N - 1):
                want[i, j] = want[i - 1 : i + 2, j - 1 : j + 2].sum() / 9.0
    agree(last, {A: a}, want)


def test_adi() -> None:
    steps = float(T)
    mul1, mul2 = 2.0 * N * N / steps, 1.0 * N * N / steps
    a = c = -mul1 / 2.0
    b, d, e = 1.0 + mul1, -mul2 / 2.0, 1.0 + mul2
    f = d
    U = operand("U", N, N)

    def sweep(read: Any, lo: float, mid: float, hi: float, other: float, name: str) -> Any:
        """v[i, j] of the tridiagonal system (lo, mid, hi) along j, whose right side is `read`; borders are 1."""
        p = tl.recurrence(
            (N, N), lambda i, j, self: tl.select(j == 0, 0.0, -hi / (lo * self[i, j - 1] + mid)), dtype="float64", name=f"p{name}"
        )

        def forward(i: Any, j: Any, self: Any) -> Any:
            before = tl.maximum(j - 1, 0)
            side = -other * read(i - 1, j) + (1.0 + 2.0 * other) * read(i, j) - other * read(i + 1, j)
            return tl.select((j == 0) | ~inside(i), 1.0, (side - lo * self[i, j - 1]) / (lo * p[i, before] + mid))

        q = tl.recurrence((N, N), forward, name=f"q{name}")

        def backward(i: Any, n: Any, self: Any) -> Any:  # j = N - 1 - n, from the end
            j = N - 1 - n
            return tl.select((n == 0) | (j == 0), 1.0, p[i, j] * self[i, n - 1] + q[i, j])

        return tl.recurrence((N, N), backward, name=f"v{name}")

    def step(_: Any, u: Any) -> Any:
        columns = sweep(lambda i, j: u[j, tl.clamp(i, 0, N - 1)], a, b, c, d, "1")
        v = tl.compute((N, N), lambda j, i: columns[i, N - 1 - j], name="v")
        rows = sweep(lambda i, j: v[tl.clamp(i, 0, N - 1), j], d, e, f, a, "2")
        return tl.compute((N, N), lambda i, j: tl.select(inside(i), rows[i, N - 1 - j], u[i, j]), name="u")

    out = tl.scan(step, U, T, keep="last", name="S")
    u0 = array(N, N)
    u, v, p, q = u0.copy(), np.ones((N, N)), np.zeros((N, N)), np.zeros((N, N))
    for _ in range(T):
        for i in range(1, N - 1):
            v[0, i], p[i, 0] = 1.0, 0.0
            q[i, 0] = v[0, i]
            for j in range(1, N - 1):
                p[i, j] = -c / (a * p[i, j - 1] + b)
                right = -d * u[j, i - 1] + (1.0 + 2.0 * d) * u[j, i] - f * u[j, i + 1]
                q[i, j] = (right - a * q[i, j - 1]) / (a * p[i, j - 1] + b)
            v[N - 1, i] = 1.0
            for j in range(N - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, N - 1):
            u[i, 0], p[i, 0] = 1.0, 0.0
            q[i, 0] = u[i, 0]
            for j in range(1, N - 1):
                p[i, j] = -f / (d * p[i, j - 1] + e)
                right = -a * v[i - 1, j] + (1.0 + 2.0 * a) * v[i, j] - c * v[i + 1, j]
                q[i, j] = (right - d * q[i, j - 1]) / (d * p[i, j - 1] + e)
            u[i, N - 1] = 1.0
            for j in range(N - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]
    agree(out, {U: u0}, u)
