"""A recursive filter: each value depends on the two before it.

`tl.recurrence` may read elements of the tensor that it defines, where they come earlier; a read of a later one is refused when it is
written. Time itself cannot run in parallel or in vectors. Channels can: with them along the last axis, a vector advances eight of them.

    python examples/iir_filter.py
"""

import numpy as np
from scipy import signal

import tensorlang as tl

T, CHANNELS = 4000, 64
b, a = ([float(each) for each in row] for row in signal.butter(2, 0.1))  # second order: three coefficients forwards, two backwards

X = tl.placeholder((T, CHANNELS), "float64", name="X")


def step(t: tl.Expr, c: tl.Expr, y: tl.Tensor) -> tl.Expr:
    """The difference equation; what lies before the first sample is zero."""
    forwards = b[0] * X[t, c] + tl.select(t >= 1, b[1] * X[t - 1, c], 0.0) + tl.select(t >= 2, b[2] * X[t - 2, c], 0.0)
    result: tl.Expr = forwards - a[1] * y[t - 1, c] - a[2] * y[t - 2, c]
    return result


Y = tl.recurrence((T, CHANNELS), step, name="Y")
x = np.random.default_rng(0).standard_normal((T, CHANNELS))
want = signal.lfilter(b, a, x, axis=0)

s = tl.Schedule(Y)
print(s)
plain = tl.build(s)
np.testing.assert_allclose(plain(x), want, rtol=1e-9, atol=1e-12)

assert not s.can("parallel", "t")
s.vectorize(s.split("c", 8)[1])
vectors = tl.build(s)
np.testing.assert_allclose(vectors(x), want, rtol=1e-9, atol=1e-12)
print(f"\nplain {1e6 * plain.time(x, repeats=3).min:.0f} us, channels in vectors {1e6 * vectors.time(x, repeats=3).min:.0f} us")

# Reading a later element is no recurrence, and is said so at once.
try:
    tl.recurrence((T,), lambda t, y: y[t + 1] * 0.5, dtype="float64", name="backwards")
except tl.DefinitionError as error:
    print(f"\n{error}")
