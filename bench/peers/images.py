"""Convolutions of every kind in NumPy, and the layouts of their operands.

convolution             (1, C, H, W)       (O, C/g, R, S)            (1, O, Y, X)
convolution_nhwc        (1, H, W, C)       (R, S, C/g, O)            (1, Y, X, O)
convolution_blocked     (1, C/b, H, W, b)  (O/b, C/b, R, S, b, b)    (1, O/b, Y, X, b)
convolution_transposed  (1, C, H, W)       (C, O, R, S)              (1, O, Y, X)
convolution_1d          (1, C, W)          (O, C, S)                 (1, O, X)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Attributes: TypeAlias = Mapping[str, int]
Shape: TypeAlias = tuple[int, ...]

NHWC: Final = "convolution_nhwc"
BLOCKED: Final = "convolution_blocked"
LAYOUTS: Final = (NHWC, BLOCKED)
"""Operators whose operands do not lie as those of `convolution`."""


def ordinary(operator: str, x: Array, w: Array) -> tuple[Array, Array]:
    """The operands of `convolution` that are these in their layout."""
    match operator:
        case "convolution_nhwc":
            return x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
        case "convolution_blocked":
            (_, blocks, height, width, block), (outputs, _, rows, columns, _, _) = x.shape, w.shape
            image = x.transpose(0, 1, 4, 2, 3).reshape(1, blocks * block, height, width)
            return image, w.transpose(0, 5, 1, 4, 2, 3).reshape(outputs * block, blocks * block, rows, columns)
        case _:
            return x, w


def restored(operator: str, y: Array, block: int) -> Array:
    """The result of `convolution` in the layout of another operator."""
    match operator:
        case "convolution_nhwc":
            return y.transpose(0, 2, 3, 1)
        case "convolution_blocked":
            _, outputs, height, width = y.shape
            return y.reshape(1, outputs // block, block, height, width).transpose(0, 1, 3, 4, 2)
        case _:
            return y


def result(operator: str, attributes: Attributes, x: Shape, w: Shape) -> Shape:
    """The shape of a result."""
    stride, padding, dilation = attributes["stride"], attributes["padding"], attributes.get("dilation", 1)

    def windows(extent: int, size: int) -> int:
        return (extent + 2 * padding - dilation * (size - 1) - 1) // stride + 1

    match operator:
        case "convolution_nhwc":
            return 1, windows(x[1], w[0]), windows(x[2], w[1]), w[3]
        case "convolution_blocked":
            return 1, w[0], windows(x[2], w[2]), windows(x[3], w[3]), w[5]
        case "convolution_transposed":
            return 1, w[1], *((extent - 1) * stride - 2 * padding + size for extent, size in zip(x[2:], w[2:], strict=True))
        case _:
            return 1, w[0], *(windows(extent, size) for extent, size in zip(x[2:], w[2:], strict=True))


def convolution(attributes: Attributes, x: Array, w: Array) -> Array:
    """For each group windows side by side in a matrix, then a product of matrices."""
    stride, padding, dilation, groups = (attributes.get(name, 1) for name in ("stride", "padding", "dilation", "groups"))
    source = np.pad(x[0], ((0, 0), (padding, padding), (padding, padding)))
    span = tuple(dilation * (size - 1) + 1 for size in w.shape[2:])
    views = np.lib.stride_tricks.sliding_window_view(source, span, axis=(1, 2))[:, ::stride, ::stride, ::dilation, ::dilation]
    _, down, across, *_ = views.shape
    parts = [
        weights.reshape(len(weights), -1) @ part.transpose(0, 3, 4, 1, 2).reshape(-1, down * across)
        for part, weights in zip(np.split(views, groups), np.split(w, groups), strict=True)
    ]
    return np.concatenate(parts).reshape(1, len(w), down, across)


def in_layout(operator: str) -> Callable[[Attributes, Array, Array], Array]:
    """A convolution whose operands lie otherwise."""

    def call(attributes: Attributes, x: Array, w: Array) -> Array:
        return np.ascontiguousarray(restored(operator, convolution(attributes, *ordinary(operator, x, w)), x.shape[-1]))

    return call


def transposed(attributes: Attributes, x: Array, w: Array) -> Array:
    """Each element times the window, added where it falls."""
    stride, padding = attributes["stride"], attributes["padding"]
    (_, _, height, width), (_, outputs, rows, columns) = x.shape, w.shape
    total: Array = np.zeros((outputs, (height - 1) * stride + rows, (width - 1) * stride + columns), x.dtype)
    for r in range(rows):
        for s in range(columns):
            placed = total[:, r : r + stride * (height - 1) + 1 : stride, s : s + stride * (width - 1) + 1 : stride]
            placed += np.tensordot(w[:, :, r, s], x[0], axes=(0, 0))
    return total[None, :, padding : total.shape[1] - padding, padding : total.shape[2] - padding]


def one_dimensional(attributes: Attributes, x: Array, w: Array) -> Array:
    """One shifted product for each tap."""
    padding, stride = attributes["padding"], attributes["stride"]
    source = np.pad(x[0], ((0, 0), (padding, padding)))
    size = result("convolution_1d", attributes, x.shape, w.shape)[-1]
    taps = (w[:, :, s] @ source[:, s : s + stride * (size - 1) + 1 : stride] for s in range(w.shape[2]))
    return np.sum(list(taps), axis=0, dtype=x.dtype)[None]


OPERATORS: Final[Mapping[str, Callable[[Attributes, Array, Array], Array]]] = {
    "convolution": convolution,
    **{operator: in_layout(operator) for operator in LAYOUTS},
    "convolution_transposed": transposed,
    "convolution_1d": one_dimensional,
}
