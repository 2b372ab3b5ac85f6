"""MLIR: the same program at several levels, each of which prints: a graph that reads back, a loop nest, LLVM's own language."""

import numpy as np

import tensorlang as tl
from tensorlang import graph

b = graph.Builder("layer")
x = b.input((4, 8), name="x")
g = b.finish(b("relu", b("linear", x, b.constant(np.ones((3, 8), "float32"), "weight"))))
print(g.to_let())
assert graph.from_let(g.to_let(), {"weight": np.ones((3, 8), "float32")}) == g

schedule = tl.Schedule(tl.ops.relu(tl.placeholder((16,), name="x"), name="y"))
schedule.vectorize(schedule.split("y.i", 8)[1])
print(schedule)

code = tl.build(schedule).inspect("llvm")
assert "noalias" in str(code)
print(str(code).splitlines()[0])
