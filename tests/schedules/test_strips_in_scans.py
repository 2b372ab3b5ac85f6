"""Stages of a step of a scan stand in strips of the state's rows: every point gives the same, and sketches cost what schedules do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.printer import print_nest
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.alternatives import Alternatives
from tensorlang.schedules.strategies.placements.choices import STRIP
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.draws import examples

WAYS = 5


def streamed(rows: int, columns: int, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Planes that move along ways which data tell, and then meet their mean; the scan, its start and the ways."""
    down, start = tl.placeholder((WAYS,), name="down", dtype="int64"), tl.placeholder((WAYS, rows, columns), name="F")

    def step(_: Any, f: Any) -> Any:
        k = tl.reduce_axis(WAYS)
        moved = tl.compute((WAYS, rows, columns), lambda d, i, j: f[d, (i - down[d]) % rows, j], name="moved")
        mean = tl.compute((rows, columns), lambda i, j: tl.sum(moved[k, i, j], axis=k) / WAYS, name="mean")
        sharp = tl.compute((rows, columns), lambda i, j: mean[i, j] / (1 + mean[i, j] * mean[i, j]), name="sharp")
        return tl.compute((WAYS, rows, columns), lambda d, i, j: moved[d, i, j] + 0.5 * (sharp[i, j] - moved[d, i, j]), name="next")

    return tl.scan(step, start, steps, keep="last", name="gas"), start, down


def expected(f: Any, down: Any, steps: int) -> Any:
    for _ in range(steps):
        moved = np.stack([np.roll(f[d], down[d], axis=0) for d in range(WAYS)])
        mean = moved.mean(axis=0)
        f = moved + 0.5 * (mean / (1 + mean * mean) - moved)
    return f


def placed(outputs: Tensor, cpu: str, threads: int = 1) -> ProgramStrategy:
    """The way in which stages are placed in groups."""
    strategy = choose(outputs, target(cpu), threads)
    assert isinstance(strategy, Alternatives)
    found = strategy.other.strategy
    assert isinstance(found, ProgramStrategy)
    return found


def in_strips(strategy: ProgramStrategy, rows: int) -> dict[str, Any]:
    """The point with all stages of a step in strips of so many rows."""
    placements = strategy._placements
    assert placements is not None
    places = {f"{name}.at": STRIP if STRIP in own else own[0] for name, own in placements.places.items()}
    return placements.default(strategy._prefixes, {**placements.strips.of(rows), **places})


@examples(4)
@given(st.integers(2, 40), st.integers(1, 70), st.integers(0, 4), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]))
def test_strips_of_the_state_give_the_same(rows: int, columns: int, steps: int, strip: int, threads: int) -> None:
    outputs, *_ = streamed(rows, columns, steps)
    strategy = choose(outputs, target("native"), threads)
    rng = np.random.default_rng(rows)
    f, down = rng.standard_normal((WAYS, rows, columns)).astype("float32"), rng.integers(0, 3, WAYS)
    feeds = {"F": f, "down": down}
    points = [strategy.default, *strategy.space.sample(rng, 2)]
    schedules = [strategy.schedule(point) for point in points]
    if rows > strip and steps > 1 and columns > 1:
        own = placed(outputs, "native", threads)
        schedules.append(own.schedule(in_strips(own, strip)))
    for s in schedules:
        assert not unforeseen(s.faults)
        kernel = tl.build(s)
        found = kernel(*(feeds[tensor.name] for tensor in s.nest.inputs))
        np.testing.assert_allclose(found, expected(f, down, steps), rtol=1e-4, atol=1e-5, err_msg=repr(s))


@pytest.mark.parametrize("strip", [1, 2, 8])
def test_a_sketch_of_strips_in_a_scan_costs_what_the_schedule_does(strip: int) -> None:
    strategy = placed(streamed(96, 128, 10)[0], "znver4")
    config = in_strips(strategy, strip)
    found = estimate(strategy.schedule(config).nest, target("znver4").core).seconds
    assert strategy.costs.seconds(config) == pytest.approx(found, rel=0.3)


def test_what_moves_in_and_what_becomes_of_it_share_the_rows_of_a_step() -> None:
    """By stages, threads would share planes of one and rows of the next, and all lines would go from core to core."""
    strategy = choose(streamed(128, 128, 10)[0], target("znver4"), 2)
    nest = print_nest(strategy.schedule(strategy.default).nest)
    shared = [line for line in nest.splitlines() if line.strip().startswith("parallel")]
    inside = nest[nest.index(shared[-1]) :]
    assert len(shared) == 1 and "mean: float32" in inside, nest  # what moves in is there, too, or written into both of its readers
