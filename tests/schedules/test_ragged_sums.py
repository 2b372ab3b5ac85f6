"""Sums whose ranges data tell have lanes where ranges are long on the average, wherever in an expression they stand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.target import target
from tensorlang.ir.traverse import statements

MACHINE = target("x86-64-v3")
ENTRIES = 600
EPILOGUES: dict[str, Callable[[Any], Any]] = {"alone": lambda total: total, "with_more": lambda total: 0.15 + 0.85 * total}
STEPS = 3


def rows(count: int, of: Callable[[Any], Any], *, steps: bool) -> Any:
    """For each row what is made `of` the sum of the elements of a vector that it names; `steps` of a scan, each of the sums before it."""
    ptr, source = tl.placeholder((count + 1,), "int32", name="ptr"), tl.placeholder((ENTRIES,), "int32", name="source")
    first = tl.placeholder((count,), name="first")

    def step(v: Any) -> Any:
        def row(i: Any) -> Any:
            k = tl.reduce_axis((ptr[i], ptr[i + 1]), name="k", within=ENTRIES)
            return of(tl.sum(v[tl.clamp(source[k], 0, count - 1)], axis=k))

        return tl.compute((count,), row, name="Y")

    return tl.scan(lambda _, v: step(v), first, STEPS, keep="last", name="S") if steps else step(first)


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize(("count", "lanes"), [(100, False), (4, True)])
def test_sums_of_few_elements_have_no_lanes(epilogue: str, steps: bool, count: int, lanes: bool) -> None:
    """Six entries a row on the average, and 150: a sum inside an expression shares the entries with the rows around it."""
    nest = default_schedule(rows(count, EPILOGUES[epilogue], steps=steps), MACHINE, threads=1).nest
    vectors = {part.loop for part in statements(nest.body) if getattr(part, "kind", "") == "vector"}
    assert any(loop.startswith("Y") and ".k" in loop for loop in vectors) == lanes


@pytest.mark.parametrize("steps", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("count", [1, 7, 100])
def test_they_are_what_numpy_sums(epilogue: str, steps: bool, count: int) -> None:
    rng = np.random.default_rng(count)
    ptr = np.sort(rng.integers(0, ENTRIES + 1, count + 1)).astype("i4")
    source = rng.integers(0, count, ENTRIES).astype("i4")
    v = rng.random(count).astype("f4") / ENTRIES
    found = tl.build(rows(count, EPILOGUES[epilogue], steps=steps))(ptr, source, v)
    expected = v.astype("f8")
    for _ in range(STEPS if steps else 1):
        expected = np.array([EPILOGUES[epilogue](expected[source[a:b]].sum()) for a, b in pairwise(ptr)])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def boxes(count: int, height: int, width: int) -> Any:
    """The least depth of the boxes over each pixel, whose sides data tell, each by itself."""
    sides = [tl.placeholder((count,), "int32", name=name) for name in ("top", "bottom", "left", "right")]
    depth, slope = tl.placeholder((count,), name="depth"), tl.placeholder((count,), name="slope")
    top, bottom, left, right = sides
    t = tl.reduce_axis(count, name="t")
    y = tl.reduce_axis((top[t], bottom[t]), name="y", within=height)
    x = tl.reduce_axis((left[t], right[t]), name="x", within=width)
    far = tl.compute((height, width), lambda i, j: tl.cast(9, "float32"), name="far")
    return tl.scatter(
        far,
        axes=(t, y, x),
        index=lambda t, y, x: (y, x),
        value=lambda t, y, x: depth[t] + tl.cast(x, "float32") / slope[t],
        reduce="min",
        name="nearest",
    )


def test_ranges_with_ends_of_their_own_are_no_parts_of_one_whole() -> None:
    """Two columns for each of 120 boxes they would be; as sides they are taken for the root of 256, which fills lanes with divisions."""
    nest = default_schedule(boxes(120, 192, 256), MACHINE, threads=1).nest
    assert any(part.loop.startswith("nearest.x") for part in statements(nest.body) if getattr(part, "kind", "") == "vector")


@pytest.mark.parametrize(("count", "height", "width"), [(1, 1, 1), (5, 7, 17), (40, 20, 100)])
def test_boxes_are_filled_as_by_hand(count: int, height: int, width: int) -> None:
    rng = np.random.default_rng(count)
    (top, bottom), (left, right) = (np.sort(rng.integers(-2, size + 3, (2, count)), axis=0).astype("int32") for size in (height, width))
    depth, slope = rng.random(count).astype("float32"), rng.uniform(20, 30, count).astype("float32")
    expected = np.full((height, width), 9, "float32")
    for t in range(count):
        rows, columns = slice(max(top[t], 0), max(bottom[t], 0)), slice(max(left[t], 0), max(right[t], 0))
        values = depth[t] + np.arange(width, dtype="float32") / slope[t]
        expected[rows, columns] = np.minimum(expected[rows, columns], values[columns])
    given = {"top": top, "bottom": bottom, "left": left, "right": right, "depth": depth, "slope": slope}
    np.testing.assert_allclose(tl.build(boxes(count, height, width))(**given), expected, rtol=1e-6)


def test_lanes_that_are_rows_run_over_all_that_a_range_can_be() -> None:
    """The model took the mean row, 93 us for what takes 20 ms."""
    ptr, x = tl.placeholder((101,), "int32", name="ptr"), tl.placeholder((ENTRIES,), name="x")

    def row(i: Any) -> Any:
        k = tl.reduce_axis((ptr[i], ptr[i + 1]), name="k", within=ENTRIES)
        return tl.sum(x[k], axis=k)

    plain, across = (tl.Schedule(tl.compute((100,), row, name="Y")) for _ in range(2))
    lanes = across.split("Y.i", 4)[1]
    across.reorder("Y.i_o", "Y.k", lanes)
    across.vectorize(lanes)
    assert across.estimate(MACHINE).seconds > 10 * plain.estimate(MACHINE).seconds


@pytest.mark.parametrize("count", [10, 50, 100])
def test_the_model_counts_each_element_of_a_whole_once(count: int) -> None:
    """Not all of them for each row: as many sums without ranges, of as many elements together, take about as long."""
    source, v, n = tl.placeholder((ENTRIES,), "int32", name="source"), tl.placeholder((count,), name="v"), ENTRIES // count
    k = tl.reduce_axis(n, name="k")
    even = tl.compute((count,), lambda i: tl.sum(v[tl.clamp(source[n * i + k], 0, count - 1)], axis=k), name="even")
    ragged, whole = (tl.Schedule(each).estimate(MACHINE).seconds for each in (rows(count, EPILOGUES["alone"], steps=False), even))
    assert 1 / 2 < ragged / whole < 2
