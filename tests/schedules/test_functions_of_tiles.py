"""Functions of what a register tile sums up: coefficients and sums want registers together, and what does not fit is loaded for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.schedules.strategies import choose

FEW = 9
"""Steps of a sum, so that the function that follows takes as long."""


def likeness(*, function: bool) -> Any:
    """How alike rows and columns are, or how far apart."""
    a, b = tl.placeholder((240, FEW), name="A"), tl.placeholder((FEW, 320), name="B")
    k = tl.reduce_axis(FEW, name="k")
    apart = tl.compute((240, 320), lambda i, j: tl.sum((a[i, k] - b[k, j]) * (a[i, k] - b[k, j]), axis=k), name="apart")
    return tl.compute((240, 320), lambda i, j: tl.exp(-apart[i, j]) if function else 1 - apart[i, j], name="alike")


def seconds(rows: int, vectors: int, target: str) -> float:
    """Those of the function alone."""
    strategy = choose(likeness(function=True), tl.target(target), threads=1)
    point = {**strategy.default, "rows": rows, "vectors": vectors, "epilogue": "fused"}
    assert strategy.space.contains(point)
    return strategy.schedule(point).estimate(tl.target(target)).stages["apart_acc.store"]


@pytest.mark.parametrize(("target", "wide", "narrow"), [("znver4", (6, 4), (4, 2)), ("x86-64-v3", (6, 2), (2, 1))])
def test_a_function_of_a_wide_tile_takes_longer_than_of_a_narrow_one(target: str, wide: tuple[int, int], narrow: tuple[int, int]) -> None:
    assert seconds(*wide, target) > 1.03 * seconds(*narrow, target)


def test_the_tile_that_is_named_computes_the_same() -> None:
    y = likeness(function=True)
    given = [np.random.default_rng(seed).random(shape, np.float32) for seed, shape in ((0, (240, FEW)), (1, (FEW, 320)))]
    want = np.exp(-((given[0][:, :, None] - given[1][None]) ** 2).sum(1))
    np.testing.assert_allclose(tl.build(y)(*given), want, rtol=1e-5)
