"""Which loop of a sum has the lanes: its own where they are long and lie side by side, else those over its elements."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.strategies import choose
from tests.schedules.test_separate import same


def default(outputs: Tensor) -> tl.Schedule:
    strategy = choose(outputs, target("znver3"), 1)
    return strategy.schedule(strategy.default)


def vectors(s: tl.Schedule) -> set[str]:
    """The loops that were split into the lanes of a schedule."""
    return {line.split("'")[1].removesuffix("_i") for line in repr(s).splitlines() if ".vectorize(" in line}


def in_expression(taps: int) -> Tensor:
    """A mean of neighbours in a row, clamped to it, inside an expression."""
    x, k = tl.placeholder((40, 300), name="X"), tl.reduce_axis(taps, name="k")
    result: Tensor = tl.compute((40, 300), lambda i, j: tl.sqrt(tl.sum(x[i, tl.clamp(j + k - 2, 0, 299)], axis=k) / float(taps)), name="Y")
    return result


@pytest.mark.parametrize("taps", [3, 5, 9])
def test_a_window_in_an_expression_has_the_lanes_of_its_elements(taps: int) -> None:
    s = default(in_expression(taps))
    assert vectors(s) and not any(".k" in loop for loop in vectors(s))
    same(s)


def enlarged() -> Tensor:
    """A sum of two taps whose weights parity tells, along rows that are twice as long as what is read."""
    x, k = tl.placeholder((20, 120), name="X"), tl.reduce_axis(5, name="k")

    def value(i: Any, j: Any) -> Any:
        weight = tl.select(j % 2 == 0, 0.25, 0.75) * tl.cast(k, "float32")
        return tl.sum(weight * x[i, tl.clamp(j // 2 + k - 2, 0, 119)], axis=k)

    result: Tensor = tl.compute((20, 240), value, name="Y")
    return result


def test_a_sum_that_does_not_fill_lanes_gives_them_to_its_elements() -> None:
    s = default(enlarged())
    assert not any(".k" in loop for loop in vectors(s))
    same(s)


@pytest.mark.parametrize(("stride", "taps", "along"), [(4, 64, True), (8, 64, True), (1, 64, False), (2, 64, False), (4, 8, False)])
def test_a_long_window_whose_lanes_lie_far_apart_is_a_sum_in_lanes(stride: int, taps: int, *, along: bool) -> None:
    x, w, k = tl.placeholder((stride * 500 + taps,), name="X"), tl.placeholder((taps,), name="W"), tl.reduce_axis(taps, name="k")
    s = default(tl.compute((500,), lambda i: tl.sum(x[stride * i + k] * w[k], axis=k), name="Y"))
    assert any(".k" in loop for loop in vectors(s)) == along
    same(s)
