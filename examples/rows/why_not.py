"""Why a pattern does not match: the nearest place, the part that failed, what was expected and what is there, and its line."""

import numpy as np

from tensorlang import graph
from tensorlang.graph import pattern as pm

b = graph.Builder()
b.origins = (graph.Origin("model.py", 12),)
h = b("relu", b("linear", b.input((3, 4)), np.ones((5, 4), "float32")))
g = b.finish(b("batch_norm", h, np.ones(5, "float32"), np.ones(5, "float32")))
found = pm.explain(g, pm.Op("batch_norm", args=(pm.Op("linear", args=(...,)), ...)))
print(found)
assert "expected linear, found relu" in str(found)
assert "model.py:12" in str(found)
assert not pm.explain(g, pm.Op("tanh"))  # nothing comes near, and that is what it says
