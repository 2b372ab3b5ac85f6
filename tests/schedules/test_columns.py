"""Divisions take the divider's time; what columns share is divided once where rows run inside of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose

N = 1 << 10


def divided(by: object) -> tl.Schedule:
    """A quotient of 4 KiB in vectors of 64 numbers."""
    x = tl.placeholder((N,), name="x")
    s = tl.Schedule(tl.compute((N,), lambda i: x[i] / (by[i] if isinstance(by, tl.Tensor) else by), name="q"))
    s.vectorize(s.split("i", 64)[1])
    return s


@pytest.mark.parametrize("cpu", ["znver4", "cascadelake", "haswell"])
def test_a_division_takes_the_divider(cpu: str) -> None:
    core = tl.machine(cpu)
    least = N / (core.vector_bits / 32) / core.ports.divisions / core.hertz
    assert divided(3.0).estimate(cpu).seconds >= least
    assert divided(tl.placeholder((N,), name="y")).estimate(cpu).seconds >= least
    assert divided(8.0).estimate(cpu).seconds < least  # a factor


def standardised(rows: int, columns: int) -> Any:
    x, k = tl.placeholder((rows, columns), name="X"), tl.reduce_axis(rows, name="k")
    spread = tl.compute((columns,), lambda j: tl.sum(x[k, j] ** 2, axis=k), name="spread")
    return tl.compute((rows, columns), lambda i, j: x[i, j] / tl.sqrt(spread[j] + 1.0), name="Y")


def rooted(rows: int, columns: int, *, shared: bool) -> Any:
    x, scale = tl.placeholder((rows, columns), name="X"), tl.placeholder((rows, columns) if not shared else (columns,), name="scale")
    return tl.compute((rows, columns), lambda i, j: x[i, j] * tl.sqrt(scale[j] if shared else scale[i, j]), name="Y")


def test_rows_run_inside_of_columns_that_share_a_root() -> None:
    s = choose(rooted(200, 1000, shared=True), target("znver4"), 1)  # of 96 registers hold the roots in either order
    assert s.name == "columns" and s.default["strip"] > 0
    made = s.schedule(s.default)
    assert [str(loop) for loop in made.loops("Y")][1] == "Y.i"
    other = {**s.default, "strip": 0}
    assert made.estimate("znver4").seconds < s.schedule(other).estimate("znver4").seconds
    assert choose(rooted(200, 1000, shared=False), target("znver4"), 1).name == "rows"


@pytest.mark.parametrize("shape", [(200, 96), (3, 1000), (70, 33)], ids=str)
def test_results_are_those_of_rows(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random(shape, np.float32)
    found = tl.build(standardised(*shape))(x)
    np.testing.assert_allclose(found, x / np.sqrt((x.astype("f8") ** 2).sum(0) + 1), rtol=1e-5)


def test_work_of_another_row_or_of_all_lanes_is_not_shared_by_columns() -> None:
    x, scale = tl.placeholder((64, 64), name="X"), tl.placeholder((64,), name="scale")
    y = tl.compute((64, 64), lambda i, j: x[i, j] / tl.sqrt(scale[i]), name="Y")
    assert choose(y, target("znver4"), 1).name == "rows"
