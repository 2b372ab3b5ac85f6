"""Operands of a contraction that are read in place, asked for ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.ir import Prefetch
from tensorlang.ir.traverse import statements
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import statements as parts_of
from tensorlang.schedules.model.program import program
from tensorlang.schedules.strategies import Strategy, choose

IN_PLACE = {"order": "jki", "pack_vector": False, "pack_row": False, "unroll": 1}


def strategy(m: int, k: int, n: int) -> Strategy:
    return choose(tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")), target("znver4"), 1)


def asked(chosen: Strategy, **changed: object) -> set[str]:
    nest = chosen.schedule({**chosen.default, **IN_PLACE, **changed}).nest
    return {part.buffer.name for part in statements(nest.body) if isinstance(part, Prefetch)}


@pytest.mark.parametrize(("value", "names"), [("none", set()), ("rows", {"A"}), ("lanes", {"B"}), ("both", {"A", "B"})])
def test_a_point_asks_for_what_it_names(value: str, names: set[str]) -> None:
    assert asked(strategy(200, 1000, 600), vectors=3, rows=8, depth=1000, prefetch=value) == names


def test_what_is_packed_is_not_asked_for() -> None:
    space = strategy(200, 1000, 600).space
    points = list(space.sample(np.random.default_rng(0), 60))
    assert {point["prefetch"] for point in points} == {"none", "rows", "lanes", "both"}
    assert not any(point["prefetch"] in ("rows", "both") and point["pack_row"] for point in points)
    assert not any(point["prefetch"] in ("lanes", "both") and point["pack_vector"] for point in points)


def test_nothing_is_asked_for_that_stays_in_a_cache() -> None:
    assert "prefetch" not in strategy(64, 64, 64).default
    large = strategy(64, 64, 30000)
    assert [knob.values for knob in large.space.knobs if knob.name == "prefetch"] == [("none", "lanes")]


@pytest.mark.parametrize("shape", [(512, 3072, 768), (100, 4096, 600), (250, 4000, 250), (2048, 2048, 512)])
def test_lanes_of_deep_panels_that_leap_are_packed(shape: tuple[int, int, int]) -> None:
    """Read in place, what L2 loses of them comes line by line, from memory where neighbours have the last level: 1.1 to 1.5 of the time."""
    chosen = strategy(*shape).default
    assert chosen["pack_vector"] and chosen["prefetch"] == "none"


@pytest.mark.parametrize("shape", [(512, 768, 400), (1000, 1000, 1000)])
def test_nothing_is_asked_for_where_panels_stay(shape: tuple[int, int, int]) -> None:
    assert strategy(*shape).default["prefetch"] == "none"


@pytest.mark.parametrize(
    ("cpu", "shape", "lanes"),
    [
        ("znver4", (9, 3880, 1656), True),
        ("znver4", (24, 3000, 1000), True),
        ("znver4", (4, 3000, 2000), True),
        ("znver4", (8, 4096, 1024), False),  # 16 rows lie in one set of L1
        ("znver4", (4, 4096, 4096), False),
        ("cascadelake", (9, 3880, 1656), False),  # its prefetchers follow 32 rows by themselves
    ],
)
def test_few_rows_ask_for_what_their_lanes_read_where_a_cache_keeps_it(cpu: str, shape: tuple[int, int, int], lanes: bool) -> None:
    m, k, n = shape
    default = choose(tl.ops.matmul(tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")), target(cpu), 1).default
    assert (default.get("prefetch") == "lanes") is lanes
    if lanes:
        assert (default["vectors"], default["rows"], default["depth"]) == (1, m, 16)


def test_places_in_several_loops_are_not_asked_for() -> None:
    """Pixels of an image are lanes by one loop: where a later step reads would take divisions in each."""
    x, w = tl.placeholder((1, 1024, 28, 28), name="X"), tl.placeholder((512, 1024, 1, 1), name="W")
    chosen = choose(tl.ops.conv2d(x, w), target("znver4"), 1)
    assert not any(value in ("lanes", "both") for knob in chosen.space.knobs if knob.name == "prefetch" for value in knob.values)


def test_products_are_the_same() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (70, 900)).astype("f4"), rng.integers(-4, 5, (900, 330)).astype("f4")
    chosen = strategy(70, 900, 330)
    for value in ("none", "rows", "lanes", "both"):
        point = {**chosen.default, **IN_PLACE, "vectors": 2, "rows": 6, "depth": 900, "prefetch": value, "unroll": 4}
        np.testing.assert_array_equal(tl.build(chosen.schedule(point), "native")(a, b), a @ b)


def hinted(*names: str) -> tl.Schedule:
    A, B, k = tl.placeholder((8, 4096), name="A"), tl.placeholder((4096, 1024), name="B"), tl.reduce_axis(4096, name="k")
    s = tl.Schedule(tl.compute((8, 1024), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    j_o, j_i = s.split("j", 48)
    s.reorder(j_o, "k", "i", j_i)
    s.accumulate("C", at=j_o)
    s.vectorize(j_i)
    s.unroll("i")
    for name in names:
        s.prefetch(name, "k", 16)
    return s


@pytest.mark.parametrize("names", [(), ("A",), ("B",), ("A", "B")], ids=str)
def test_the_model_knows_what_hints_ask_for(names: tuple[str, ...]) -> None:
    found = [part for part in parts_of(program(hinted(*names).nest)) if part.combines]
    assert [{access.buffer.name for access in part.accesses if access.asked} for part in found] == [set(names)]


def test_hints_take_slots_and_have_as_many_lines_on_their_way_as_may_be_outstanding() -> None:
    """A column of three lines in each step has 11 on its way in the window of a Zen 4, hints 16."""
    zen = target("znver4").core
    plain, asked = (estimate(hinted(*names).nest, zen) for names in ((), ("B",)))
    assert asked.shares["memory"] < plain.shares["memory"] and asked.shares["L1"] > plain.shares["L1"]
    narrow = replace(zen, outstanding=2.0)
    assert estimate(hinted("B").nest, narrow).shares["memory"] > 4 * asked.shares["memory"]


def test_what_outer_loops_ask_for_is_not_asked_for_by_others() -> None:
    X = tl.placeholder((1000, 1000), name="X")
    Y = tl.compute((1000, 1000), lambda i, j: X[i, j] * 2.0, name="Y")
    s = tl.Schedule(tl.compute((1000, 1000), lambda i, j: Y[i, j] + X[i, j], name="Z"))
    s.prefetch("X", "Y.j", 16)
    first, second = parts_of(program(s.nest))
    assert [access.asked for access in first.accesses if access.reads] == [True]
    assert not any(access.asked for access in second.accesses)
