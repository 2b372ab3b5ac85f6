"""Patterns: optional elements, alternatives, chains of any length and constraints on attributes, in one expression."""

import numpy as np

from tensorlang import graph
from tensorlang.graph import pattern as pm

b = graph.Builder()
x = b.input((1, 4, 8, 8), name="x")
h = b("conv2d", x, np.ones((4, 4, 3, 3), "float32"), stride=2)
g = b.finish(b("relu", b("mul", b("add", h, 1.0), 2.0)), b("hardswish", h))

convolution = pm.Op("conv2d", args=(..., pm.Tensor().bind("bias") | pm.Absent()), stride=2).shared().bind("conv")
chain = pm.Op(("relu", "gelu"), args=(pm.Chain("add", "mul", onto=convolution, most=5),))
(match,) = pm.match_all(g, chain)
print(match.root, "bias" in match, match.node("conv")["stride"])
assert [node.operator for node in match.nodes].count("conv2d") == 1
assert "bias" not in match
assert not list(pm.match_all(g, ~pm.Op("hardswish") & pm.Op("hardswish")))
