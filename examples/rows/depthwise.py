"""Depthwise convolutions: few operations for each byte; the report says which of the two bounds a kernel on this machine."""

import numpy as np

import tensorlang as tl

x, w = tl.placeholder((1, 32, 28, 28), name="x"), tl.placeholder((32, 1, 3, 3), name="w")
kernel = tl.build(tl.ops.depthwise_conv2d(x, w, padding=1))
cost = kernel.cost()
moved = 4 * (2 * 32 * 28 * 28 + 32 * 9)
print(cost, "operations for each byte:", round(cost["flops"] / moved, 2))
rng = np.random.default_rng(0)
a, b = rng.standard_normal((1, 32, 28, 28), np.float32), rng.standard_normal((32, 1, 3, 3), np.float32)
padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
want = sum(b[:, 0, r, s, None, None] * padded[:, :, r : r + 28, s : s + 28] for r in range(3) for s in range(3))
np.testing.assert_allclose(kernel(a, b), want, rtol=1e-4, atol=1e-5)
