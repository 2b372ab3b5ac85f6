"""Folding batch norms into what stands before: written with the matcher, and no norm is left at run time."""

import numpy as np

from tensorlang import graph
from tensorlang.graph import passes, pattern as pm

rng = np.random.default_rng(0)
b = graph.Builder()
x = b.input((1, 3, 8, 8), name="x")
h = b("conv2d", x, rng.standard_normal((4, 3, 3, 3), np.float32))
statistics = rng.random((4, 4), np.float32) + np.float32(0.5)
g = b.finish(b("relu", b("batch_norm", h, *statistics)))

image = rng.standard_normal((1, 3, 8, 8), np.float32)
before = pm.Op("batch_norm", args=(pm.Op("conv2d", args=(...,)), ...))
folded = pm.assert_pass(passes.fold_batch_norm, g, before=before, after=pm.Op("conv2d", args=(...,)), inputs=(image,))
print([node.operator for node in g.nodes], "->", [node.operator for node in folded.nodes])
np.testing.assert_allclose(folded.compile()(image)[0], g.run(image)[0], rtol=1e-4, atol=1e-5)
