"""Redundancy: what is computed ten times from the same is computed once, and what reaches no output not at all."""

import functools

import numpy as np

from tensorlang import graph
from tensorlang.graph import passes

b = graph.Builder()
x = b.input((5,), name="x")
b("tanh", x)  # nobody reads it
g = b.finish(functools.reduce(lambda one, other: b("add", one, other), [b("exp", x) for _ in range(10)]))
smaller = passes.apply(g, passes.common_subexpressions, passes.dead_code)
print([node.operator for node in smaller.nodes])
assert [node.operator for node in g.nodes].count("exp") == 10
assert [node.operator for node in smaller.nodes].count("exp") == 1
assert "tanh" not in smaller.by_operator
given = np.linspace(0, 1, 5, dtype="float32")
np.testing.assert_allclose(smaller.compile()(given)[0], 10 * np.exp(given), rtol=1e-5)
