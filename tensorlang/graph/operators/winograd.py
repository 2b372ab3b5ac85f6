"""Convolutions by windows of 3 x 3 in Winograd's way: 16 products for a tile of 2 x 2 results, which take 36 one by one.

    V = D d D'      of each 4 x 4 of the image, two apart       D = 1  0 -1  0     G =  1    0    0      R = 1  1 -1  0
    U = G w G'      of the weight, once                             0  1  1  0         1/2  1/2  1/2         0  1  1 -1
    y = R (sum over channels of U * V) R'                           0  1 -1  0         1/2 -1/2  1/2
                                                                    0  1  0 -1          0    0    1

It is F(2 x 2, 3 x 3) of A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", CVPR 2016 (equations 5 to 9), but that
a row of D and a column of R have the opposite sign: so each row of D is `d[lower] - d[upper]`, but for one. The sum over channels is
sixteen products of matrices. Results are as near to the exact ones as those of other orders of summation: within some units in the last
place of the sum of all magnitudes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.graph.operator import Function, Operator, Pair

TILE: Final = 2
"""Results of a tile along each axis."""
TAPS: Final = 3
"""Of a window along each axis."""
PLACES: Final = TILE + TAPS - 1
"""Elements of the image that a tile reads along each axis, and products for each."""
RANK: Final = 4
"""Axes of a weight."""
G: Final = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))


def winograd_weight(weight: tl.Tensor) -> tl.Tensor:
    """What `conv2d_winograd` multiplies with: (3, 3, C, O) -> (4, 4, C, O)."""
    if weight.shape[:2] != (TAPS, TAPS) or len(weight.shape) != RANK:
        raise tl.DefinitionError(f"winograd_weight takes a weight of (3, 3, C, O), not {weight!r}")
    table = tl.buffer(np.array(G, weight.dtype.numpy), name="G")
    r, s = tl.reduce_axis(TAPS, name="r"), tl.reduce_axis(TAPS, name="s")
    made: tl.Tensor = tl.compute(
        (PLACES, PLACES, *weight.shape[2:]),
        lambda a, b, c, o: tl.sum(table[a, r] * table[b, s] * weight[r, s, c, o], axis=(r, s)),
        name="winograd_weight",
    )
    return made


def conv2d_winograd(input: tl.Tensor, weight: tl.Tensor, bias: tl.Tensor | None = None, padding: Pair = (0, 0)) -> tl.Tensor:
    """`conv2d_channels_last` of (N, H, W, C) with windows of 3 x 3 one apart -> (N, Y, X, O); `weight` is what `winograd_weight` makes."""
    images, high, wide, channels = input.shape
    if weight.shape[:3] != (PLACES, PLACES, channels) or len(weight.shape) != RANK:
        raise tl.DefinitionError(f"conv2d_winograd takes a weight of (4, 4, {channels}, O), as winograd_weight makes it, not {weight!r}")
    outputs = weight.shape[3]
    rows, columns = high + 2 * padding[0] - TAPS + 1, wide + 2 * padding[1] - TAPS + 1
    down, across = -(-rows // TILE), -(-columns // TILE)
    sides = (
        (before, TILE * tiles + TAPS - 1 - size - before) for before, tiles, size in zip(padding, (down, across), (high, wide), strict=True)
    )
    image = tl.pad(input, ((0, 0), *sides, (0, 0)), name="conv2d_pad")
    c = tl.reduce_axis(channels, name="c")
    tiles = tl.compute(
        (PLACES, PLACES, images, down, across, channels),
        lambda a, b, n, i, j, c: _of_data(a, lambda y: _of_data(b, lambda x: image[n, TILE * i + y, TILE * j + x, c])),
        name="conv2d_tiles",
    )
    products = tl.compute(
        (PLACES, PLACES, images, down, across, outputs),
        lambda a, b, n, i, j, o: tl.sum(tiles[a, b, n, i, j, c] * weight[a, b, c, o], axis=c),
        name="conv2d_products",
    )

    def result(n: Any, y: Any, x: Any, o: Any) -> Any:
        row, column = y % TILE, x % TILE
        found = _of_products(row, lambda a: _of_products(column, lambda b: products[a, b, n, y // TILE, x // TILE, o]))
        return found if bias is None else found + bias[o]

    made: tl.Tensor = tl.compute((images, rows, columns, outputs), result, name="conv2d")
    return made


def _of_data(row: Any, at: Callable[[Any], Any]) -> Any:
    """A row of D, of elements at four places: 0 and 2, 1 and 2, 1 and 2, 1 and 3."""
    lower, upper = at((row + 3) // 4), at(2 + row // 3)
    return tl.select(row == 1, lower + upper, lower - upper)


def _of_products(row: Any, at: Callable[[int], Any]) -> Any:
    """A row of R, of elements at four places."""
    return tl.select(row == 0, at(0) + at(1) - at(2), at(1) + at(2) - at(3))


_FUNCTIONS: Final[tuple[Function, ...]] = (winograd_weight, conv2d_winograd)
OPERATORS: Final[tuple[Operator, ...]] = tuple(Operator.of(function) for function in _FUNCTIONS)
