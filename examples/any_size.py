"""One kernel for every size, with a version of its own for sizes that are worth it.

Extents made by `tl.dim` are known at run time. The kernel finds them in its arguments, and refuses arguments that do not agree.
`specialize` keeps a second version of the nest for calls in which a condition holds: here rows of whole vectors, without a remainder.

    python examples/any_size.py
"""

import numpy as np
from scipy import special

import tensorlang as tl

n, m = tl.dim("n"), tl.dim("m")
X = tl.placeholder((n, m), name="X")
silu = tl.compute((n, m), lambda i, j: X[i, j] * tl.sigmoid(X[i, j]), name="silu")

s = tl.Schedule(silu)
s.specialize("m % 16 == 0")
s.vectorize(s.split("j", 16, tail="mask")[1])
print(s)
kernel = tl.build(s)

for shape in ((3, 32), (5, 33), (1, 1), (0, 7)):
    x = np.random.default_rng(0).standard_normal(shape, "float32")
    np.testing.assert_allclose(kernel(x), x * special.expit(x), rtol=1e-5, atol=1e-7)
    print(f"{shape}: as SciPy")

# Extents that no argument has are passed by name; wrong arguments are refused before anything is written.
ramp = tl.build(tl.compute((n,), lambda i: tl.cast(i, "float32") / 2, name="ramp"))
np.testing.assert_array_equal(ramp(n=4), [0, 0.5, 1, 1.5])
try:
    kernel(np.zeros((2, 2), "float64"))
except tl.CallError as error:
    print(f"\n{error}")
