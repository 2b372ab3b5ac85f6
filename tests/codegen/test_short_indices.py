"""Floats that become indices are converted by way of 32 bits, and read the same elements: also what is beyond, infinite, or no number."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.short_indices import MOST
from tensorlang.codegen.target import target
from tensorlang.ir.printer import print_nest

FAR = [
    0.0,
    -0.0,
    0.4,
    41.9,
    42.0,
    -1.0,
    -0.1,
    2.0**31,
    2.0**31 - 128,
    -(2.0**31),
    -(2.0**31) - 256,
    2.0**40,
    -(2.0**62),
    3e38,
    -3e38,
    np.inf,
    -np.inf,
    np.nan,
]
PLACES = 43


def picked(kind: str, dtype: str) -> tuple[tl.Tensor, tl.Tensor, tl.Tensor]:
    """An element of X at a place that a float tells: clamped, under a condition, beside the one before it."""
    x, y = tl.placeholder((PLACES,), name="X"), tl.placeholder((len(FAR) * 4,), dtype, name="Y")

    def element(i: tl.Expr) -> tl.Expr:
        place = tl.cast(tl.floor(y[i]), "int64")
        if kind == "clamped":
            return x[tl.clamp(place, 0, PLACES - 1)]
        if kind == "asked":
            return tl.select((place >= 0) & (place < PLACES), x[tl.clamp(place, 0, PLACES - 1)], -1.0)
        if kind == "next":
            return x[tl.minimum(tl.clamp(place, 0, PLACES - 1) + 1, PLACES - 1)]
        if kind == "summed":
            return x[tl.clamp(place + 1, 0, PLACES - 1)]  # of the greatest number this is the least one
        return tl.select(place * 2 > PLACES, x[0], 0.0) + tl.cast(place // 2, "float32")  # more than its order counts

    return tl.compute((len(FAR) * 4,), element, name="Z"), x, y


def lowered(outputs: tl.Tensor) -> str:
    return print_nest(lower(tl.Schedule(outputs).nest, target()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["clamped", "asked", "next", "summed", "counted"])
def test_the_same_elements_are_read(kind: str, dtype: str) -> None:
    outputs, x, y = picked(kind, dtype)
    given = np.arange(PLACES, dtype=np.float32), np.array(FAR * 4, dtype)
    wanted = tl.evaluate(outputs, {x: given[0], y: given[1]})
    plain, lanes = tl.Schedule(outputs), tl.Schedule(outputs)
    lanes.vectorize(lanes.split("i", 8, tail="peel")[1])
    for s in (plain, lanes):
        np.testing.assert_array_equal(tl.build(s)(*given), wanted)


@pytest.mark.parametrize(("kind", "short"), [("clamped", True), ("asked", True), ("next", True), ("summed", False), ("counted", False)])
def test_only_what_is_ordered_or_an_index_is_converted_so(kind: str, short: bool) -> None:
    assert ("int64(int32(" in lowered(picked(kind, "float32")[0])) == short


def test_an_index_of_more_than_32_bits_hold_is_converted_whole() -> None:
    x, y = tl.placeholder((2 * MOST,), "uint8", name="X"), tl.placeholder((8,), name="Y")
    outputs = tl.compute((8,), lambda i: x[tl.clamp(tl.cast(y[i], "int64"), 0, 2 * MOST - 1)], name="Z")
    assert "int32" not in lowered(outputs)
