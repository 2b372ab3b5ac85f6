"""Recurrences whose steps are vectors: written out, beside other rows, and the same as step by step."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES


def resonators(blocks: int, steps: int, tones: int) -> Any:
    """Filters that ring at some tones, in each block of a signal."""
    x, w = tl.placeholder((blocks, steps), name="x"), tl.placeholder((tones,), name="w")
    return tl.recurrence((blocks, steps, tones), lambda b, t, k, s: x[b, t] + w[k] * s[b, t - 1, k] - s[b, t - 2, k], name="s")


def rung(x: Any, w: Any) -> Any:
    s = np.zeros((x.shape[0], x.shape[1] + 2, len(w)), np.float32)
    for t in range(x.shape[1]):
        s[:, t + 2] = x[:, t, None] + w * s[:, t + 1] - s[:, t]
    return s[:, 2:]


def given(blocks: int, steps: int, tones: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    return rng.random((blocks, steps), "float32"), rng.random(tones, "float32")


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_that_wait_beside_one_another_are_the_default(machine: str) -> None:
    strategy = choose(resonators(64, 205, 16), target(machine), 1)
    assert strategy.default["chains"] > 1 and strategy.default["steps"] >= 1
    assert not strategy.schedule(strategy.default).faults


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(5, 23, 16), (8, 40, 37)])
def test_every_way_is_that_of_numpy(threads: int, shape: tuple[int, int, int]) -> None:
    """Also where blocks, steps and tones are no multiples of what is written out."""
    strategy, operands = choose(resonators(*shape), target("native"), threads), given(*shape)
    if "steps" not in strategy.default:
        pytest.skip("steps one by one are as fast here")
    knobs = {knob.name: knob.values for knob in strategy.space.knobs if knob.name in ("steps", "chains", "vectors")}
    for values in product(*(values[:3] for values in knobs.values())):
        point = {**strategy.default, **dict(zip(knobs, values, strict=True))}
        if point in strategy.space:
            np.testing.assert_allclose(tl.build(strategy.schedule(point))(*operands), rung(*operands), rtol=2e-4, atol=2e-4)


def test_lanes_that_look_at_one_another_are_no_chains() -> None:
    x = tl.placeholder((64, 64, 32), name="x")
    s = tl.recurrence((64, 64, 32), lambda b, t, k, s: x[b, t, k] + 0.5 * s[b, t - 1, k - 1], name="s")
    assert "chains" not in choose(s, target("znver4"), 1).default


def test_a_scatter_to_both_sides_of_a_place_has_its_lanes_along_the_places() -> None:
    """Two lanes, one for each side, would be a quarter of a vector."""
    x, none = tl.placeholder((5000,), "float64", name="x"), tl.compute((64,), lambda _: tl.cast(0, "float64"), name="none")
    r, side = tl.reduce_axis(5000), tl.reduce_axis(2)
    part = lambda r, side: tl.select(side == 0, 1 - (x[r] - tl.floor(x[r])), x[r] - tl.floor(x[r]))  # noqa: E731
    cell = lambda r, side: tl.clamp(tl.cast(tl.floor(x[r]), "int32") + side, 0, 63)  # noqa: E731
    charge = tl.scatter(none, (r, side), cell, part, name="charge")
    strategy = choose(charge, target("native"), 1)
    s = strategy.schedule({**strategy.default, "lanes": True, "tables": 1})
    assert not s.faults and any("charge.r0_i" in repr(step) and "Vectorize" in repr(step) for step in s.directives)
    given = np.random.default_rng(0).random(5000) * 64
    whole = np.floor(given).astype(int)
    want = np.bincount(np.minimum(whole, 63), 1 - (given - whole), 64) + np.bincount(np.minimum(whole + 1, 63), given - whole, 64)
    np.testing.assert_allclose(tl.build(s)(given), want, rtol=1e-9)
