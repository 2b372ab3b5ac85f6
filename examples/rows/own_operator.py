"""Several levels, open: an operator of one's own is one plain function; it then has types, runs, is fused and prints like any other."""

import numpy as np

import tensorlang as tl
from tensorlang import graph


def swish(x: tl.Tensor, beta: float = 1.0) -> tl.Tensor:
    """`x * sigmoid(beta * x)`."""
    made: tl.Tensor = tl.compute(x.shape, lambda *at: x[at] * tl.sigmoid(beta * x[at]), name="swish")
    return made


graph.register("acme.swish", swish)
b = graph.Builder()
x = b.input((2, 3), name="x")
g = b.finish(b("acme.swish", b("linear", x, np.eye(3, dtype="float32")), beta=2))
print(g)
compiled = g.compile()
print(compiled)
assert len(compiled.kernels) == 1
given = np.linspace(-2, 2, 6, dtype="float32").reshape(2, 3)
np.testing.assert_allclose(compiled(given)[0], given / (1 + np.exp(-2 * given)), rtol=1e-5)
