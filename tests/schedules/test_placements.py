"""Where stages are computed: every point computes the same, sketches of groups cost what schedules do, and the default is worth it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.autotune.task import placeholders
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.model.estimate import Estimate, estimate
from tensorlang.schedules.model.parts import paths
from tensorlang.schedules.model.program import program
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.stages import size
from tensorlang.schedules.strategies.placements.choices import INLINED, STRIP, WHOLE, Group, Placements
from tensorlang.schedules.strategies.placements.search import MOST_ASKED, PlacementSearch
from tensorlang.schedules.strategies.program import ProgramStrategy
from tests.draws import examples
from tests.machines import MACHINES
from tests.thinned import few


def corners(rows: int, columns: int) -> Tensor:
    """Harris's corners: gradients, their products, sums of windows, and two readers of these."""
    X = tl.placeholder((3, rows + 4, columns + 4), name="X")
    gray = tl.compute((rows + 4, columns + 4), lambda y, x: 0.3 * X[0, y, x] + 0.6 * X[1, y, x] + 0.1 * X[2, y, x], name="gray")
    dy = tl.compute((rows + 2, columns + 2), lambda y, x: gray[y + 2, x + 1] - gray[y, x + 1], name="dy")
    dx = tl.compute((rows + 2, columns + 2), lambda y, x: gray[y + 1, x + 2] - gray[y + 1, x], name="dx")

    def window(left: Tensor, right: Tensor, name: str) -> Tensor:
        both = tl.compute((rows + 2, columns + 2), lambda y, x: left[y, x] * right[y, x], name=f"{name}_product")
        found: Tensor = tl.compute((rows, columns), lambda y, x: sum(both[y + i, x + j] for i in range(3) for j in range(3)), name=name)
        return found

    yy, xx, xy = window(dy, dy, "yy"), window(dx, dx, "xx"), window(dx, dy, "xy")
    trace = tl.compute((rows, columns), lambda y, x: yy[y, x] + xx[y, x], name="trace")
    out: Tensor = tl.compute(
        (rows, columns), lambda y, x: yy[y, x] * xx[y, x] - xy[y, x] * xy[y, x] - trace[y, x] * trace[y, x], name="out"
    )
    return out


def sharpened(rows: int, columns: int) -> Tensor:
    """A mask that all channels share: the loop of channels stands outside those that the mask follows."""
    X = tl.placeholder((3, rows + 2, columns + 2), name="X")
    gray = tl.compute((rows + 2, columns + 2), lambda y, x: X[0, y, x] + X[1, y, x] + X[2, y, x], name="gray")
    high = tl.compute((rows, columns + 2), lambda y, x: gray[y, x] + 2 * gray[y + 1, x] + gray[y + 2, x], name="high")
    ratio = tl.compute((rows, columns), lambda y, x: (high[y, x] + high[y, x + 2]) / (1 + gray[y + 1, x + 1] ** 2), name="ratio")
    out: Tensor = tl.compute((3, rows, columns), lambda c, y, x: ratio[y, x] * X[c, y + 1, x + 1], name="out")
    return out


def halved(rows: int, columns: int) -> Tensor:
    """A step of two rows and columns, and a reader of whole rows."""
    X = tl.placeholder((2 * rows + 2, 2 * columns + 1), name="X")
    wide = tl.compute((2 * rows + 1, 2 * columns + 1), lambda y, x: X[y, x] + X[y + 1, x], name="wide")
    small = tl.compute((rows, columns), lambda y, x: wide[2 * y, 2 * x] + wide[2 * y + 2, 2 * x + 1] * 0.5, name="small")
    out: Tensor = tl.compute((rows, columns), lambda y, x: small[y, x] * small[y, x] + small[rows - 1 - y, x], name="out")
    return out


def activated(rows: int, columns: int) -> Tensor:
    """One loop, and intermediates that are read several times."""
    X = tl.placeholder((rows * columns,), name="X")
    bent = tl.compute((rows * columns,), lambda i: tl.tanh(X[i] + X[i] * X[i]), name="bent")
    gate = tl.compute((rows * columns,), lambda i: bent[i] * X[i] + bent[i], name="gate")
    out: Tensor = tl.compute((rows * columns,), lambda i: gate[i] / (1 + gate[i] * gate[i] + bent[i]), name="out")
    return out


