"""Graphs to look at: let-bindings that read back, a table for people, DOT for Graphviz; what is used twice is written once."""

from tensorlang import graph

b = graph.Builder("residual")
x = b.input((2, 4), name="x")
h = b("relu", x)
g = b.finish(b("add", h, b("square", h)))
print(g.to_let())
print(g.table())
print(g.to_dot().splitlines()[0])
assert g.to_let().count("relu(") == 1
assert graph.from_let(g.to_let()) == g
