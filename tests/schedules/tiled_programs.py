"""Programs whose stages keep register tiles: windows and contractions, with what stands around them."""

from __future__ import annotations

from collections.abc import Callable

import tensorlang as tl
from tensorlang.definition.tensor import Tensor


def _summed(of: Tensor, rows: int, columns: int, taps: tuple[int, int], name: str, weights: Tensor | None = None) -> Tensor:
    """A sum over a window of `taps` elements."""
    r, q = (tl.reduce_axis(extent, name=f"{name}_{letter}") for extent, letter in zip(taps, "rq", strict=True))

    def element(y: tl.Expr, x: tl.Expr) -> tl.Expr:
        read = of[y + r, x + q]
        return tl.sum(read if weights is None else read * weights[r, q], axis=(r, q))

    found: Tensor = tl.compute((rows, columns), element, name=name)
    return found


def blurred(rows: int, columns: int) -> Tensor:
    """Two windows one after the other, and a mask that sharpens."""
    X = tl.placeholder((rows + 4, columns + 4), name="X")
    wide = _summed(X, rows + 4, columns, (1, 5), "wide")
    both = _summed(wide, rows, columns, (5, 1), "both")
    out: Tensor = tl.compute((rows, columns), lambda y, x: 3.0 * X[y + 2, x + 2] - both[y, x] / 25, name="out")
    return out


def edges(rows: int, columns: int) -> Tensor:
    """Sobel's operator, its two windows with weights of their own."""
    X, V, W = tl.placeholder((rows + 2, columns + 2), name="X"), tl.placeholder((3, 3), name="V"), tl.placeholder((3, 3), name="W")
    dy, dx = _summed(X, rows, columns, (3, 3), "dy", V), _summed(X, rows, columns, (3, 3), "dx", W)
    out: Tensor = tl.compute((rows, columns), lambda y, x: tl.sqrt(dy[y, x] * dy[y, x] + dx[y, x] * dx[y, x]), name="out")
    return out


def unlike(rows: int, columns: int) -> Tensor:
    """Two windows of different sizes, so that they are no sum of pairs, and what reads both."""
    X, V, W = tl.placeholder((rows + 2, columns + 2), name="X"), tl.placeholder((3, 3), name="V"), tl.placeholder((3, 2), name="W")
    dy, dx = _summed(X, rows, columns, (3, 3), "dy", V), _summed(X, rows, columns, (3, 2), "dx", W)
    out: Tensor = tl.compute((rows, columns), lambda y, x: tl.sqrt(dy[y, x] * dy[y, x] + dx[y, x] * dx[y, x]), name="out")
    return out


def corners(rows: int, columns: int) -> Tensor:
    """Harris's corners with sums over windows."""
    X = tl.placeholder((rows + 4, columns + 4), name="X")
    dy = tl.compute((rows + 2, columns + 2), lambda y, x: X[y + 2, x + 1] - X[y, x + 1], name="dy")
    dx = tl.compute((rows + 2, columns + 2), lambda y, x: X[y + 1, x + 2] - X[y + 1, x], name="dx")

    def window(left: Tensor, right: Tensor, name: str) -> Tensor:
        both = tl.compute((rows + 2, columns + 2), lambda y, x: left[y, x] * right[y, x], name=f"{name}_product")
        return _summed(both, rows, columns, (3, 3), name)

    yy, xx, xy = window(dy, dy, "yy"), window(dx, dx, "xx"), window(dx, dy, "xy")
    out: Tensor = tl.compute((rows, columns), lambda y, x: yy[y, x] * xx[y, x] - xy[y, x] * xy[y, x] + yy[y, x], name="out")
    return out


def chained(rows: int, columns: int) -> Tensor:
    """Three weighted windows one after the other, each converted."""
    made = tl.placeholder((rows + 6, columns + 6), name="X")
    for stage in range(3):
        extents = rows + 4 - 2 * stage, columns + 4 - 2 * stage
        total = _summed(made, *extents, (3, 3), f"t{stage}", tl.placeholder((3, 3), name=f"W{stage}"))
        made = tl.compute(extents, lambda y, x, of=total: tl.maximum(of[y, x], 0.1) * 0.5, name=f"s{stage}")
    return made


def separable(rows: int, columns: int) -> Tensor:
    """A depthwise window, an activation, a product over channels, and a pooling."""
    X, W, V = (
        tl.placeholder((5, 2 * rows + 2, 2 * columns + 2), name="X"),
        tl.placeholder((5, 3, 3), name="W"),
        tl.placeholder((7, 5), name="V"),
    )
    r, q, k = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="q"), tl.reduce_axis(5, name="k")
    a, b = tl.reduce_axis(2, name="a"), tl.reduce_axis(2, name="b")
    deep = tl.compute((5, 2 * rows, 2 * columns), lambda c, y, x: tl.sum(X[c, y + r, x + q] * W[c, r, q], axis=(r, q)), name="deep")
    bent = tl.compute((5, 2 * rows, 2 * columns), lambda c, y, x: tl.maximum(deep[c, y, x], 0.0), name="bent")
    point = tl.compute((7, 2 * rows, 2 * columns), lambda o, y, x: tl.sum(V[o, k] * bent[k, y, x], axis=k), name="point")
    out: Tensor = tl.compute((7, rows, columns), lambda o, y, x: tl.max(point[o, 2 * y + a, 2 * x + b], axis=(a, b)), name="out")
    return out


def weights(rows: int, columns: int) -> Tensor:
    """Softmax over the rows of a product."""
    Q, K = tl.placeholder((rows, 16), name="Q"), tl.placeholder((columns, 16), name="K")
    k, a, b = tl.reduce_axis(16, name="k"), tl.reduce_axis(columns, name="a"), tl.reduce_axis(columns, name="b")
    scores = tl.compute((rows, columns), lambda i, j: tl.sum(Q[i, k] * K[j, k], axis=k), name="scores")
    most = tl.compute((rows,), lambda i: tl.max(scores[i, a], axis=a), name="most")
    power = tl.compute((rows, columns), lambda i, j: tl.exp(scores[i, j] - most[i]), name="power")
    total = tl.compute((rows,), lambda i: tl.sum(power[i, b], axis=b), name="total")
    out: Tensor = tl.compute((rows, columns), lambda i, j: power[i, j] / total[i], name="out")
    return out


def normed(rows: int, columns: int) -> Tensor:
    """A product of rows that are normalised before, with a bias."""
    X, W, bias = tl.placeholder((rows, 48), name="X"), tl.placeholder((48, columns), name="W"), tl.placeholder((columns,), name="bias")
    k, a = tl.reduce_axis(48, name="k"), tl.reduce_axis(48, name="a")
    norm = tl.compute((rows,), lambda i: tl.sum(X[i, a] * X[i, a], axis=a), name="norm")
    even = tl.compute((rows, 48), lambda i, j: X[i, j] / tl.sqrt(norm[i] + 0.1), name="even")
    product = tl.compute((rows, columns), lambda i, j: tl.sum(even[i, k] * W[k, j], axis=k), name="product")
    out: Tensor = tl.compute((rows, columns), lambda i, j: tl.maximum(product[i, j] + bias[j], 0.0), name="out")
    return out


PROGRAMS: tuple[Callable[[int, int], Tensor], ...] = (blurred, edges, corners, chained, separable, weights, normed)
