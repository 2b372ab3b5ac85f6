"""Threads for what no stage shares by itself: columns of recurrences, stages that met in one loop, what stands in the rows of little."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.ir import For
from tensorlang.ir.traverse import statements
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.thread_loop import AWAKE, seconds_of_forks

MACHINE = target("znver3")


def parallel(s: Schedule) -> list[str]:
    return [loop.loop for loop in statements(s.nest.body) if isinstance(loop, For) and loop.kind == "parallel"]


def decay(rows: int, columns: int) -> Any:
    x = tl.placeholder((rows, columns), name="x")
    return tl.recurrence((rows, columns), lambda i, j, y: 0.5 * y[i - 1, j] + x[i, j], name="y")


def two_passes(n: int) -> Any:
    """Means of values that another stage has just made of their neighbours, in its rows."""
    x = tl.placeholder((n, n), name="x")
    mean = tl.compute((n, n), lambda i, j: tl.exp(x[i, j] - x[tl.maximum(i - 1, 0), j]), name="mean")
    return tl.compute((n, n), lambda i, j: mean[i, j] + mean[tl.minimum(i + 1, n - 1), j], name="out")


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("columns", [2048, 2000, 4099])
def test_threads_have_stretches_of_the_columns_of_a_recurrence(columns: int, threads: int) -> None:
    strategy = choose(decay(60, columns), MACHINE, threads)
    s = strategy.schedule(strategy.default)
    assert len(parallel(s)) == 1 and s.loops("y")[0] == parallel(s)[0]  # around the rows, which wait for one another
    given = np.random.default_rng(0).random((60, columns), dtype=np.float32)
    expected = given.copy()
    for row in range(1, 60):
        expected[row] += np.float32(0.5) * expected[row - 1]
    assert np.allclose(tl.build(s)(given), expected, rtol=1e-5)


def test_a_recurrence_of_little_work_stays_on_one_thread() -> None:
    strategy = choose(decay(8, 32), MACHINE, 2)
    assert not parallel(strategy.schedule(strategy.default))


@pytest.mark.parametrize("definition", [decay(60, 2048), two_passes(400)])
def test_it_is_a_knob_whether_they_do(definition: Any) -> None:
    strategy = choose(definition, MACHINE, 2)
    assert strategy.default["shared"] is True
    alone = {name: "none" if name.endswith("parallel") else value for name, value in strategy.default.items()}
    assert not parallel(strategy.schedule({**alone, "shared": False})) and parallel(strategy.schedule({**alone, "shared": True}))
    assert "shared" not in choose(definition, MACHINE, 1).default


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("n", [1 << 20, (1 << 20) - 77])
def test_each_thread_counts_in_a_table_of_its_own(n: int, threads: int) -> None:
    x, k = tl.placeholder((n,), "uint8", name="x"), tl.reduce_axis(n, name="k")
    none = tl.compute((256,), lambda _: tl.cast(0, "int32"), name="none")
    counts = tl.scatter(none, (k,), lambda k: tl.cast(x[k], "int32"), lambda k: tl.cast(1, "int32"), name="counts")
    strategy = choose(counts, MACHINE, threads)
    s = strategy.schedule(strategy.default)
    assert len(parallel(s)) == 1
    given = np.random.default_rng(0).integers(0, 256, n, dtype=np.uint8)
    assert np.array_equal(tl.build(s)(given), np.bincount(given, minlength=256))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(("rows", "cell", "shift"), [(1024, 8, 4), (1000, 7, 0), (1001, 10, 13)])
def test_each_thread_adds_to_cells_of_its_own(rows: int, cell: int, shift: int, threads: int) -> None:
    x, i, j = tl.placeholder((rows, 1000), name="x"), tl.reduce_axis(rows, name="i"), tl.reduce_axis(1000, name="j")
    none = tl.compute(((rows + shift) // cell + 1, 11), lambda *_: tl.cast(0, "float32"), name="none")

    def place(i: Any, j: Any) -> Any:
        return (i + shift) // cell, tl.cast(tl.clamp(x[i, j] * 10, 0, 10), "int32")

    grid = tl.scatter(none, (i, j), place, lambda i, j: x[i, j], name="grid")
    alone, shared = (strategy.schedule(strategy.default) for strategy in (choose(grid, MACHINE, count) for count in (1, threads)))
    assert len(parallel(shared)) == 1
    given = np.random.default_rng(0).random((rows, 1000), dtype=np.float32)
    expected = np.zeros(((rows + shift) // cell + 1, 11), np.float32)
    np.add.at(expected, ((np.arange(rows)[:, None] + shift) // cell, (given * np.float32(10)).astype(int)), given)
    found = tl.build(shared)(given)
    assert np.allclose(found, expected, rtol=1e-4)
    assert np.array_equal(found, tl.build(alone)(given))  # each place is added to in the same order


def test_partial_sums_that_are_rounded_are_not_reordered() -> None:
    x, k = tl.placeholder((1 << 20,), name="x"), tl.reduce_axis(1 << 20, name="k")
    strategy = choose(tl.compute((1,), lambda i: tl.sum(x[k], axis=k), name="s"), MACHINE, 2)
    assert not parallel(strategy.schedule(strategy.default))


def test_none_is_shared_twice_and_none_inside_another() -> None:
    strategy = choose(two_passes(400), MACHINE, 2)
    s = strategy.schedule(strategy.default)
    inside = [loop.loop for part in statements(s.nest.body) if isinstance(part, For) and part.kind == "parallel" for loop in within(part)]
    assert parallel(s) and not inside


def within(loop: For) -> Sequence[For]:
    return [part for part in statements(loop.body) if isinstance(part, For) and part.kind == "parallel"]


def test_a_fork_that_follows_another_finds_threads_awake() -> None:
    core = MACHINE.core
    assert seconds_of_forks(core, 0) == seconds_of_forks(core, 1) == core.fork
    assert seconds_of_forks(core, 101) == pytest.approx(core.fork * (1 + 100 * AWAKE))


@pytest.mark.parametrize(("planes", "threads", "whole"), [(3, 2, False), (4, 2, True), (3, 16, False), (64, 16, True), (9, 4, False)])
def test_few_planes_are_rows_where_threads_would_wait(planes: int, threads: int, whole: bool) -> None:
    """Three planes occupy three threads of sixteen, and take two as long as four would."""
    shape = planes, 240, 320
    x = tl.placeholder(shape, name="X")
    y = tl.compute(shape, lambda c, i, j: tl.exp(x[c, i, j]) * tl.tanh(x[c, 239 - i, j]), name="Y")
    strategy = choose(y, target("znver4"), threads)
    s = strategy.schedule(strategy.default)
    assert ("parallel c in" if whole else f"parallel c_i in range({240 * planes})") in str(s)
    values = np.random.default_rng(0).random(shape, dtype=np.float32)
    np.testing.assert_allclose(tl.build(s)(values), np.exp(values) * np.tanh(values[:, ::-1]), rtol=1e-5)