PROGRAMS: tuple[Callable[[int, int], Tensor], ...] = (corners, sharpened, halved, activated)


def strategy_of(outputs: object, cpu: str = "znver3", threads: int = 1) -> tuple[ProgramStrategy, Placements]:
    strategy = choose(outputs, target(cpu), threads)
    assert isinstance(strategy, ProgramStrategy)
    assert strategy._placements is not None
    return strategy, strategy._placements


def with_places(strategy: ProgramStrategy, **chosen: Any) -> dict[str, Any]:
    placements = strategy._placements
    assert placements is not None
    places = {f"{name}.at": chosen.get(name, WHOLE) for name in placements.places}
    cut = placements.strips.of(chosen.get("strip", 1), slides=chosen.get("slides", False))
    return placements.default(strategy._prefixes, {**cut, **places})


@examples(2)
@given(st.sampled_from(PROGRAMS), st.integers(1, 40), st.integers(1, 70), st.integers(0, 1 << 30), st.sampled_from([1, 2]))
def test_every_point_computes_the_same(program: Callable[[int, int], Tensor], rows: int, columns: int, seed: int, threads: int) -> None:
    outputs = program(rows, columns)
    strategy = choose(outputs, target("native"), threads)
    rng = np.random.default_rng(seed)
    X = next(iter(tl.Schedule(outputs).nest.inputs))
    x = rng.standard_normal([int(extent.value) for extent in X.shape]).astype("float32")
    plain = tl.build(tl.Schedule(outputs))(x)
    for config in strategy.space.sample(rng, 2):
        s = strategy.schedule(config)
        assert not unforeseen(s.faults)
        np.testing.assert_allclose(tl.build(s)(x), plain, rtol=1e-3, atol=1e-4, err_msg=repr(s))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_default_computes_what_the_definition_means(program: Callable[[int, int], Tensor]) -> None:
    outputs = program(70, 90)
    f = tl.build(outputs)
    X = next(iter(tl.Schedule(outputs).nest.inputs))
    x = np.random.default_rng(0).standard_normal([int(extent.value) for extent in X.shape]).astype("float32")
    (placeholder,) = (tensor for tensor in placeholders((outputs,)))
    points = [(0,) * len(outputs.shape), tuple(int(extent) - 1 for extent in outputs.shape)]
    expected = tl.evaluate(outputs, {placeholder: x}, at=points)
    np.testing.assert_allclose([f(x)[point] for point in points], expected, rtol=1e-4, atol=1e-5)


