"""Windows and contractions in groups: every point computes the same, sketches cost what schedules do, one alone is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.autotune.task import placeholders
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.lowering.program import lower_program
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.alternatives import Alternatives
from tensorlang.schedules.strategies.placements.choices import FUSED, STRIP, WHOLE, Placements
from tensorlang.schedules.strategies.placements.search import MOST_ASKED, PlacementSearch
from tensorlang.schedules.strategies.preparation.simplified import Simplified
from tensorlang.schedules.strategies.program import ProgramStrategy
from tensorlang.semantics.nest_interpreter import run_nest
from tests.draws import examples
from tests.machines import MACHINES
from tests.schedules.tiled_programs import PROGRAMS, blurred, chained, corners, normed, separable, unlike, weights
from tests.thinned import crossed, few

Program = Callable[[int, int], Tensor]


def placed(outputs: Tensor, cpu: str = "znver3", threads: int = 1) -> tuple[ProgramStrategy, Placements]:
    strategy = ProgramStrategy(Simplified(lower_program(outputs), target(cpu), threads)).placing
    assert strategy is not None
    assert strategy._placements is not None
    return strategy, strategy._placements


def operands(outputs: Tensor, seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal([int(extent) for extent in tensor.shape]).astype("float32") for tensor in placeholders((outputs,))]


def point(strategy: ProgramStrategy, placements: Placements, **chosen: Any) -> dict[str, Any]:
    places = {f"{name}.at": chosen.get(name, WHOLE) for name in placements.places}
    return placements.default(
        strategy._prefixes, {**placements.strips.of(chosen.get("strip", 1), slides=chosen.get("slides", False)), **places}
    )


@examples(2)
@given(st.sampled_from(PROGRAMS), st.integers(1, 40), st.integers(4, 70), st.integers(0, 1 << 30), st.sampled_from([1, 2]))
def test_every_point_computes_the_same(program: Program, rows: int, columns: int, seed: int, threads: int) -> None:
    outputs = program(rows, columns)
    strategy = choose(outputs, target("native"), threads)
    arrays = operands(outputs, seed)
    plain = tl.build(tl.Schedule(outputs))(*arrays)
    for config in strategy.space.sample(np.random.default_rng(seed), 2):
        s = strategy.schedule(config)
        assert not s.faults
        np.testing.assert_allclose(tl.build(s)(*arrays), plain, rtol=1e-3, atol=1e-3, err_msg=repr(s))


@pytest.mark.parametrize("program", few([corners, weights], 1))
def test_what_leaves_the_caches_is_placed_in_strips_and_computes_the_same(program: Program) -> None:
    outputs = program(1100, 1500)
    strategy = choose(outputs, target("native"), 1)
    assert strategy.default["stages"] == "placed"
    arrays = operands(outputs, 0)
    found, plain = tl.build(strategy.schedule(strategy.default))(*arrays), tl.build(tl.Schedule(outputs))(*arrays)
    np.testing.assert_allclose(found, plain, rtol=1e-3, atol=1e-2)


@crossed({"program": [blurred, corners], "cpu": MACHINES})
def test_windows_that_would_leave_the_caches_are_placed_otherwise_on_every_machine(program: Program, cpu: str) -> None:
    outputs = program(1500, 2500)
    strategy = choose(outputs, target(cpu), 1)
    assert isinstance(strategy, Alternatives)
    ruled = strategy.usual.strategy
    times = [estimate(way.schedule(way.default).nest, target(cpu).core).seconds for way in (strategy, ruled)]
    assert times[0] < 0.9 * times[1]


@examples(2)
@given(st.sampled_from(PROGRAMS), st.integers(40, 200), st.integers(40, 200), st.integers(0, 1 << 30))
def test_a_sketch_of_tiles_in_groups_costs_what_the_schedule_does(program: Program, rows: int, columns: int, seed: int) -> None:
    strategy, placements = placed(program(rows, columns))
    (sampled,) = strategy.space.sample(np.random.default_rng(seed), 1)
    own = {name: value for name, value in sampled.items() if name.endswith(".at") or name in ("strip", "slides", "piece")}
    config = placements.default(strategy._prefixes, own)
    search = PlacementSearch(placements, strategy._parts, target("znver3"), 1)
    found = estimate(strategy.schedule(config).nest, target("znver3").core).seconds
    assert search.seconds(config) == pytest.approx(found, rel=0.5)


def test_the_reader_of_a_tile_goes_into_it_whole_and_in_a_strip() -> None:
    strategy, placements = placed(chained(64, 60))
    for strip, places in ((1, {}), (16, {"s0": STRIP, "s1": STRIP})):
        config = point(strategy, placements, strip=strip, t0=FUSED, t1=FUSED, t2=FUSED, **places)
        assert strategy.space.contains(config)
        assert not {"s0", "s1", "s2"} & set(strategy.schedule(config).stages())


def test_a_reader_that_is_inlined_is_in_no_tiles() -> None:
    strategy, placements = placed(chained(64, 60))
    assert "inlined" in placements.places["s0"]
    config = point(strategy, placements, t0=FUSED, s0="inlined")
    assert placements.plan(config) is None
    assert not strategy.space.contains(config)


def test_of_what_a_stage_reads_only_the_last_can_have_it_in_its_tiles() -> None:
    _, placements = placed(unlike(64, 60))
    assert [FUSED in placements.places[name] for name in ("dy", "dx")] == [False, True]


def test_no_contraction_runs_row_by_row() -> None:
    strategy, placements = placed(weights(64, 60))
    plan = placements.plan(point(strategy, placements, scores=STRIP, most=STRIP, power=STRIP, total=STRIP, strip=16, slides=True))
    assert plan is not None
    assert not any(group.slides for group in plan.groups)


def test_operands_of_a_contraction_are_not_computed_at_each_use() -> None:
    _, placements = placed(normed(64, 60))
    assert "inlined" not in placements.places["even"]


@pytest.mark.parametrize("program", [corners, weights])
def test_threads_share_the_strips(program: Program) -> None:
    strategy, placements = placed(program(600, 512), threads=2)
    inside = {name: STRIP for name, places in placements.places.items() if STRIP in places}
    config = {**point(strategy, placements, strip=32, **inside), "out.parallel": "outer"}
    nest = strategy.schedule(config).nest
    parallel = [loop.loop for loop in loops(nest.body) if loop.kind == "parallel"]
    assert len(parallel) == 1
    assert parallel[0].startswith("out.")


def test_what_a_window_alone_places_itself_is_not_placed_again() -> None:
    X = tl.placeholder((3, 64, 64), name="X")
    r, q = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="q")
    padded = tl.pad(X, ((0, 0), (1, 1), (1, 1)))
    blur = tl.compute((3, 64, 64), lambda c, y, x: tl.sum(padded[c, y + r, x + q], axis=(r, q)), name="blur")
    out = tl.compute((3, 64, 64), lambda c, y, x: tl.maximum(blur[c, y, x], 0.0), name="out")
    assert isinstance(choose(out, target("znver3"), 1), ProgramStrategy)


def test_the_search_is_deterministic_and_asks_for_a_bounded_number_of_costs() -> None:
    found = []
    for _ in range(2):
        strategy, placements = placed(corners(900, 1100))
        search = PlacementSearch(placements, strategy._parts, target("znver3"), 1)
        found.append(search.default())
        assert sum(search._asked) <= MOST_ASKED + len(placements.stages)
    assert found[0] == found[1]


def test_extents_that_a_call_tells_are_placed_too() -> None:
    rows, columns = tl.dim("rows"), tl.dim("columns")
    X = tl.placeholder((rows, columns), name="X")
    r, q = tl.reduce_axis(3, name="r"), tl.reduce_axis(3, name="q")
    wide = tl.compute((rows, columns - 2), lambda y, x: tl.sum(X[y, x + q], axis=q), name="wide")
    both = tl.compute((rows - 2, columns - 2), lambda y, x: tl.sum(wide[y + r, x], axis=r), name="both")
    out = tl.compute((rows - 2, columns - 2), lambda y, x: both[y, x] / 9 - X[y + 1, x + 1], name="out")
    f = tl.build(out)
    for shape in ((3, 3), (35, 67), (100, 9)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).sum((2, 3))
        np.testing.assert_allclose(f(x), windows / 9 - x[1:-1, 1:-1], rtol=1e-4, atol=1e-5)


def test_what_the_near_caches_hold_is_left_to_the_rules_and_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramStrategy, "_best_places", lambda *_: pytest.fail("searched"))
    strategy = choose(separable(6, 6), target("znver3"), 1)
    assert strategy.default["stages"] == "by_rule"


def test_a_contraction_of_which_few_strips_need_anything_is_placed_all_the_same() -> None:
    """Where strips are many and what is read of the contraction is narrow, none is needed in the middle, where the cost model looks."""
    n, m = tl.dim("n", 1, 1 << 40), tl.dim("m")
    rows, columns = tl.placeholder((n, n), name="A"), tl.placeholder((n, m), name="B")
    index, k = tl.placeholder((n,), "int32", name="I"), tl.reduce_axis(n, name="k")
    product = tl.compute((n, m), lambda i, j: tl.sum(rows[i, k] * columns[k, j], axis=k), name="C")
    read = tl.compute((n,), lambda i: tl.select((index[i] >= 0) & (index[i] < n) & (i + 2 < m), product[index[i], i + 2], 0.0), name="D")
    strategy = choose(read, target("cascadelake"), 1)
    s = strategy.schedule(strategy.default)
    assert not s.faults
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype("float32") for shape in ((3, 3), (3, 4)))
    arrays = {"A": a, "B": b, "I": np.array([2, -1, 0], "int32"), "D": np.full(3, np.nan, "float32")}
    run_nest(s.nest, arrays, {"n": 3, "m": 4})
    np.testing.assert_allclose(arrays["D"], [(a @ b)[2, 2], 0, 0], rtol=1e-5, atol=1e-5)


def test_what_sums_of_rows_and_columns_read_once_is_written_into_both() -> None:
    """Second moments that are factored, as by Adafactor: a column's sum is a tile, but it reads each element once."""
    g, r, c = tl.placeholder((500, 700), name="g"), tl.reduce_axis(500, name="r"), tl.reduce_axis(700, name="c")
    squares = tl.compute((500, 700), lambda i, j: g[i, j] * g[i, j] + 1e-30, name="squares")
    rows = tl.compute((500,), lambda i: tl.sum(squares[i, c], axis=c) / 700, name="rows")
    columns = tl.compute((700,), lambda j: tl.sum(squares[r, j], axis=r) / 500, name="columns")
    strategy = choose((rows, columns), target("znver4"), 1)
    s = strategy.schedule(strategy.default)
    assert "s.compute_inline('squares')" in repr(s)
    x = np.random.default_rng(2).random((500, 700), "float32")
    for got, axis in zip(tl.build(s)(x), (1, 0), strict=True):
        np.testing.assert_allclose(got, (x.astype(float) ** 2).mean(axis), rtol=1e-5)
