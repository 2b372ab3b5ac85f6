"""Divisions take the divider's time; those on the seldom side of a choice are made where a vector has lanes of both."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl

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
    assert divided(1 / 3).estimate(cpu).seconds >= least  # some quotients would be rounded the other way
    assert divided(tl.placeholder((N,), name="y")).estimate(cpu).seconds >= least
    assert divided(3.0).estimate(cpu).seconds < least  # two products
    assert divided(8.0).estimate(cpu).seconds <= divided(3.0).estimate(cpu).seconds  # a factor


def chosen(choice: str, vectors: int, cpu: str = "znver3") -> float:
    """Seconds of quotients of which a choice by loops decides, in tiles of so many vectors of a row."""
    rows, columns = 128, 128
    x, y = (tl.placeholder((rows, columns), name=name) for name in "xy")

    def element(i: Any, j: Any) -> Any:
        asked = {"triangle": j > i, "diagonal": j == i, "odd": j % 2 == 1, "rows": i > 3}[choice]
        return tl.select(asked, sum(x[i, j] / (y[i, j] + part) for part in range(1, 9)), x[i, j])

    s = tl.Schedule(tl.compute((rows, columns), element, name="q"))
    s.vectorize(s.split("j", vectors * 8, tail="peel")[1])
    return s.estimate(cpu).seconds


def test_a_quotient_on_the_seldom_side_is_made_in_the_tile_that_the_boundary_crosses() -> None:
    few, all_of_a_row = chosen("diagonal", 1), chosen("diagonal", 16)
    assert 4 * few < all_of_a_row
    assert chosen("odd", 1) > 0.9 * all_of_a_row  # each vector has both
    assert chosen("triangle", 16) > chosen("diagonal", 1)
