"""Rows of a stencil that are computed side by side: every number of them gives every element, and the model takes some where rows share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose

BINOMIAL = (1, 4, 6, 4, 1)


def window(h: int, w: int, dtype: str = "float32", size: int = 5) -> Any:
    x = tl.placeholder((h + size - 1, w + size - 1), dtype, name="X")
    taps = [(a, b) for a in range(size) for b in range(size)]
    return tl.compute((h, w), lambda i, j: sum(BINOMIAL[a] * BINOMIAL[b] * x[i + a, j + b] for a, b in taps), name="Y")


@pytest.mark.parametrize("dtype", ["float32", "uint16", "uint8"])
@pytest.mark.parametrize("shape", [(8, 70), (9, 64), (37, 130)])
def test_every_number_of_rows_gives_the_window(shape: tuple[int, int], dtype: str) -> None:
    h, w = shape
    outputs = window(h, w, dtype)
    x = np.random.default_rng(0).integers(0, 200, (h + 4, w + 4)).astype(dtype)
    wanted = sum(BINOMIAL[a] * BINOMIAL[b] * x[a : a + h, b : b + w].astype("int64") for a in range(5) for b in range(5)).astype(dtype)
    strategy = choose(outputs, target(), 2)
    for rows in (1, 2, 4):
        for parallel in ("none", "outer"):
            s = strategy.schedule({**strategy.default, "rows": rows, "parallel": parallel})
            assert not s.faults and str(s).count("unroll") == (rows > 1)
            np.testing.assert_allclose(tl.build(s)(x), wanted, rtol=1e-5)


@pytest.mark.parametrize("machine", ["znver4", "haswell", "skylake-avx512"])
def test_rows_that_read_rows_of_one_another_stand_side_by_side_by_default(machine: str) -> None:
    assert choose(window(512, 512), target(machine), 1).default["rows"] > 1
    x = tl.placeholder((512, 512), name="X")
    assert "rows" not in choose(tl.compute((512, 508), lambda i, j: x[i, j] + x[i, j + 4], name="Y"), target(machine), 1).default


def test_ends_that_ask_leave_rows_alone() -> None:
    x = tl.placeholder((64, 200), name="X")
    read = [(a, b) for a in (0, 1) for b in (-1, 0, 1)]
    y = tl.compute((63, 200), lambda i, j: sum(x[i + a, tl.clamp(j + b, 0, 199)] for a, b in read), name="Y")
    default = choose(y, target("znver4"), 1).default
    assert default["ends"] and "rows" not in default
