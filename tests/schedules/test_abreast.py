"""Recurrences along rows: the model knows what waits for what, and the default runs rows abreast where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.program import program, statements
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES

ROWS, COLUMNS = 64, 4000


def filtered(*distances: tuple[int, int], shape: tuple[int, int] = (ROWS, COLUMNS)) -> Any:
    X = tl.placeholder(shape, name="X")

    def element(i: Any, j: Any, y: Any) -> Any:
        found = 0.5 * X[i, j]
        for up, back in distances:
            found = found + 0.25 * y[i - up, j - back]
        return found

    return tl.recurrence(shape, element, name="Y")


def expected(x: Any, *distances: tuple[int, int]) -> Any:
    found = np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        past = (found[i - up, j - back] for up, back in distances if i >= up and j >= back)
        found[i, j] = np.float32(0.5) * x[i, j] + sum(np.float32(0.25) * value for value in past)
    return found


def seconds(s: tl.Schedule, core: Any) -> float:
    return float(estimate(s.nest, core).seconds)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_chain_takes_its_latency(machine: str) -> None:
    """Rows that wait for rows have all of a row between two steps; elements that wait for elements have nothing."""
    core = target(machine).core
    up, along = (seconds(tl.Schedule(filtered(apart)), core) for apart in ((1, 0), (0, 1)))
    steps = ROWS * COLUMNS * core.ports.latency / core.hertz
    assert along > 1.3 * up and along > 1.5 * steps  # a product and a sum
    assert seconds(tl.Schedule(filtered((0, 2))), core) < along


def test_what_is_carried_is_told_by_buffer_and_distance() -> None:
    (statement,) = statements(program(tl.Schedule(filtered((0, 1), (1, 2))).nest))
    found = {(buffer, *offsets) for buffer, offsets, _ in statement.carried}
    assert found == {("Y", 0, -1), ("Y", -1, -2)}
    assert all(latency >= 1.75 for *_, latency in statement.carried)


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_that_wait_for_themselves_run_abreast_by_default(machine: str) -> None:
    strategy = choose(filtered((0, 1), (0, 2)), target(machine), 1)
    assert strategy.name == "abreast" and strategy.default["abreast"] > 1


@pytest.mark.parametrize("distances", [[(1, 0)], [(1, 1), (0, 1)], [(2, 0), (0, 1)]])
def test_rows_that_wait_for_one_another_do_not(distances: list[tuple[int, int]]) -> None:
    strategy = choose(filtered(*distances), target(), 1)
    assert strategy.name == "rows"


def test_every_point_gives_the_same() -> None:
    shape, distances = (19, 45), ((0, 1), (0, 3))
    Y = filtered(*distances, shape=shape)
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    wanted = expected(x, *distances)
    strategy = choose(Y, target(), 2)
    assert {"abreast", "tile", "parallel"} <= set(strategy.default)
    for lanes in (0, 4, 8, 16):
        for tile in (4, 8, 16):
            for shared in ("none", "outer"):
                s = strategy.schedule({**strategy.default, "abreast": lanes, "tile": tile, "parallel": shared})
                assert not s.faults
                np.testing.assert_allclose(tl.build(s)(x), wanted, rtol=1e-5)
