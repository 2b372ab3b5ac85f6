"""Constant folding: what reads constants alone is computed when the graph is compiled, as the transposed weights of a model are."""

import numpy as np

from tensorlang import graph
from tensorlang.graph import passes

rng = np.random.default_rng(0)
b = graph.Builder()
x = b.input((2, 4), name="x")
array = rng.standard_normal((4, 3), np.float32)
g = b.finish(b("linear", x, b("mul", b("permute", b.constant(array, "weight"), dims=(1, 0)), 2.0)))
folded = passes.apply(g, passes.fold_constants)
print(len(g.nodes), "nodes ->", len(folded.nodes))
assert [node.operator for node in folded.nodes] == ["linear"]
given = rng.standard_normal((2, 4), np.float32)
np.testing.assert_allclose(folded.run(given)[0], given @ (2 * array), rtol=1e-5, atol=1e-6)
