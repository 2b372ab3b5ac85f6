"""What the cost model makes of scatters: one table or several, in lanes or in turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies import choose

COMBINED = {"add": np.add, "min": np.minimum, "max": np.maximum}


def spread(rows: int, columns: int, dtype: str = "int32", reduce: str = "add", places: int = 16) -> tl.Tensor:
    """What stands at each byte of an image, in a table by the byte."""
    x, y = tl.placeholder((rows, columns), "uint8", name="X"), tl.placeholder((rows, columns), dtype, name="Y")
    first = tl.placeholder((places,), dtype, name="first")
    axes = tl.reduce_axis(rows, name="i"), tl.reduce_axis(columns, name="j")
    return tl.scatter(first, axes, lambda i, j: tl.clamp(x[i, j], 0, places - 1), lambda i, j: y[i, j], reduce=reduce, name="found")


def squares(elements: int, *, where: bool = False) -> tl.Tensor:
    """How often two signals have values in each of 64 x 64 squares."""
    x, y = (tl.placeholder((elements,), name=name) for name in "XY")
    r, none = tl.reduce_axis(elements, name="r"), tl.compute((64, 64), lambda *_: tl.cast(0, "int32"), name="none")

    def index(r: Any) -> tuple[Any, Any]:
        i, j = (tl.cast(tl.clamp(64 * part[r], 0, 63), "int32") for part in (x, y))
        return i, j

    one = tl.cast(1, "int32")
    return tl.scatter(none, (r,), index, lambda _: one, where=(lambda r: x[r] > 0.25) if where else None, name="found")


def kept(elements: int) -> tl.Tensor:
    """The positive elements, where data say."""
    x, at = tl.placeholder((elements,), name="X"), tl.placeholder((elements,), "int32", name="at")
    r, none = tl.reduce_axis(elements, name="r"), tl.compute((elements,), lambda _: 0.0, name="none")
    return tl.scatter(none, (r,), lambda r: tl.clamp(at[r], 0, elements - 1), lambda r: x[r], "set", lambda r: x[r] > 0, name="found")


def point(output: tl.Tensor) -> dict[str, Any]:
    default = choose(output, target("znver4"), 1).default
    return {name.removeprefix("found."): value for name, value in default.items() if name.endswith(("tables", "lanes"))}


def test_small_tables_of_many_elements_are_several() -> None:
    assert point(spread(512, 512, places=256)) == {"tables": 8, "lanes": False}
    assert point(spread(16, 256, places=256)) == {"tables": 1, "lanes": False}  # their sums would take longer than the waits
    assert point(spread(512, 512, places=256, reduce="set")) == {"tables": 1, "lanes": False}


def test_what_takes_arithmetic_or_jumps_has_lanes() -> None:
    assert point(squares(100_000)) == point(squares(100_000, where=True)) == {"tables": 1, "lanes": True}
    assert point(kept(10_000)) == {"tables": 1, "lanes": True}


@pytest.mark.parametrize("columns", [8, 67, 256])
@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("tables", [1, 2, 4, 8])
@pytest.mark.parametrize(("reduce", "dtype"), [("add", "int32"), ("add", "float32"), ("min", "int8"), ("max", "float64")])
def test_every_way_writes_the_same(reduce: str, dtype: str, tables: int, columns: int, *, lanes: bool) -> None:
    rows = 64
    draw = np.random.default_rng(columns)
    x, y = draw.integers(0, 20, (rows, columns)).astype("uint8"), draw.integers(-9, 9, (rows, columns)).astype(dtype)
    first = draw.integers(-9, 9, 16).astype(dtype)
    strategy = choose(spread(rows, columns, dtype, reduce), target("native"), 1)
    config = {**strategy.default, "tables": tables, "lanes": lanes}
    if not strategy.space.contains(config):
        pytest.skip("too few elements for so many tables")
    s = strategy.schedule(config)
    assert not s.faults and ("found_rf" in s.stages()) == (tables > 1)
    wanted = first.copy()
    COMBINED[reduce].at(wanted, np.minimum(x, 15).astype("int64"), y)
    assert np.array_equal(tl.build(s)(X=x, Y=y, first=first), wanted)


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("elements", [1, 7, 1003, 30_000])
def test_squares_are_counted_by_default(elements: int, *, where: bool) -> None:
    draw = np.random.default_rng(elements)
    x, y = (draw.random(elements, dtype="float32") * 1.2 - 0.1 for _ in range(2))
    at = tuple(np.clip(64 * part, 0, 63).astype("int32")[x > 0.25 if where else slice(None)] for part in (x, y))
    wanted = np.zeros((64, 64), "int32")
    np.add.at(wanted, at, 1)
    assert np.array_equal(tl.build(squares(elements, where=where))(X=x, Y=y), wanted)


def test_a_tile_in_registers_is_combined_into_without_a_wait() -> None:
    """As long as it is not stored, no data tell where it is."""
    parts = program(tl.Schedule(spread(64, 64)).nest)
    sketch = Sketch.of(parts, "found")
    before = estimated(numbered(sketch.parts()), target("znver4").core).seconds
    sketch.accumulate("", loads=False)
    assert estimated(numbered(sketch.parts()), target("znver4").core).seconds < before


@pytest.mark.parametrize("lanes", [False, True])
def test_values_that_data_pick_are_written_either_way(*, lanes: bool) -> None:
    x, pick, at = tl.placeholder((99,), name="X"), *(tl.placeholder((500,), "int32", name=name) for name in ("pick", "at"))
    r, none = tl.reduce_axis(500, name="r"), tl.compute((40,), lambda _: 0.0, name="none")
    found = tl.scatter(none, (r,), lambda r: tl.clamp(at[r], 0, 39), lambda r: x[tl.clamp(pick[r], 0, 98)], "max", name="found")
    strategy = choose(found, target("native"), 1)
    draw = np.random.default_rng(0)
    values, picked, places = draw.random(99, dtype="float32"), *(draw.integers(0, 40, 500).astype("int32") for _ in range(2))
    wanted = np.zeros(40, "float32")
    np.maximum.at(wanted, places, values[picked])
    kernel = tl.build(strategy.schedule({**strategy.default, "lanes": lanes}))
    assert np.array_equal(kernel(X=values, pick=picked, at=places), wanted)


def test_a_table_of_a_dim_is_one() -> None:
    n = tl.dim("n")
    x, r = tl.placeholder((n,), "uint8", name="X"), tl.reduce_axis(n, name="r")
    none = tl.compute((256,), lambda _: tl.cast(0, "int32"), name="none")
    counts = tl.build(tl.scatter(none, (r,), lambda r: x[r], lambda _: tl.cast(1, "int32"), name="counts"))
    for size in (0, 1, 9, 1000):
        data = np.random.default_rng(size).integers(0, 256, size).astype("uint8")
        assert np.array_equal(counts(data), np.bincount(data, minlength=256))


def columns(points: int, width: int) -> tl.Schedule:
    """Rows of 32 numbers, each in lanes to a column of a canvas of planes of 48 rows, at a place that data tell."""
    at, features = tl.placeholder((points,), "int32", name="at"), tl.placeholder((points, 32), name="features")
    zero = tl.compute((32, 48 * width), lambda c, i: tl.cast(0, "float32"), name="zero")
    n, c = tl.reduce_axis(points, name="n"), tl.reduce_axis(32, name="c")
    canvas = tl.scatter(
        zero, (n, c), lambda n, c: (c, tl.clamp(at[n], 0, 48 * width - 1)), lambda n, c: features[n, c], "max", name="canvas"
    )
    s = tl.Schedule(canvas)
    s.vectorize("canvas.c")
    return s


def test_lanes_whose_elements_lie_in_one_set_wait_for_the_next_cache() -> None:
    """Planes of 64 columns are 12,288 bytes apart, of 68 they are not: 2.7 ms and 0.42 for 12,000 points on a Zen 4."""
    beside, apart = (columns(12_000, width).estimate(target("znver4")).seconds for width in (64, 68))
    assert beside > 3 * apart


def test_of_no_points_nothing_waits() -> None:
    assert columns(0, 64).estimate(target("znver4")).seconds < columns(12_000, 64).estimate(target("znver4")).seconds / 10