def test_extents_that_a_call_tells_are_placed_too() -> None:
    rows, columns = tl.dim("rows"), tl.dim("columns")
    X = tl.placeholder((rows, columns), name="X")
    up = tl.compute((rows, columns), lambda y, x: tl.select(y > 0, X[y - 1, x], 0.0) + X[y, x], name="up")
    out = tl.compute((rows, columns), lambda y, x: tl.select(x > 0, up[y, x - 1], 0.0) + up[y, x] * up[y, x], name="out")
    f = tl.build(out)
    for shape in ((1, 1), (33, 65), (100, 7)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        above = x + np.vstack([np.zeros_like(x[:1]), x[:-1]])
        np.testing.assert_allclose(f(x), np.hstack([np.zeros_like(x[:, :1]), above[:, :-1]]) + above * above, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cpu", few(MACHINES, 2))
def test_what_would_leave_the_caches_is_placed_otherwise_on_every_machine(cpu: str) -> None:
    strategy, _ = strategy_of(corners(1500, 2500), cpu)
    whole = estimate(strategy.schedule(with_places(strategy)).nest, target(cpu).core).seconds
    assert estimate(strategy.schedule(strategy.default).nest, target(cpu).core).seconds < 0.75 * whole


def test_loops_that_no_stage_in_the_strip_follows_move_into_it() -> None:
    strategy, _ = strategy_of(sharpened(200, 300))
    s = strategy.schedule({**with_places(strategy, gray=STRIP, high=STRIP, ratio=STRIP, strip=16), "planes": False})
    loops = s.loops("out")
    assert loops.index("out.y_o") < loops.index("out.c") < loops.index("out.y_i")
    assert not s.faults


def test_a_stage_that_two_results_read_is_in_strips_of_neither() -> None:
    strategy, placements = strategy_of(corners(64, 64))
    config = with_places(strategy, gray=STRIP, dx=WHOLE, dy=STRIP, yy_product=INLINED, xy_product=INLINED, yy=STRIP, strip=8)
    assert placements.plan(config) is None
    assert not strategy.space.contains(config)


def test_strips_are_cut_where_elements_are_shared_and_not_where_a_table_is_read() -> None:
    """Planes that look up a curve share elements of it, but which ones data tell; rows of a blur share rows of what it reads."""
    gray = tl.placeholder((64, 96), name="gray")
    curve = tl.compute((200,), lambda t: tl.exp(-tl.cast(t, "float32") / 100), name="curve")

    def remapped(k: tl.Expr, i: tl.Expr, j: tl.Expr) -> Any:
        return gray[i, j] + curve[tl.cast(tl.clamp(gray[i, j] * 99, 0, 99), "int32") - 8 * k + 64]

    shades = tl.compute((8, 64, 96), remapped, name="shades")
    blurred = tl.compute((8, 62, 96), lambda k, i, j: shades[k, i, j] + 2 * shades[k, i + 1, j] + shades[k, i + 2, j], name="blurred")
    assert strategy_of(blurred)[1].loop("blurred").loop == "blurred.i"


def test_a_strip_that_slides_computes_as_many_rows_as_one_that_does_not() -> None:
    """It begins with all that its first row needs, so what it saves is storage."""
    strategy, _ = strategy_of(sharpened(256, 256))
    chosen = {"gray": STRIP, "high": STRIP, "ratio": INLINED, "strip": 4}
    again, slid = (
        estimate(strategy.schedule({**with_places(strategy, **chosen, slides=flag), "planes": False}).nest, target("znver3").core)
        for flag in (False, True)
    )
    assert slid.shares["arithmetic"] == pytest.approx(again.shares["arithmetic"], rel=0.05)


@examples(2)
@given(st.sampled_from([corners, sharpened]), st.integers(40, 300), st.integers(40, 300), st.integers(0, 1 << 30))
def test_a_sketch_of_groups_costs_what_the_schedule_does(program: Callable[[int, int], Tensor], rows: int, columns: int, seed: int) -> None:
    strategy, placements = strategy_of(program(rows, columns))
    (sampled,) = strategy.space.sample(np.random.default_rng(seed), 1)
    config = placements.default(
        strategy._prefixes, {name: value for name, value in sampled.items() if name.endswith(".at") or name in ("strip", "slides", "piece")}
    )
    search = PlacementSearch(placements, strategy._parts, target("znver3"), 1)
    found = estimate(strategy.schedule(config).nest, target("znver3").core).seconds
    assert search.seconds(config) == pytest.approx(found, rel=0.3)


def test_the_search_is_deterministic_and_asks_for_a_bounded_number_of_costs() -> None:
    made = X = tl.placeholder((160, 160), name="X")
    for stage in range(24):
        extent = 160 - 2 * (stage + 1)
        made = tl.compute((extent, extent), lambda y, x, of=made: of[y, x + 1] + of[y + 2, x] * of[y + 1, x + 2], name=f"s{stage}")
    assert X is not made
    strategy, placements = strategy_of(made)
    searches = [PlacementSearch(placements, strategy._parts, target("znver3"), 1) for _ in range(2)]
    first, second = (search.default() for search in searches)
    assert first == second
    assert all(sum(search._asked) <= MOST_ASKED + len(placements.stages) for search in searches)
    assert math.isfinite(searches[0].seconds(first))


def test_a_program_of_which_a_stage_never_runs_is_built_by_default() -> None:
    x = tl.placeholder((2,), name="X")
    s = tl.compute((2,), lambda i: x[0] * 2.0, name="S")
    t = tl.compute((1, 2), lambda i, j: s[j] + 1, name="T")
    u = tl.compute((1, 2, 0), lambda i, j, k: t[i, j] * 2, name="U")
    v = tl.compute((1, 2), lambda i, j: t[i, j] * 3, name="V")
    empty, full = tl.build((u, v))(np.ones(2, np.float32))
    assert empty.shape == (1, 2, 0)
    np.testing.assert_array_equal(full, np.full((1, 2), 9, np.float32))


def test_a_scan_of_no_steps_beside_stages_in_rows_is_built_by_default() -> None:
    x = tl.placeholder((4,), name="X")
    s = tl.compute((4, 3), lambda i, j: x[i] * 0.5, name="S")

    def step(t: tl.Expr, before: Tensor) -> Tensor:
        half = tl.compute((4,), lambda i: before[i] + s[i, t % 3], name="H")
        found: Tensor = tl.compute((4,), lambda i: half[i] * half[3 - i], name="N")
        return found

    last = tl.scan(step, x, 0, keep="last")
    found = tl.build(tl.compute((4,), lambda i: last[i] * 2, name="Y"))(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(found, 2 * np.arange(4))


@pytest.mark.parametrize("machine", MACHINES)
def test_stages_that_pay_in_strips_only_together_come_there(machine: str) -> None:
    """Gray alone in strips is read by a whole `dx`, and `dx` alone reads a whole gray: neither move pays, both do."""
    strategy = choose(corners(1536, 2560), target(machine), 1)
    seconds, default = strategy.costs.seconds, strategy.default
    assert default["gray.at"] == STRIP
    moved = [name for name, place in default.items() if name.endswith(".at") and place == STRIP]
    for place in (WHOLE, INLINED):
        point = {**default, **dict.fromkeys(moved, place)}
        assert seconds(default) < seconds(point)


def test_a_short_last_strip_is_no_work_for_a_thread() -> None:
    """Of 130 rows in strips of 128 one thread has nearly all: counted as two that are alike, two threads were given those."""
    strategy, placements = strategy_of(sharpened(130, 700), threads=2)
    search = strategy._placed(placements)
    (name, *_), loop = placements.results, next(iter(placements.results.values()))[0]
    rows = size(placements.loop(name))
    for strip, share in ((rows - 2, (rows - 2) / rows), (rows // 2, 0.5), (8, math.ceil(math.ceil(rows / 8) / 2) * 8 / rows)):
        group = Group(name, loop, strip, False, ("gray",))
        assert search._shared(Estimate(1.0, "arithmetic", {"memory": 0.0}), group) == pytest.approx(share, abs=0.01)
        core = search.machine.core
        busy = Estimate(1.0, "memory", {"memory": core.memory.bandwidth * core.hertz})  # all the time
        assert search._shared(busy, group) >= max(share, 1 / min(2, core.together))


def test_a_product_of_centred_rows_has_a_default() -> None:
    """Rows that are computed in strips of the product begin where the strip does, so that none of their ends is known."""
    n, w = 512, 512
    x, weights, k = tl.placeholder((n, w), name="X"), tl.placeholder((w, 256), name="W"), tl.reduce_axis(w)
    mean = tl.compute((n,), lambda i: tl.sum(x[i, k], axis=k) / w, name="mean")
    centred = tl.compute((n, w), lambda i, j: x[i, j] - mean[i], name="centred")
    product = tl.compute((n, 256), lambda i, j: tl.sum(centred[i, k] * weights[k, j], axis=k), name="product")
    for machine in MACHINES:
        assert choose(product, target(machine), 1).default
    rng = np.random.default_rng(0)
    a, b = rng.random((n, w), dtype=np.float32), rng.random((w, 256), dtype=np.float32)
    np.testing.assert_allclose(tl.build(product)(a, b), (a - a.mean(1, keepdims=True)) @ b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [8, 10])
def test_stages_that_would_read_too_much_where_they_are_inlined_have_a_default(count: int) -> None:
    """A window in a window in a window: what is written into one of them beyond that is not told by the sketch."""
    weights = (1, 4, 6, 4, 1)
    image = tl.placeholder((64 + 4 * count, 64 + 4 * count), "uint16", name="X")
    given = np.random.default_rng(0).integers(0, 256, (64 + 4 * count,) * 2).astype("uint16")
    wanted: Any = given.astype(np.uint32)
    for stage in range(count):
        h = 64 + 4 * (count - stage - 1)

        def element(i: Any, j: Any, image: Any = image) -> Any:
            return sum(weights[a] * weights[b] * image[i + a, j + b] for a in range(5) for b in range(5)) >> 8

        image = tl.compute((h, h), element, name=f"stage{stage}")
        wanted = sum(weights[a] * weights[b] * wanted[a : a + h, b : b + h] for a in range(5) for b in range(5)) >> 8
    for machine in MACHINES:
        assert choose(image, target(machine), 1).default
    np.testing.assert_array_equal(tl.build(image)(given), wanted)


def _counts(parts: Any) -> dict[str, float]:
    """How often each statement runs."""
    found: dict[str, float] = {}
    for statement, path in paths(parts):
        found[statement.stage] = found.get(statement.stage, 0.0) + math.prod(loop.trips for loop in path)
    return found


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("strip", [4, 16])
@pytest.mark.parametrize("chosen", [False, True])
def test_what_a_strip_computes_is_counted_as_its_nest_does(chosen: bool, strip: int, slides: bool) -> None:
    """Also in the first iteration of a strip that slides over several stages, and where data tell what is read along an axis."""
    h, w, count = 96, 128, 4
    image = tl.placeholder((h + 2 * count, w), name="X")
    for stage in range(count):
        rows = h + 2 * (count - stage - 1)

        def element(*at: Any, image: Any = image) -> Any:
            *k, i, j = at
            return image[*k, i, j] + image[*k, i + 1, j] * image[*k, i + 2, j]

        shape = (4, rows, w) if chosen and stage == count - 1 else (rows, w)
        image = tl.compute(shape, lambda *at, element=element: element(*at[-2:]), name=f"stage{stage}")
    data, x = tl.placeholder((h, w), "int32", name="D"), image
    last = tl.compute((h, w), lambda i, j: x[tl.clamp(data[i, j], 0, 3), i, j] * 2 if chosen else x[i, j] * 2, name="last")
    strategy: Any = choose(last, target("znver4"), 1)
    placed = {f"{name}.at": STRIP for name in strategy._placements.places}
    config = {**strategy.default, **placed, "strip": strip, "slides": slides}
    search = strategy._placed(strategy._placements)
    (group,) = strategy._placements.plan(config).groups
    sketched, nest = _counts(search._sketch(group, frozenset()).parts()), _counts(program(strategy.schedule(config).nest))
    assert len(sketched) > count - 1
    for name, times in sketched.items():
        assert times == pytest.approx(nest[name], rel=0.01)


def test_strips_into_which_nothing_goes_in_the_end_are_tiled_as_strips() -> None:
    """A scatter that is read there stays whole; what is left of the loop that was cut is no loop of the sum any more."""
    rows, (p, q) = tl.dim("rows", 0, 3), (tl.reduce_axis(2, name="p"), tl.reduce_axis(2, name="q"))
    first = tl.compute((5,), lambda i: tl.cast(1.0, "float32"), name="first")
    last = tl.scatter(first, (p, q), lambda p, q: (p,), lambda p, q: tl.cast(p + q, "float32"), reduce="max", name="last")
    x, i = tl.placeholder((rows, 5), "int8", name="X"), tl.reduce_axis(rows, name="i")
    whole = tl.compute((rows, 5), lambda i, j: tl.cast(last[j], "int8") + x[i, j], name="whole")
    least = tl.compute((5,), lambda j: tl.min(whole[i, j], axis=i, where=2 * i >= 5), name="least")
    strategy = choose(least, target("x86-64-v3"), 1)
    points = [point for point in strategy.space.sample(np.random.default_rng(0), 12) if point.get("stages") == "placed"]
    assert points and not any(unforeseen(strategy.schedule(point).faults) for point in points)
