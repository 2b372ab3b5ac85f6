"""The blocking of a contraction: sketches cost what schedules do, and the default is the cheapest point that the model knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import Target, target
from tensorlang.schedules.model.estimate import estimate, estimated
from tensorlang.schedules.model.program import program
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.contractions.blocking import ROUNDING, SHORT, BlockingSearch
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.contractions.sketch import TilingSketches
from tensorlang.schedules.strategies.descent import GAIN, descend
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.schedules.programs import matmul
from tests.thinned import crossed

MACHINES = ("znver3", "znver5", "cascadelake", "haswell")


def contraction(outputs: object, cpu: str | Target) -> tuple[ProgramStrategy, Contraction]:
    strategy = choose(outputs, target(cpu), 1)
    assert isinstance(strategy, ProgramStrategy)
    tile = strategy._tiles[strategy._main_name]
    assert isinstance(tile, Contraction)
    return strategy, tile


def predicted(strategy: ProgramStrategy, cpu: str, config: dict[str, Any]) -> float:
    return estimate(strategy.schedule(config).nest, target(cpu).core).seconds


@settings(max_examples=8)
@given(st.tuples(*(st.integers(9, 300),) * 3), st.sampled_from(MACHINES), st.integers(0, 1 << 30))
def test_a_sketch_costs_what_the_schedule_of_its_point_does(shape: tuple[int, int, int], cpu: str, seed: int) -> None:
    strategy, tile = contraction(matmul(*shape), cpu)
    (config,) = strategy.space.sample(np.random.default_rng(seed), 1)
    config = {**config, "depth": tile._depths().values[-1]}  # sums in blocks, which sketches leave out, have more parts
    if config not in strategy.space:
        return
    sketches = TilingSketches(tile.kernel, tile.order, program(strategy._plain.nest))
    found = estimated(sketches.parts(config), target(cpu).core).seconds
    assert found == pytest.approx(predicted(strategy, cpu, config), rel=0.25, abs=SHORT / 20)  # nothing so short is searched


@settings(max_examples=12)
@given(st.tuples(*(st.integers(16, 600),) * 3), st.sampled_from(MACHINES), st.integers(0, 1 << 30))
def test_no_point_takes_less_than_the_arithmetic_of_full_vectors(shape: tuple[int, int, int], cpu: str, seed: int) -> None:
    strategy, tile = contraction(matmul(*shape), cpu)
    sample, search = strategy.space.sample(np.random.default_rng(seed), 4), tile.search
    for config in sample:
        stored = search._stored if config["depth"] < shape[1] else 0.0
        assert search.seconds(config)[0] >= (search._arithmetic + stored) * (1 - ROUNDING)


@crossed({"shape": [(512, 512, 512), (333, 77, 1016), (256, 256, 2048)], "cpu": ("znver4", "znver5", "cascadelake")})
def test_the_default_is_the_same_where_sums_in_parts_are_sketched_although_they_cannot_be_worth_it(
    shape: tuple[int, int, int], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = contraction(matmul(*shape), cpu)[1].search.point()
    monkeypatch.setattr(BlockingSearch, "_is_cheapest", lambda *_: False)
    assert contraction(matmul(*shape), cpu)[1].search.point() == known


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), (128, 3072, 768), (64, 1024, 2048)])
def test_rows_that_are_a_power_of_two_apart_are_packed_where_the_second_cache_has_few_sets_for_them(shape: tuple[int, int, int]) -> None:
    """Of a cache of 2 MiB that a row of 20 ways would have, the sets would be no power of two, and nothing would seem to conflict."""
    here = target("rocketlake,+avx512fp16")
    strategy = choose(matmul(*shape), here.with_caches(replace(here.caches, l2=2 << 20)), 1)
    assert strategy.default["pack_vector"] or strategy.default["depth"] < shape[2]


def test_panels_that_pay_at_another_depth_than_the_middle_one_are_found() -> None:
    """Of a factor that lies turned: no choice of packing pays at the middle depth, and one does at another."""
    a, b, k = tl.placeholder((512, 512), name="A"), tl.placeholder((512, 512), name="B"), tl.reduce_axis(512, name="k")
    here = target("sapphirerapids")
    c = tl.compute((512, 512), lambda i, j: tl.sum(a[k, i] * b[k, j], axis=k), name="C")
    search = contraction(c, here)[1].search
    middle = {**search.start(), "depth": search._middle}
    every = [{**middle, **found} for found in search._packings_and_depths(middle)]
    assert search._seconds(search.point()) <= search._parts_cost * min(map(search._seconds, every))


@crossed({"shape": [(512, 512, 512), (128, 768, 768), (32, 2048, 1024), (1000, 1000, 1000)], "cpu": MACHINES})
def test_no_point_of_a_sample_is_predicted_much_cheaper_than_the_default(shape: tuple[int, int, int], cpu: str) -> None:
    strategy, tile = contraction(matmul(*shape), cpu)
    sample = strategy.space.sample(np.random.default_rng(0), 60)
    assert strategy.default in strategy.space
    sketches = TilingSketches(tile.kernel, tile.order, program(strategy._plain.nest))
    costs = [estimated(sketches.parts(config), target(cpu).core).seconds for config in (strategy.default, *sample)]
    assert costs[0] <= 1.25 * min(costs)  # plain points are favoured by up to 13 %


def test_a_panel_that_is_used_once_is_not_copied() -> None:
    assert not contraction(matmul(4, 4096, 4096), "znver5")[0].default["pack_vector"]


def test_the_same_definition_on_the_same_machine_has_the_same_default() -> None:
    found = [contraction(matmul(200, 300, 400), "cascadelake")[0].default for _ in range(2)]
    assert found[0] == found[1]


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.floats(1, 100), max_size=16))
def test_a_descent_ends_at_a_point_that_no_change_of_one_group_made_much_cheaper_when_it_was_asked(
    costs: dict[tuple[int, int], float],
) -> None:
    asked: list[tuple[int, int]] = []

    def cost(point: Any) -> float:
        asked.append((point["a"], point["b"]))
        return costs.get(asked[-1], 100.0)

    groups = (lambda _: ({"a": value} for value in range(4)), lambda _: ({"b": value} for value in range(4)))
    found = descend({"a": 0, "b": 0}, groups, cost)
    assert len(asked) == len(set(asked))
    ends = [costs.get((found["a"], value), 100.0) for value in range(4)]
    assert costs.get((found["a"], found["b"]), 100.0) * GAIN <= min(ends)
    assert costs.get((found["a"], found["b"]), 100.0) <= costs.get((0, 0), 100.0)
