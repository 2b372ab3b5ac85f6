"""An imperative front end: the same definitions are evaluated at once, and every value on the way can be looked at."""

import numpy as np

import tensorlang as tl
from tensorlang import graph

x = tl.placeholder((4,), name="x")
doubled = tl.compute((4,), lambda i: 2 * x[i], name="doubled")
given = np.arange(4, dtype="float32")
print(tl.evaluate(doubled, {x: given}))

b = graph.Builder()
value = b.input((4,), name="x")
g = b.finish(b("sigmoid", b("mul", value, 2.0)))
seen = g.inspect(given)
print({name: array.round(3).tolist() for name, array in seen.items()})
np.testing.assert_array_equal(seen["mul"], 2 * given)
np.testing.assert_allclose(g.compile()(given)[0], g.run(given)[0], rtol=1e-6)
