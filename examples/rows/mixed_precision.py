"""Narrow types: operands are kept in bfloat16, products are added up in float32."""

import ml_dtypes
import numpy as np

import tensorlang as tl

A, B = tl.placeholder((16, 64), "bfloat16", name="A"), tl.placeholder((64, 8), "bfloat16", name="B")
k = tl.reduce_axis(64, name="k")
wide = tl.compute((16, 8), lambda i, j: tl.sum(tl.cast(A[i, k], "float32") * tl.cast(B[k, j], "float32"), axis=k), name="wide")
rng = np.random.default_rng(0)
a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((16, 64), (64, 8)))
found = tl.build(wide)(a, b)
np.testing.assert_allclose(found, a.astype("f4") @ b.astype("f4"), rtol=1e-5, atol=1e-5)
print(found.dtype, found.shape)
