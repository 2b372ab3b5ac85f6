"""What is dear is skipped by vectors of which no lane wants it, and is right for those of which some do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.emission.emit import emitted
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.strategies import choose

SIZE: Final = 403
BINS: Final = 37
WANTED: Final[dict[str, Callable[[Any], Any]]] = {
    "none": lambda n: n < 0,
    "all": lambda n: n >= 0,
    "some": lambda n: n % 3 == 0,
    "a run": lambda n: (n >= 90) & (n < 133),
    "one": lambda n: n == 200,
    "the last": lambda n: n == SIZE - 1,
}


def looked_up(dtype: str) -> tuple[Tensor, ...]:
    """Elements at four places that data tell, where a mask says so or where it does not; all of them exist."""
    mask, at = tl.placeholder((SIZE,), "int8", name="mask"), tl.placeholder((SIZE,), "int32", name="at")
    table = tl.placeholder((SIZE,), dtype, name="table")

    def found(i: Any) -> Any:
        first, *others = (table[tl.clamp(at[i] + step, 0, SIZE - 1)] for step in range(4))
        return first * 2 + sum(others)

    there = tl.compute((SIZE,), lambda i: tl.select(mask[i] > 0, found(i), table[i]), name="there")
    other = tl.compute((SIZE,), lambda i: tl.select(mask[i] > 0, 0, found(i)) + table[i], name="other")
    return there, other


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("wanted", list(WANTED))
def test_sides_of_choices(dtype: str, wanted: str) -> None:
    rng = np.random.default_rng(1)
    mask, at = WANTED[wanted](np.arange(SIZE)).astype("int8"), rng.integers(0, SIZE, SIZE).astype("int32")
    table = rng.integers(0, 50, SIZE).astype(dtype)
    there, other = tl.build(looked_up(dtype))(mask, at, table)
    first, *others = (table[np.minimum(at + step, SIZE - 1)] for step in range(4))
    found = first * 2 + sum(others)
    np.testing.assert_array_equal(there, np.where(mask > 0, found, table).astype(dtype))
    np.testing.assert_array_equal(other, (np.where(mask > 0, 0, found) + table).astype(dtype))


@pytest.mark.parametrize("wanted", list(WANTED))
def test_places_that_only_a_mask_makes_safe(wanted: str) -> None:
    rng = np.random.default_rng(2)
    on = WANTED[wanted](np.arange(SIZE))
    at = np.where(on, rng.integers(0, SIZE, SIZE), SIZE + 7).astype("int32")
    places, tables = tl.placeholder((SIZE,), "int32", name="places"), tl.placeholder((3, SIZE), name="tables")

    def within(i: Any) -> Any:
        first, second, third = (tables[n, places[i]] for n in range(3))
        return tl.select((places[i] >= 0) & (places[i] < SIZE), first + second * third, -1.0)

    found = tl.compute((SIZE,), within, name="found")
    values = rng.integers(0, 9, (3, SIZE)).astype("float32")
    first, second, third = values[:, np.minimum(at, SIZE - 1)]
    np.testing.assert_array_equal(tl.build(found)(at, values), np.where(on, first + second * third, np.float32(-1)))


def counted() -> Tensor:
    """The weights of what is in each bin, of what a mask lets through."""
    mask, at = tl.placeholder((SIZE,), "int8", name="mask"), tl.placeholder((SIZE,), "int32", name="at")
    bins, weights = tl.placeholder((20,), "int32", name="bins"), tl.placeholder((20,), "int32", name="weights")

    def kind(i: Any) -> Any:
        return tl.clamp(at[i], 0, 19)

    zero, i = tl.compute((BINS,), lambda b: tl.cast(b, "int32"), name="zero"), tl.reduce_axis(SIZE, name="i")
    counts: Tensor = tl.scatter(
        zero,
        axes=i,
        index=lambda i: tl.clamp(bins[kind(i)], 0, BINS - 1),
        value=lambda i: weights[kind(i)],
        where=lambda i: mask[i] > 0,
        name="counts",
    )
    return counts


@pytest.mark.parametrize("wanted", list(WANTED))
def test_scatters_in_lanes(wanted: str) -> None:
    rng = np.random.default_rng(3)
    on, at = WANTED[wanted](np.arange(SIZE)), rng.integers(0, 20, SIZE).astype("int32")
    bins, weights = (rng.integers(0, BINS + 4, 20).astype("int32") for _ in range(2))
    expected = np.arange(BINS, dtype="int32")
    np.add.at(expected, np.minimum(bins, BINS - 1)[at[on]], weights[at[on]])
    np.testing.assert_array_equal(tl.build(counted())(mask=on.astype("int8"), at=at, bins=bins, weights=weights), expected)


@pytest.mark.parametrize("definition", [lambda: looked_up("float32"), counted], ids=["gathers", "scatters"])
def test_it_is_asked_whether_any_lane_wants_it(definition: Callable[[], Any]) -> None:
    """Of every vector, by one question for all its lanes."""
    isa = target("znver4")
    strategy = choose(definition(), isa, threads=1)
    nest = strategy.schedule(strategy.default).nest
    assert any(loop.kind == "vector" for loop in loops(nest.body))
    assert "vector.reduce.or" in emitted(lower(nest, isa), isa, name="wanted").text
