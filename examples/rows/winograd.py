"""Another algorithm is another definition: a convolution of 3 x 3 by 16 products for four results, where 36 stood, in three expressions."""

from collections.abc import Callable

import numpy as np

import tensorlang as tl
from tensorlang.graph import Builder, passes

SIZE, C = 28, 128
X, U = tl.placeholder((SIZE + 2, SIZE + 2, C), name="X"), tl.placeholder((4, 4, C, C), name="U")
k, tiles = tl.reduce_axis(C, name="k"), (4, 4, SIZE // 2, SIZE // 2, C)


def data(row: tl.Expr, at: Callable[[tl.Expr], tl.Expr]) -> tl.Expr:
    """A row of the transform of the image."""
    lower, upper = at((row + 3) // 4), at(2 + row // 3)
    return tl.select(row == 1, lower + upper, lower - upper)


def result(row: tl.Expr, at: Callable[[int], tl.Expr]) -> tl.Expr:
    """A row of the transform of the products."""
    return tl.select(row == 0, at(0) + at(1) - at(2), at(1) + at(2) - at(3))


V = tl.compute(tiles, lambda a, b, i, j, c: data(a, lambda y: data(b, lambda x: X[2 * i + y, 2 * j + x, c])), name="V")
M = tl.compute(tiles, lambda a, b, i, j, o: tl.sum(V[a, b, i, j, k] * U[a, b, k, o], axis=k), name="M")
Y = tl.compute((SIZE, SIZE, C), lambda y, x, o: result(y % 2, lambda a: result(x % 2, lambda b: M[a, b, y // 2, x // 2, o])), name="Y")

image, weight = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((SIZE, SIZE, C), (3, 3, C, C)))
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], np.float32)
padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
want = sum(padded[r : r + SIZE, s : s + SIZE] @ weight[r, s] for r in range(3) for s in range(3))
np.testing.assert_allclose(tl.build(Y)(padded, np.einsum("ar,bs,rsco->abco", G, G, weight)), want, rtol=1e-3, atol=1e-2)

# A graph takes it layer by layer, where the cost model says that it is faster.
b = Builder()
g = b.finish(b("conv2d_channels_last", b.input((1, SIZE, SIZE, C), name="x"), weight, padding=1))
print((fast := passes.winograd(g, "znver4")).table())
np.testing.assert_allclose(fast.compile()(image[None])[0][0], want, rtol=1e-3, atol=1e-2)
