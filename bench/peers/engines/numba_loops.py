"""The loops that Numba compiles: operands, then the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from bench.peers.engines.numba_stencils import depthwise, harris, jacobi
from bench.peers.plain import EPSILON


def matmul(a: Any, b: Any, out: Any) -> None:
    """A row of the result at a time."""
    out[...] = 0
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]


def add(a: Any, b: Any, out: Any) -> None:
    """Element by element."""
    for i in range(a.size):
        out[i] = a[i] + b[i]


def chain(a: Any, out: Any) -> None:
    """One pass."""
    for i in range(a.size):
        out[i] = max(a[i] * np.float32(1.5) + np.float32(0.25), np.float32(0)) * a[i]


def transpose(a: Any, out: Any) -> None:
    """By blocks."""
    size = 32
    for io in range(0, out.shape[0], size):
        for jo in range(0, out.shape[1], size):
            for i in range(io, min(io + size, out.shape[0])):
                for j in range(jo, min(jo + size, out.shape[1])):
                    out[i, j] = a[j, i]


def softmax(a: Any, out: Any) -> None:
    """A row at a time."""
    for i in range(a.shape[0]):
        top = a[i, 0]
        for j in range(a.shape[1]):
            top = max(top, a[i, j])
        total = np.float32(0)
        for j in range(a.shape[1]):
            out[i, j] = math.exp(a[i, j] - top)
            total += out[i, j]
        scale = np.float32(1) / total
        for j in range(a.shape[1]):
            out[i, j] *= scale


def layer_norm(a: Any, weight: Any, bias: Any, out: Any) -> None:
    """A row at a time."""
    n = a.shape[1]
    for i in range(a.shape[0]):
        total = np.float32(0)
        for j in range(n):
            total += a[i, j]
        mean = total / np.float32(n)
        square = np.float32(0)
        for j in range(n):
            square += (a[i, j] - mean) * (a[i, j] - mean)
        scale = np.float32(1) / np.sqrt(square / np.float32(n) + np.float32(EPSILON))
        for j in range(n):
            out[i, j] = (a[i, j] - mean) * scale * weight[j] + bias[j]


def gelu(a: Any, out: Any) -> None:
    """The exact one."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = np.float32(0.5) * a[i, j] * (np.float32(1) + math.erf(a[i, j] * np.float32(0.7071067811865476)))


OPERATORS: Final[Mapping[str, tuple[Callable[..., None], tuple[str, ...]]]] = {
    "matmul": (matmul, ()),
    "add": (add, ()),
    "chain": (chain, ()),
    "transpose": (transpose, ()),
    "softmax": (softmax, ()),
    "layer_norm": (layer_norm, ()),
    "gelu": (gelu, ()),
    "depthwise": (depthwise, ("stride", "padding")),
    "jacobi": (jacobi, ("steps",)),
    "harris": (harris, ()),
}
"""The function of each operator, and the attributes that it takes after the result."""
