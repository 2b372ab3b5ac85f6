"""Tensor Comprehensions: their notation, ranges and reductions inferred, is one way to write a definition."""

import numpy as np

import tensorlang as tl

layer = tl.tc("""
def layer(float(N,K) A, float(M,K) W, float(M) b) -> (O) {
    O(n,m) +=! A(n,k) * W(m,k)
    O(n,m) = fmax(O(n,m) + b(m), 0)
}
""")
rng = np.random.default_rng(0)
a, w, b = rng.standard_normal((6, 8), np.float32), rng.standard_normal((5, 8), np.float32), rng.standard_normal(5, np.float32)
A, W, B = tl.placeholder((6, 8), name="A"), tl.placeholder((5, 8), name="W"), tl.placeholder((5,), name="b")
kernel = tl.build(layer(A, W, B))
found = kernel(a, w, b)
np.testing.assert_allclose(found, np.maximum(a @ w.T + b, 0), rtol=1e-5, atol=1e-6)
print(kernel.signature)
