"""Operands of a contraction that are read in place, asked for ahead."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.ir import Prefetch
from tensorlang.ir.traverse import statements
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


@pytest.mark.parametrize(
    ("shape", "default"),
    [((512, 3072, 768), "rows"), ((100, 4096, 600), "rows"), ((512, 768, 400), "none"), ((1000, 1000, 1000), "none")],
)
def test_rows_are_asked_for_where_lanes_take_the_places_by_which_they_would_be_followed(shape: tuple[int, int, int], default: str) -> None:
    """Lanes that come from another page in each step, and from beyond the second level: 47 cycles a step, and 26 with rows asked for."""
    chosen = strategy(*shape).default
    assert chosen["prefetch"] == default
    if default == "rows":
        assert not chosen["pack_vector"] and not chosen["pack_row"]
        assert shape[2] * 4 >= 2048 and 2 * 4 * 16 * chosen["vectors"] * chosen["depth"] > target("znver4").l2


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
