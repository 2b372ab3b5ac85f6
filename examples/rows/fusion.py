"""Fusion: a layer with its bias, scale, residual and activation is one kernel; what may be fused is read off index expressions."""

import numpy as np

from tensorlang import graph

rng = np.random.default_rng(0)
w = rng.standard_normal((4, 4, 3, 3), np.float32) / 6
b = graph.Builder()
x = b.input((1, 4, 6, 6), name="x")
y = b("relu", b("add", b("conv2d", x, w, np.ones(4, "float32"), padding=1), x))
g = b.finish(b("mul", b("tanh", y), 2.0))
compiled = g.compile()
print(compiled)
assert len(compiled.kernels) == 1
image = rng.standard_normal((1, 4, 6, 6), np.float32)
np.testing.assert_allclose(compiled(image)[0], g.run(image)[0], rtol=1e-4, atol=1e-5)
