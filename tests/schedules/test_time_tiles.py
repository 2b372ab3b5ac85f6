"""Scans of neighbours: tiles of several steps give what single steps do, and are the default where a cache would be left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.ir import For
from tensorlang.ir.traverse import statements
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.waves import seconds_in_waves
from tests.machines import MACHINES


def stencil(shape: tuple[int, ...], steps: int, reaches: tuple[int, ...], states: int = 1, dtype: str = "float32") -> Any:
    """Means of an element and its neighbours so far away along each axis, either way, where all of them exist; with older states added."""
    starts = tuple(tl.placeholder(shape, dtype, name=f"X{age}") for age in range(states))

    def step(_: Any, given: Any) -> Any:
        state: tuple[Any, ...] = given if states > 1 else (given,)
        x = state[0]

        def element(*at: Any) -> Any:
            total, inside = x[at], at[0] >= 0
            for axis, reach in enumerate(reaches):
                if reach:
                    near = (tuple(i + apart if axis == other else i for other, i in enumerate(at)) for apart in (-reach, reach))
                    total = total + sum((x[place] for place in near), start=tl.cast(0, dtype))
                    inside = inside & (at[axis] >= reach) & (at[axis] < shape[axis] - reach)
            new = tl.select(inside, total * tl.cast(0.25, dtype), x[at])
            return new + state[-1][at] * tl.cast(0.125, dtype) if len(state) > 1 else new

        made = tl.compute(shape, element, name="next")
        return (made, *state[:-1]) if states > 1 else made

    found = tl.scan(step, starts if states > 1 else starts[0], steps, keep="last", name="scan")
    return found[0] if states > 1 else found


def expected(starts: list[Any], steps: int, reaches: tuple[int, ...]) -> Any:
    state = [start.copy() for start in starts]
    for _ in range(steps):
        x = state[0]
        total, inside = x.copy(), np.ones(x.shape, bool)
        for axis, reach in enumerate(reaches):
            if reach:
                total += np.roll(x, reach, axis) + np.roll(x, -reach, axis)
                at = np.arange(x.shape[axis]).reshape([-1 if axis == other else 1 for other in range(x.ndim)])
                inside = inside & (at >= reach) & (at < x.shape[axis] - reach)
        new = np.where(inside, total * x.dtype.type(0.25), x)
        state = [new + state[1] * x.dtype.type(0.125), *state[:-1]] if len(state) > 1 else [new]
    return state[0]


CASES = [
    ((70, 41), 11, (1, 1), 1),
    ((37, 300), 9, (1, 2), 1),
    ((65, 40), 17, (2, 1), 1),
    ((24, 20, 18), 8, (1, 1, 1), 1),
    ((5000,), 13, (1,), 1),
    ((4200,), 9, (3,), 1),
    ((64, 33), 10, (1, 1), 2),
    ((40, 50), 8, (0, 1), 1),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("shape", "steps", "reaches", "states"), CASES)
def test_every_tile_gives_what_single_steps_do(
    shape: tuple[int, ...], steps: int, reaches: tuple[int, ...], states: int, threads: int
) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.random(shape, dtype=np.float32) for _ in range(states)]
    strategy = choose(stencil(shape, steps, reaches, states), target(), threads)
    knobs = {knob.name: knob for knob in strategy.space.knobs if knob.name.endswith(("time", "band"))}
    if states > 1:
        assert not knobs  # several states in one place of time are written by one statement, and tiles of those are not tried
        return
    wanted = expected(starts, steps, reaches)
    time, band = (next(knob for name, knob in knobs.items() if name.endswith(kind)) for kind in ("time", "band"))
    shared = {name: "outer" for name in strategy.default if name.endswith("parallel")}
    for count, rows in ((0, band.values[0]), (time.values[1], band.values[-1]), (time.values[-1], band.values[0])):
        s = strategy.schedule({**strategy.default, **shared, time.name: count, band.name: rows})
        assert not s.faults and ("skew" in repr(s)) == bool(count and reaches[0])
        np.testing.assert_array_max_ulp(tl.build(s)(*starts), wanted, 4)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_no_cache_holds_is_tiled_by_default(machine: str) -> None:
    core = target(machine).core
    side = int(2 * (core.caches[-1].size / 8) ** 0.5) // 16 * 16  # both states together are four times the last cache
    strategy = choose(stencil((side, side), 64, (1, 1)), target(machine), 1)
    assert strategy.default["next.time"] > 1 and strategy.space.contains(strategy.default)
    seconds = strategy.costs.seconds
    assert seconds(strategy.default) < 0.95 * seconds({**strategy.default, "next.time": 0})
    few = choose(stencil((48, 48), 64, (1, 1)), target(machine), 1)
    assert few.default["next.time"] == 0


def test_a_default_is_a_point_of_its_space() -> None:
    """Rows of three vectors cannot have four in flight, however long the columns are."""
    strategy = choose(stencil((1 << 22, 40), 64, (1, 1)), target("znver4"), 1)
    assert strategy.default["next.time"] > 1 and strategy.space.contains(strategy.default)


def test_threads_share_waves_of_tiles() -> None:
    strategy = choose(stencil((4000, 4000), 64, (1, 1)), target("znver4"), 2)
    s = strategy.schedule(strategy.default)
    assert strategy.default["next.time"] > 1 and not s.faults
    (shared,) = (part for part in statements(s.nest.body) if isinstance(part, For) and part.kind == "parallel" and "_o" in part.loop)
    assert shared.loop == "scan.__o"


def test_elements_that_look_across_an_edge_take_one_step_after_the_other() -> None:
    """On a torus the first row waits for the last one of the step before: no band may go ahead."""
    x = tl.placeholder((64, 64), name="X")
    step = lambda _, s: tl.compute((64, 64), lambda i, j: s[(i + 1) % 64, j] + s[(i + 63) % 64, j], name="next")  # noqa: E731
    strategy = choose(tl.scan(step, x, 16, keep="last"), target(), 1)
    assert not any(name.endswith("time") for name in strategy.default)


def test_what_threads_take_of_waves() -> None:
    """Of 4 rows of 4 tiles, one behind the other, waves hold 1, 2, 3, 4, 3, 2 and 1: two threads take 10 turns for 16 tiles."""
    assert seconds_in_waves(16.0, 4, 4, 1, 2, 0.0) == 10.0
    assert seconds_in_waves(16.0, 4, 4, 1, 1, 0.0) == 16.0
    assert seconds_in_waves(16.0, 1, 16, 3, 8, 0.0) == 16.0
    for rows, tiles, behind in ((3, 40, 2), (10, 10, 2), (7, 5, 3)):
        waves = [sum(0 <= wave - behind * row < tiles for row in range(rows)) for wave in range(tiles + behind * (rows - 1))]
        turns = sum(-(-count // 2) for count in waves)
        assert seconds_in_waves(float(rows * tiles), rows, tiles, behind, 2, 0.0) == pytest.approx(turns)
