"""Scatters by their default schedule: lanes where they write apart, else a few elements for each step of the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.loop_kinds import Unroll, Vectorize
from tensorlang.schedules.strategies import choose


def counted(elements: int) -> tl.Tensor:
    """How often each byte occurs."""
    x, r = tl.placeholder((elements,), "uint8", name="X"), tl.reduce_axis(elements, name="r")
    none = tl.compute((256,), lambda _: tl.cast(0, "int32"), name="none")
    return tl.scatter(none, (r,), lambda r: x[r], lambda r: tl.cast(1, "int32"), name="counts")


def placed(elements: int) -> tl.Tensor:
    """Sums of rows, to the places that data tells."""
    x, at = tl.placeholder((elements, 32), name="X"), tl.placeholder((elements,), "int32", name="at")
    i, j = tl.reduce_axis(elements, name="i"), tl.reduce_axis(32, name="j")
    zero = tl.compute((10, 32), lambda *_: 0.0, name="zero")
    return tl.scatter(zero, (i, j), lambda i, j: (tl.clamp(at[i], 0, 9), j), lambda i, j: x[i, j], name="sums")


def loops_of(output: tl.Tensor, kind: Any, **config: Any) -> list[str]:
    strategy = choose(output, target("znver4"), 1)
    steps = strategy.schedule({**strategy.default, **config}).directives
    return [step.loop for step in steps if isinstance(step, kind) and step.loop.startswith(output.name + ".") and ".start" not in step.loop]


def test_elements_that_may_meet_are_written_in_turn_several_for_each_step() -> None:
    assert loops_of(counted(1000), Vectorize) == [] and loops_of(counted(1000), Unroll) == ["counts.r_i"]
    strategy = choose(counted(1000), target("znver4"), 1)
    codes = [str(strategy.schedule({**strategy.default, "vectors": vectors})) for vectors in (1, 2, 4)]
    assert [f"unroll r_i in range({copies})" in code for copies, code in zip((2, 4, 8), codes, strict=True)] == [True] * 3


def test_rows_that_lie_apart_have_lanes() -> None:
    assert loops_of(placed(1000), Vectorize) == ["sums.j_i"] and loops_of(placed(1000), Unroll) == []


@pytest.mark.parametrize("elements", [1, 3, 4, 1003])
@pytest.mark.parametrize("most", [1, 256])
def test_elements_that_meet_are_all_counted(elements: int, most: int) -> None:
    x = np.random.default_rng(elements).integers(0, most, elements).astype("uint8")
    assert np.array_equal(tl.build(counted(elements))(x), np.bincount(x, minlength=256))
