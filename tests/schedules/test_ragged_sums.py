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
