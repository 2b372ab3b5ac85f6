"""What conditions on loops are taken to cost, and when results are stored past the caches."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.conditions import condition_slots, masked_load_slots, registers_of_masks
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import Loop, Statement
from tensorlang.schedules.strategies import choose
from tests.schedules.test_model import CASCADELAKE

HASWELL = target("haswell").core
VECTOR = Loop("x_i", 16.0, "vector", ())


def asking(*conditions: set[str]) -> Statement:
    """A statement whose reads these conditions choose, each of some loops; its result moves with `y`, `y_i` and `x_i`."""
    return Statement(
        "s", 0, 1.0, (), frozenset({"y", "y_i", "x_i"}), combines=True, joining=1.0, bits=32, conditions=tuple(map(frozenset, conditions))
    )


def tile(rows: int) -> dict[str, int]:
    return {"y_i": rows, "s": 3, "x_i": 2}


@given(st.integers(1, 8), st.integers(2, 100))
def test_what_is_the_same_in_all_lanes_is_asked_once_by_all_copies(rows: int, tiles: int) -> None:
    """Edges are iterations of their own, in which all that they ask is known."""
    around = (Loop("y", float(tiles), "serial", ()),)
    one, several = (condition_slots(asking({"y", "y_i"}), tile(count), VECTOR, around, CASCADELAKE) for count in (1, rows))
    assert 0 < several == one


@given(st.sampled_from([CASCADELAKE, HASWELL]), st.integers(1, 8))
def test_a_mask_that_no_loop_around_changes_is_cheaper_than_one_that_changes(machine, rows):
    around = (Loop("y", 1.5, "serial", ()),)
    known, unknown = (condition_slots(asking(loops), tile(rows), VECTOR, around, machine) for loops in ({"x_i", "s"}, {"x_i", "s", "y"}))
    assert known < unknown


@given(st.integers(1, 100))
def test_a_masked_load_takes_longer_where_masks_have_no_registers(tiles: int) -> None:
    around, vector = (Loop("x_o", float(tiles), "serial", ()),), VECTOR._replace(tiles=float(tiles))
    statement = asking({"x_i", "x_o"})._replace(moving=frozenset({"x_o", "x_i"}))
    assert masked_load_slots(statement, tile(1), vector, around, CASCADELAKE) == 0.0
    assert masked_load_slots(statement, tile(1), vector, around, HASWELL) == pytest.approx(2 * min(1.0, 2 / tiles))
    assert masked_load_slots(asking({"y"}), tile(1), VECTOR, around, HASWELL) == 0.0


def test_masked_loads_and_masks_take_registers_of_sums_where_masks_have_none() -> None:
    assert registers_of_masks(asking({"x_i"}), VECTOR, HASWELL) == 2
    assert registers_of_masks(asking({"x_i"}), VECTOR, CASCADELAKE) == registers_of_masks(asking({"y"}), VECTOR, HASWELL) == 0


def test_to_choose_between_an_element_and_zero_is_what_a_masked_load_does() -> None:
    X = tl.placeholder((4096,), name="X")

    def arithmetic(otherwise: float) -> float:
        s = tl.Schedule(tl.compute((4096,), lambda i: tl.select((i >= 1) & (i < 4000), X[i - 1], otherwise), name="Y"))
        s.vectorize(s.split("i", 16, "peel")[1])
        return estimate(s.nest, CASCADELAKE).shares["arithmetic"]

    assert arithmetic(0.0) < arithmetic(1.0)


@pytest.mark.parametrize(
    ("cpu", "shape", "inlined"),
    [
        ("znver4", (1152, 7, 5, 1), True),
        ("znver4", (672, 14, 5, 2), True),
        ("znver4", (128, 56, 3, 1), True),
        ("znver4", (240, 28, 5, 1), True),
        ("x86-64-v3", (1152, 7, 5, 1), True),
        ("x86-64-v3", (240, 28, 5, 1), False),
    ],
)
def test_padding_is_inlined_where_it_was_measured_to_be_faster(cpu: str, shape: tuple[int, int, int, int], inlined: bool) -> None:
    channels, extent, size, stride = shape
    x, w = tl.placeholder((1, channels, extent, extent), name="X"), tl.placeholder((channels, 1, size, size), name="W")
    strategy = choose(tl.ops.depthwise_conv2d(x, w, padding=size // 2, stride=stride), target(cpu), 1)
    assert (strategy.default["source"] == "inlined") is inlined


@pytest.mark.parametrize(
    ("cpu", "megabytes", "past"), [("znver4", 4, False), ("znver4", 16, True), ("znver4", 64, True), ("cascadelake", 16, False)]
)
def test_results_pass_the_caches_by_where_they_would_fill_the_last_one(cpu: str, megabytes: int, past: bool) -> None:
    rows = megabytes << 8
    x, w, b = tl.placeholder((rows, 1024), name="X"), tl.placeholder((1024,), name="W"), tl.placeholder((1024,), name="B")
    assert choose(tl.ops.layer_norm(x, (1024,), w, b), target(cpu), 1).default["stream"] is past
