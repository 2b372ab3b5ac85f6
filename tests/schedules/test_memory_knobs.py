"""Knobs of how memory is walked (blocks of rows, operands asked for ahead, stores past the caches) change no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.caches import Caches
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.dtype import dtype
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose
from tests.thinned import few

SMALL = target("znver3").with_caches(Caches(l1=4 << 10, l2=16 << 10, l3=1 << 20, cores=1))


def turned(rows: int, columns: int) -> Tensor:
    x = tl.placeholder((rows, columns), name="X")
    result: Tensor = tl.compute((columns, rows), lambda i, j: x[j, i], name="T")
    return result


def summed(x: Tensor) -> Tensor:
    k = tl.reduce_axis(x.shape[1], name="k")
    result: Tensor = tl.compute((x.shape[0],), lambda i: tl.sum(x[i, k], axis=k), name="S")
    return result


@pytest.mark.parametrize("shape", few([(600, 77), (130, 514), (2100, 9)], 1))
def test_a_transposition_in_any_blocks_is_right(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    strategy = choose(turned(*shape), SMALL, 1)
    assert strategy.space.contains(strategy.default)
    points = strategy.space.sample(np.random.default_rng(2), 5)
    assert any(point["block"] for point in points)
    assert any(point["prefetch"] for point in points)
    for config in points:
        s = strategy.schedule(config)
        assert not s.faults
        assert ("prefetch X" in print_nest(s.nest)) == bool(config["prefetch"])
        assert np.array_equal(tl.build(s)(x), x.T)


@pytest.mark.parametrize("cpu", ["znver3", "cascadelake", "haswell"])
def test_a_transposition_whose_rows_are_more_than_the_pages_of_a_tlb_goes_in_blocks(cpu: str) -> None:
    strategy = choose(turned(4096, 4096), target(cpu), 1)
    config = strategy.default
    assert config["block"]
    costs = [estimate(strategy.schedule({**config, "block": block}).nest, target(cpu).core).seconds for block in (config["block"], 0)]
    assert costs[0] < 0.9 * costs[1]


def test_a_small_transposition_needs_no_blocks() -> None:
    assert not choose(turned(150, 150), target("znver3"), 1).default["block"]


@pytest.mark.parametrize("ahead", [16, "row"])
def test_rows_that_are_asked_for_ahead_are_right(ahead: Any) -> None:
    x = np.random.default_rng(0).standard_normal((17, 3001)).astype("float32")
    strategy = choose(summed(tl.placeholder((17, 3001), name="X")), SMALL, 1)
    config = {**strategy.default, "prefetch": ahead}
    assert strategy.space.contains(config)
    s = strategy.schedule(config)
    assert "prefetch X" in print_nest(s.nest)
    np.testing.assert_allclose(tl.build(s)(x), x.sum(axis=1, dtype="float64"), rtol=1e-5, atol=1e-4)


def test_a_row_ahead_is_the_same_place_of_the_next_row() -> None:
    strategy = choose(summed(tl.placeholder((16, 4096), name="X")), SMALL, 1)
    s = strategy.schedule({**strategy.default, "prefetch": "row"})
    width = int(strategy.default["vectors"]) * SMALL.lanes(dtype("float32"))
    assert f"+ {4096 // width}" in print_nest(s.nest).split("prefetch")[1].splitlines()[0]


def test_each_pass_over_a_long_row_may_ask_for_the_next_one() -> None:
    x = np.random.default_rng(0).standard_normal((9, 2500)).astype("float32")
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    strategy = choose(tl.ops.softmax(tl.placeholder((9, 2500), name="X")), SMALL, 1)
    assert strategy.default["prefetch"] == strategy.default["softmax_exp.prefetch"] == 0
    assert "softmax.prefetch" not in strategy.default  # it reads what the row has just computed
    for config in ({"prefetch": "row"}, {"softmax_exp.prefetch": "row"}, {"prefetch": 16, "softmax_exp.prefetch": "row"}):
        s = strategy.schedule({**strategy.default, **config})
        assert print_nest(s.nest).count("prefetch X") >= len(config)
        np.testing.assert_allclose(tl.build(s)(x), powers / powers.sum(axis=1, keepdims=True), rtol=1e-4)


def test_operands_that_near_caches_hold_are_not_asked_for() -> None:
    assert "prefetch" not in choose(summed(tl.placeholder((16, 16), name="X")), SMALL, 1).default
    assert "prefetch" not in choose(turned(40, 40), SMALL, 1).default


@pytest.mark.parametrize(
    ("shape", "may"),
    [((400, 28), False), ((400, 1001), False), ((400, 1004), False), ((400, 1000), False), ((400, 1008), True), ((400 * 1001,), True)],
)
def test_rows_that_end_within_a_register_are_not_stored_past_the_caches(shape: tuple[int, ...], may: bool) -> None:
    """Their ends would be stored plainly, to lines of which the rest was just sent away."""
    machine = target("znver4").with_caches(Caches(l1=4 << 10, l2=16 << 10, l3=1 << 20, cores=1))
    strategy = choose(tl.ops.relu(tl.placeholder(shape, name="X")), machine, 1)
    assert ("stream" in strategy.default) == may
    lines = str(tl.build(strategy.schedule(strategy.default | ({"stream": True} if may else {})), target="znver4").inspect("asm"))
    assert ("vmovnt" in lines) == may
    assert not may or len(shape) == 1 or "{%k" not in lines


def test_a_window_may_store_past_the_caches() -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 65, 65)).astype("float32")
    strategy = choose(tl.ops.max_pool2d(tl.placeholder(x.shape, name="X"), 2, stride=1), SMALL, 1)
    assert strategy.default["stream"] is False
    s = strategy.schedule({**strategy.default, "stream": True})
    assert "stream" in print_nest(s.nest)
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(2, 3))
    assert np.array_equal(tl.build(s)(x), windows.max(axis=(4, 5)))


@pytest.mark.parametrize("outputs", [turned(600, 300), summed(tl.placeholder((40, 3000), name="X"))])
def test_a_point_from_before_these_knobs_completes_to_one_that_does_without_them(outputs: Tensor) -> None:
    strategy = choose(outputs, SMALL, 1)
    new = {"block", "prefetch"}
    old = {name: value for name, value in strategy.default.items() if name not in new}
    plain = {name: 0 for name in strategy.default if name in new}
    assert strategy.space.complete(old) == {**old, **plain}
    assert strategy.schedule(strategy.space.complete(old)).directives == strategy.schedule({**old, **plain}).directives
    assert "prefetch" not in print_nest(strategy.schedule({**old, **plain}).nest)
