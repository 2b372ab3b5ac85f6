"""Recurrences along rows: the model knows what waits for what, and the default runs rows together where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import statements
from tensorlang.schedules.model.program import program
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
        past = (found[i - up, j - back] for up, back in distances if i >= up and 0 <= j - back < x.shape[1])
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


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("distances", [[(1, 1), (0, 1)], [(1, 0), (0, 1)], [(1, -1), (1, 0), (0, 1)], [(1, -2), (0, 1)]])
def test_rows_that_wait_for_one_another_run_as_a_wavefront(machine: str, distances: list[tuple[int, int]]) -> None:
    strategy = choose(filtered(*distances), target(machine), 1)
    assert strategy.name == "wavefront" and strategy.default["wavefront"] > 1
    default, serial = (strategy.schedule({**strategy.default, "wavefront": count}) for count in (strategy.default["wavefront"], 0))
    assert not default.faults and seconds(default, target(machine).core) < seconds(serial, target(machine).core)


def test_a_row_begins_so_late_that_what_it_reads_is_there() -> None:
    strategy = choose(filtered((1, -2), (2, -5), (0, 1)), target(), 1)
    schedule = strategy.schedule({**strategy.default, "wavefront": 4, "tile": 4})
    assert not schedule.faults and "s.skew('Y.j', 'Y.i_i', factor=3)" in repr(schedule)


@pytest.mark.parametrize("distances", [[(1, 0)], [(2, 0)], [(1, 1)]])
def test_rows_of_lanes_stay_rows(distances: list[tuple[int, int]]) -> None:
    strategy = choose(filtered(*distances), target(), 1)
    assert strategy.default.get("wavefront", 0) == 0


WAVEFRONTS = [((1, 0), (0, 1)), ((1, -1), (0, 1)), ((1, -2), (2, -5), (0, 2)), ((3, 1), (1, 0), (0, 1))]


@pytest.mark.parametrize("distances", WAVEFRONTS)
@pytest.mark.parametrize("shape", [(21, 150)])
def test_every_point_of_a_wavefront_gives_the_same(shape: tuple[int, int], distances: tuple[tuple[int, int], ...]) -> None:
    x = np.random.default_rng(0).random(shape, dtype=np.float32)
    wanted = expected(x, *distances)
    strategy = choose(filtered(*distances, shape=shape), target(), 1)
    for count in (0, 4, 8):
        for tile in (4, 16):
            s = strategy.schedule({**strategy.default, "wavefront": count, "tile": tile})
            assert not s.faults
            np.testing.assert_allclose(tl.build(s)(x), wanted, rtol=1e-5)


def test_sweeps_of_gauss_and_seidel() -> None:
    """Nine points, of which four are of this sweep and five of the one before (PolyBench's seidel-2d)."""
    sweeps, n = 3, 140
    X = tl.placeholder((n, n), name="X")

    def element(t: Any, i: Any, j: Any, a: Any) -> Any:
        def before(y: Any, x: Any) -> Any:
            return tl.select(t == 0, X[y, x], a[t - 1, y, x])

        above = a[t, i - 1, j - 1] + a[t, i - 1, j] + a[t, i - 1, j + 1] + a[t, i, j - 1]
        below = before(i, j) + before(i, j + 1) + before(i + 1, j - 1) + before(i + 1, j) + before(i + 1, j + 1)
        return tl.select((i > 0) & (i < n - 1) & (j > 0) & (j < n - 1), (above + below) / 9.0, before(i, j))

    A = tl.recurrence((sweeps, n, n), element, name="A")
    strategy = choose(A, target(), 1)
    assert strategy.name == "wavefront" and strategy.default["wavefront"] > 1
    x = np.random.default_rng(0).random((n, n), dtype=np.float32)
    found, wanted = tl.build(A)(x), x.astype(np.float64)
    for t in range(sweeps):
        for i, j in np.ndindex(n - 2, n - 2):
            wanted[i + 1, j + 1] = wanted[i : i + 3, j : j + 3].sum() / 9
        np.testing.assert_allclose(found[t], wanted, rtol=1e-5)


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


def test_a_tile_that_would_be_too_much_code_is_shorter() -> None:
    """Seasons of Holt and Winters, three results of a dozen operations each: they ran one by one where tiles of 16 were refused."""
    n, season = 250, 12
    y = tl.placeholder((150, n), name="y")

    def smoothed(s: Any, i: Any, level: Any, trend: Any, shape: Any) -> Any:
        known = tl.select(i < season, y[s, i] / 2, shape[s, tl.maximum(i - season, 0)])
        now = tl.select(i < season, y[s, i], 0.3 * y[s, i] / known + 0.7 * (level[s, i - 1] + trend[s, i - 1]))
        further = tl.select(i < season, 0.1, 0.05 * (now - level[s, i - 1]) + 0.95 * trend[s, i - 1])
        return now, further, tl.select(i < season, known, 0.2 * y[s, i] / now + 0.8 * known)

    strategy = choose(tl.recurrence((150, n), smoothed, name="smooth"), target("znver4"), 1)
    assert strategy.default["abreast"] == 16
    s = strategy.schedule({**strategy.default, "tile": 16})
    assert not s.faults
    assert any(loop.endswith("s_i") for loop in s.loops("smooth")), "no rows are lanes"
