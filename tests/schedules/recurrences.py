"""Programs whose stages read what they wrote before, and triangular ones: what skewing and exchanging loops is for."""

from __future__ import annotations

from typing import Any

import tensorlang as tl
from tensorlang.definition.tensor import Tensor


def seidel(rows: Any = 6, columns: Any = 9, offsets: tuple[tuple[int, int], ...] = ((0, 1), (1, 0))) -> Tensor:
    """Y[t, j] = X[t, j] + a quarter of Y at each offset before."""
    x = tl.placeholder((rows, columns), name="X")

    def body(t: Any, j: Any, self: Any) -> Any:
        value = x[t, j]
        for up, left in offsets:
            value = value + 0.25 * self[t - up, j - left]
        return value

    result: Tensor = tl.recurrence((rows, columns), body, name="Y")
    return result


def triangular(n: Any = 7, dtype: str = "float32") -> Tensor:
    """Y[i] = sum over k <= i of X[i, k], with the condition in the bounds of k once it is skewed."""
    x = tl.placeholder((n, n), dtype, name="X")
    k = tl.reduce_axis(n, name="k")
    result: Tensor = tl.compute((n,), lambda i: tl.sum(x[i, k], axis=k, where=k <= i), name="Y")
    return result
