"""What a call costs beside one of `numpy.add`: sixteen elements, so that nothing but the call takes time.

Processor time of this thread; the two alternate, and the median of the ratios counts. Every kind of call is held to `numpy.add` on
NumPy arrays, called alike: with `out=` against with `out=`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import tensorlang as tl
from bench.measure import Figure

SIZE: Final = 16
CALLS: Final = 4000
PAIRS: Final = 25

BOUNDS: Final = {
    "NumPy, out=": 1.0,
    "NumPy, a new array": 1.0,
    "keywords, out=": 1.0,
    "two outputs, out=": 1.5,
    "two outputs, new arrays": 1.5,
    "torch, out=": 3.0,
}
"""Most that each kind of call may take, as a multiple of `numpy.add`."""


def spent(action: Callable[[], Any]) -> float:
    """Seconds of this thread's processor time for so many calls."""
    start = time.thread_time()
    for _ in range(CALLS):
        action()
    return time.thread_time() - start


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any]) -> float:
    """How many times longer ours takes."""
    spent(ours), spent(theirs)
    return statistics.median(spent(ours) / spent(theirs) for _ in range(PAIRS))


def kernels() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A sum, and a sum with a difference."""
    x, y = (tl.placeholder((SIZE,), name=name) for name in ("x", "y"))
    total = tl.compute((SIZE,), lambda i: x[i] + y[i], name="total")
    difference = tl.compute((SIZE,), lambda i: x[i] - y[i], name="difference")
    return tl.build(total), tl.build([total, difference])


def figures() -> list[Figure]:
    """Each kind of call that this environment has the libraries for."""
    add, two = kernels()
    a, b, c, d = (np.ones(SIZE, "float32") for _ in range(4))
    into: Callable[[], Any] = lambda: np.add(a, b, out=c)  # noqa: E731 - one of the calls that are compared
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "NumPy, out=": (lambda: add(a, b, out=c), into),
        "NumPy, a new array": (lambda: add(a, b), lambda: np.add(a, b)),
        "keywords, out=": (lambda: add(x=a, y=b, out=c), into),
        "two outputs, out=": (lambda: two(a, b, out=(c, d)), into),
        "two outputs, new arrays": (lambda: two(a, b), lambda: np.add(a, b)),
    }
    if find_spec("torch"):
        import torch  # noqa: PLC0415 - it is no part of the environment

        ta, tb, tc = (torch.ones(SIZE) for _ in range(3))
        pairs["torch, out="] = (lambda: add(ta, tb, out=tc), into)
    return [
        Figure(f"call, {kind}: time of numpy.add", ratio(*calls), BOUNDS[kind], "at most", "x", {"calls": CALLS, "pairs": PAIRS})
        for kind, calls in pairs.items()
    ]
