"""NumPy, with OpenBLAS under it: what a user writes without any other library, into arrays that are there where that is possible."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from bench.peers import images, plain
from bench.peers.engines import Candidate, Makers, returned
from bench.peers.workload import Array, Workload, blank


def available() -> None:
    """Always: tensorlang needs it."""


def matmul(a: Array, b: Array) -> Callable[[], Array]:
    """Into an array that is there."""
    return functools.partial(np.matmul, a, b, out=blank(np.matmul(a, b).shape, a.dtype))


def add(a: Array, b: Array) -> Callable[[], Array]:
    """The ufunc that calls are compared with."""
    return functools.partial(np.add, a, b, out=blank(a.shape, a.dtype))


def transpose(a: Array) -> Callable[[], Array]:
    """A copy into an array that is there."""
    out, turned = blank(a.shape[::-1], a.dtype), a.T

    def call() -> Array:
        np.copyto(out, turned)
        return out

    return call


def chain(a: Array) -> Callable[[], Array]:
    """One pass over memory for each operation."""
    out = blank(a.shape, a.dtype)

    def call() -> Array:
        np.multiply(a, np.float32(1.5), out=out)
        np.add(out, np.float32(0.25), out=out)
        np.maximum(out, np.float32(0), out=out)
        return np.multiply(out, a, out=out)

    return call


INTO: Final[Mapping[str, Callable[..., Callable[[], Array]]]] = {"matmul": matmul, "add": add, "transpose": transpose, "chain": chain}
PLAIN: Final = frozenset({*images.OPERATORS, "conv2d", "depthwise", "softmax", "layer_norm", "attention", "jacobi", "harris"})
"""Operators for which the reference's own formula is what one would write; GELU is not one, as NumPy has no error function."""


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """By the tables above; for narrow types NumPy has no kernels worth the name."""
    if not workload.plain_types:
        return {}
    if workload.operator in INTO:
        return {"": lambda: Candidate(INTO[workload.operator](*operands), returned)}
    if workload.operator in PLAIN:
        formula = functools.partial(plain.OPERATORS[workload.operator], workload.attributes, *operands)
        return {"": lambda: Candidate(formula, returned, allocates=True)}
    return {}
