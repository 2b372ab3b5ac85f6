"""Programs that several tests of the library ask for."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import kernels

TARGET = "x86-64-v3"


def product(m: int = 12, n: int = 20, k: int = 8, names: str = "ABC", *, weight_first: bool = False, dtype: str = "float32") -> Any:
    """A matrix product, its operands made in either order."""
    shapes = {names[0]: (m, k), names[1]: (k, n)}
    order = reversed(names[:2]) if weight_first else names[:2]
    made = {name: tl.placeholder(shapes[name], dtype, name=name) for name in order}
    return tl.ops.matmul(made[names[0]], made[names[1]], name=names[2])


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    """Random operands of float32."""
    rng = np.random.default_rng(seed)
    return [rng.random(shape, np.float32) - np.float32(0.25) for shape in shapes]


CONV = kernels.Spec("conv2d", ((1, 6, 9, 9), (8, 6, 3, 3)), attributes={"stride": 2, "padding": 1}, layout="NCHW")
