"""Polyhedra: whether an order is legal is proven; Gauss-Seidel may not run in parallel as it is, and may along its diagonals."""

import numpy as np

import tensorlang as tl

N = 12
start = tl.placeholder((N, N), name="start")


def relaxed(i: tl.Expr, j: tl.Expr, u: tl.Tensor) -> tl.Expr:
    """The neighbours above and to the left are new, the others old."""
    inner = (i > 0) & (i < N - 1) & (j > 0) & (j < N - 1)
    old = start[tl.clamp(i + 1, 0, N - 1), j] + start[i, tl.clamp(j + 1, 0, N - 1)]
    return tl.select(inner, (u[i - 1, j] + u[i, j - 1] + old) / 4, start[i, j])


u = tl.recurrence((N, N), relaxed, dtype="float32", name="u")
s = tl.Schedule(u)
print("in parallel:", s.can("parallel", "u.j").error)
assert not s.can("parallel", "u.i")
assert not s.can("parallel", "u.j")
s.skew("j", by="i")
s.reorder("j_s", "i")
s.parallel("i")

a = np.random.default_rng(0).random((N, N), np.float32)
want = a.copy()
for i in range(1, N - 1):
    for j in range(1, N - 1):
        want[i, j] = (want[i - 1, j] + want[i, j - 1] + a[i + 1, j] + a[i, j + 1]) / 4
np.testing.assert_allclose(tl.build(s)(a), want, rtol=1e-6)
