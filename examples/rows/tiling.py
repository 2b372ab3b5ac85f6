"""Tiling and reordering: tiles that do not divide the extents have remainders, which any order of loops computes as well."""

import numpy as np

import tensorlang as tl

M, N, K = 100, 99, 97
A, B = tl.placeholder((M, K), name="A"), tl.placeholder((K, N), name="B")
s = tl.Schedule(tl.ops.matmul(A, B, name="C"))
rows, row = s.split("C.i", 6)
columns, column = s.split("C.j", 16)
s.reorder(rows, columns, "C.k", row, column)
s.vectorize(column)
s.unroll(row)
print(s)
rng = np.random.default_rng(0)
a, b = rng.random((M, K), np.float32), rng.random((K, N), np.float32)
np.testing.assert_allclose(tl.build(s)(a, b), a @ b, rtol=1e-5)
