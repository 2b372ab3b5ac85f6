"""What each operator means, in NumPy and in the type of its operands: the reference in 64 bits, and NumPy's own entry in 32."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from bench.peers import images

Array: TypeAlias = np.ndarray[Any, Any]
Attributes: TypeAlias = Mapping[str, int]

EPSILON: Final = 1e-5
_erf = np.vectorize(math.erf, otypes=["float64"])


def padded(attributes: Attributes, x: Array) -> Array:
    """The image of a convolution with its border of zeros."""
    pad = attributes["padding"]
    return np.pad(x[0], ((0, 0), (pad, pad), (pad, pad))) if pad else np.asarray(x[0])


def conv2d(attributes: Attributes, x: Array, w: Array) -> Array:
    """Windows side by side in a matrix, then a product of matrices."""
    stride = attributes["stride"]
    windows = np.lib.stride_tricks.sliding_window_view(padded(attributes, x), w.shape[2:], axis=(1, 2))[:, ::stride, ::stride]
    matrix = windows.transpose(0, 3, 4, 1, 2).reshape(w[0].size, -1)
    return np.asarray((w.reshape(w.shape[0], -1) @ matrix).reshape(1, w.shape[0], *windows.shape[1:3]))


def depthwise(attributes: Attributes, x: Array, w: Array) -> Array:
    """One shifted image for each weight."""
    source, stride = padded(attributes, x), attributes["stride"]
    rows, columns = w.shape[2:]
    down, across = ((extent - size) // stride + 1 for extent, size in zip(source.shape[1:], (rows, columns), strict=True))
    total: Array = np.zeros((source.shape[0], down, across), x.dtype)
    for r in range(rows):
        for s in range(columns):
            shifted = source[:, r : r + stride * (down - 1) + 1 : stride, s : s + stride * (across - 1) + 1 : stride]
            total += shifted * w[:, 0, r, s, None, None]
    return np.asarray(total[None])


def softmax(_: Attributes, x: Array) -> Array:
    """Over the last axis."""
    powers: Array = np.exp(x - x.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def layer_norm(_: Attributes, x: Array, weight: Array, bias: Array) -> Array:
    """Over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + x.dtype.type(EPSILON)) * weight + bias)


def gelu(_: Attributes, x: Array) -> Array:
    """The exact one."""
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def chain(_: Attributes, x: Array) -> Array:
    """Four operations on each element."""
    return np.asarray(np.maximum(x * 1.5 + 0.25, 0) * x)


def attention(_: Attributes, q: Array, k: Array, v: Array) -> Array:
    """Without a mask."""
    scale = q.dtype.type(1 / math.sqrt(q.shape[-1]))
    return np.asarray(softmax({}, np.matmul(q, k.swapaxes(-1, -2)) * scale) @ v)


def jacobi(attributes: Attributes, a: Array) -> Array:
    """So many steps, the border kept."""
    old, new = a.copy(), a.copy()
    for _ in range(attributes["steps"]):
        inner = new[1:-1, 1:-1]
        np.add(old[1:-1, 1:-1], old[1:-1, :-2], out=inner)
        inner += old[1:-1, 2:]
        inner += old[:-2, 1:-1]
        inner += old[2:, 1:-1]
        inner *= a.dtype.type(0.2)
        old, new = new, old
    return old


def harris(_: Attributes, rgb: Any) -> Any:
    """Corners: grey, two slopes, sums of their products over 3 x 3, and from these the response. Arrays of torch and JAX will do too."""
    g = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
    dx = (g[:-2, 2:] - g[:-2, :-2] + 2 * (g[1:-1, 2:] - g[1:-1, :-2]) + g[2:, 2:] - g[2:, :-2]) * (1 / 12)
    dy = (g[2:, :-2] - g[:-2, :-2] + 2 * (g[2:, 1:-1] - g[:-2, 1:-1]) + g[2:, 2:] - g[:-2, 2:]) * (1 / 12)

    def box(image: Any) -> Any:
        rows = image[:-2] + image[1:-1] + image[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    xx, yy, xy = box(dx * dx), box(dy * dy), box(dx * dy)
    return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2


OPERATORS: Final[Mapping[str, Callable[..., Array]]] = {
    "matmul": lambda _, a, b: np.matmul(a, b),
    "add": lambda _, a, b: np.add(a, b),
    "transpose": lambda _, a: np.ascontiguousarray(a.T),
    "conv2d": conv2d,
    "depthwise": depthwise,
    **images.OPERATORS,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "gelu": gelu,
    "chain": chain,
    "attention": attention,
    "jacobi": jacobi,
    "harris": harris,
}
