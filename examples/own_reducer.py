"""A reducer of one's own: mean and variance in one pass, and a softmax whose row is read once.

A reducer combines partial results. Mean and variance take three values, combined as Chan, Golub and LeVeque do (1979); the greatest value
and the sum of exponentials relative to it take two. Since a reducer is said to be associative and commutative, it can be split, vectorised
and shared among threads like a sum.

    python examples/own_reducer.py
"""

from typing import Any

import numpy as np
from scipy import special

import tensorlang as tl

ROWS, COLUMNS = 4, 4096


def moments(a: Any, b: Any) -> Any:
    """Two (count, mean, sum of squared distances from the mean) as one."""
    count = a[0] + b[0]
    share = tl.select(count > 0, b[0] / tl.maximum(count, 1.0), 0.0)
    apart = b[1] - a[1]
    return count, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share


def exponentials(a: Any, b: Any) -> Any:
    """Two (greatest, sum of exponentials relative to it) as one; nothing was added yet where the sum is zero."""
    top = tl.maximum(a[0], b[0])
    one, other = (tl.select(part[1] == 0, 0.0, part[1] * tl.exp(part[0] - top)) for part in (a, b))
    return top, one + other


X = tl.placeholder((ROWS, COLUMNS), "float64", name="X")
k = tl.reduce_axis(COLUMNS, name="k")
one, zero = tl.cast(1, "float64"), tl.cast(0, "float64")
x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)) * 3 + 1000

# Three values are reduced at a time, and give three tensors of one stage.
welford = tl.reducer(moments, (0.0, 0.0, 0.0), "welford")
count, mean, squares = tl.compute((ROWS,), lambda i: welford((one, X[i, k], zero), axis=k), name="moments")
variance = tl.compute((ROWS,), lambda i: squares[i] / count[i], name="variance")
kernel = tl.build((mean, variance))
for got, expected in zip(kernel(x), (x.mean(1), x.var(1)), strict=True):
    np.testing.assert_allclose(got, expected, rtol=1e-12)
print(f"mean {kernel(x)[0][0]:.6f} and variance {kernel(x)[1][0]:.6f} of row 0, as NumPy has them")

# The same reducer shared out: sixteen partial results for each row, on as many threads as there are.
s = tl.Schedule(mean, variance)
outer, inner = s.split("moments.k", COLUMNS // 16)
s.rfactor(outer)
s.parallel("moments_rf.k_o")
np.testing.assert_allclose(tl.build(s)(x)[1], x.var(1), rtol=1e-12)
print(s)

# The denominator of a softmax, without a pass for the greatest value first.
online = tl.reducer(exponentials, (-np.inf, 0.0), "online_softmax")
top, total = tl.compute((ROWS,), lambda i: online((X[i, k], one), axis=k), name="row")
softmax = tl.compute((ROWS, COLUMNS), lambda i, j: tl.exp(X[i, j] - top[i]) / total[i], name="softmax")
np.testing.assert_allclose(tl.build(softmax)(x), special.softmax(x, axis=1), rtol=1e-10)
print("softmax of every row, as SciPy has it")
