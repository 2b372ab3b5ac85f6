"""A product in blocks of any order computes what NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose


def product(m: int, k: int, n: int, *, relu: bool = False) -> Tensor:
    """A B, with a rectifier if wanted."""
    c = tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B"))
    return tl.compute((m, n), lambda i, j: tl.maximum(c[i, j], 0), name="R") if relu else c


@pytest.mark.parametrize(
    ("shape", "relu"),
    [
        ((33, 70, 45), True),
        ((16, 1200, 1040), False),
        pytest.param((6, 530, 1024), True, marks=pytest.mark.slow),
        pytest.param((701, 700, 45), False, marks=pytest.mark.slow),
        pytest.param((1500, 300, 45), False, marks=pytest.mark.slow),
    ],
)
def test_blocks_compute_the_product(shape: tuple[int, int, int], relu: bool) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (m, k)).astype("float32"), rng.integers(-4, 5, (k, n)).astype("float32")
    want = np.maximum(a @ b, 0) if relu else a @ b
    outputs = product(m, k, n, relu=relu)
    machine = target("native")
    strategy = choose(outputs, machine, 1)
    blocked = {"order": "kbji", "pack_row": True, "pack_vector": True}
    for changes in ({}, {"depth": 64, "order": "kji", "unroll": 2}, {"depth": 64, **blocked}, blocked):
        config = {**strategy.default, **changes, **({"epilogue": "apart"} if relu and changes else {})}
        if strategy.space.contains(config):
            np.testing.assert_array_equal(tl.build(strategy.schedule(config), machine)(a, b), want)
