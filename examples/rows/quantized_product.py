"""Quantisation: int8 operands with scales and zero points, sums in int32, and a result that is rounded half to even."""

import numpy as np

import tensorlang as tl

A, B = tl.placeholder((16, 32), "int8", name="A"), tl.placeholder((32, 8), "int8", name="B")
k = tl.reduce_axis(32, name="k")
total = tl.compute((16, 8), lambda i, j: tl.sum(tl.cast(A[i, k], "int32") * tl.cast(B[k, j], "int32"), axis=k), name="total")
SCALE, ZERO = 0.004, 3.0
level = tl.compute((16, 8), lambda i, j: tl.round(tl.cast(total[i, j], "float32") * SCALE) + ZERO, name="level")
result = tl.compute((16, 8), lambda i, j: tl.cast(tl.clamp(level[i, j], -128.0, 127.0), "int8"), name="result")

rng = np.random.default_rng(0)
a, b = (rng.integers(-128, 128, shape).astype("int8") for shape in ((16, 32), (32, 8)))
want = np.clip(np.rint((a.astype("i4") @ b.astype("i4")).astype("f4") * np.float32(SCALE)) + ZERO, -128, 127).astype("int8")
found = tl.build(result)(a, b)
np.testing.assert_array_equal(found, want)
print(found[0])
