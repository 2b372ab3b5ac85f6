"""The cost of a call: a 16-element sum with `out=` against `numpy.add`."""

from __future__ import annotations

import timeit

import numpy as np

import tensorlang as tl
from bench.measure import Figure, interleave


def figures() -> list[Figure]:
    """One figure."""
    x, y = tl.placeholder((16,), name="x"), tl.placeholder((16,), name="y")
    add = tl.build(tl.compute((16,), lambda i: x[i] + y[i], name="z"))
    a, b = np.arange(16, dtype="float32"), np.ones(16, "float32")
    ours, theirs = np.empty(16, "float32"), np.empty(16, "float32")
    pairs = interleave(
        timeit.Timer("call(a, b, out=c)", globals={"call": add, "a": a, "b": b, "c": ours}),
        timeit.Timer("call(a, b, out=c)", globals={"call": np.add, "a": a, "b": b, "c": theirs}),
        pairs=25,
    )
    np.testing.assert_array_equal(ours, theirs)
    return [Figure("call of 16 elements with out=: time of numpy.add", pairs.time_ratio, 4.0, "at most", "x", pairs.facts())]
