"""Windows that a definition writes out as sums of integers are computed by columns first where their weights are a product."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.rewriting.weights import Window, product_of
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import refused

BINOMIAL = [1, 4, 6, 4, 1]
IMAGE = (21, 34)


def written(weights: Mapping[tuple[int, ...], int], shape: tuple[int, ...], dtype: str = "int32", kind: str = "int32") -> tl.Tensor:
    """`sum(weight * X[place + offsets])`, each term for itself."""
    x = tl.placeholder(shape, dtype, name="X")
    reach = [max(place[at] for place in weights) for at in range(len(shape))]
    inner = tuple(extent - most for extent, most in zip(shape, reach, strict=True))

    def element(*at: Any) -> Any:
        places = (tuple(i + offset for i, offset in zip(at, offsets, strict=True)) for offsets in weights)
        return sum(weight * tl.cast(x[place], kind) for place, weight in zip(places, weights.values(), strict=True))

    result: tl.Tensor = tl.compute(inner, element, name="Y")
    return result


def outer(*factors: list[int]) -> dict[tuple[int, ...], int]:
    """The window whose weights are the product of these."""
    places = itertools.product(*(range(len(factor)) for factor in factors))
    found = {at: int(np.prod([factor[i] for factor, i in zip(factors, at, strict=True)])) for at in places}
    return {at: weight for at, weight in found.items() if weight}


def expected(weights: Mapping[tuple[int, ...], int], x: Any, shape: tuple[int, ...], kind: str = "int32") -> Any:
    found = np.zeros(shape, kind)
    for offsets, weight in weights.items():
        taken = x[tuple(slice(at, at + extent) for at, extent in zip(offsets, shape, strict=True))]
        found += np.array(weight).astype(kind) * taken.astype(kind)
    return found


def check(weights: Mapping[tuple[int, ...], int], shape: tuple[int, ...], dtype: str = "int32", kind: str = "int32") -> tl.Schedule:
    """Two steps, and the same integers."""
    y = written(weights, shape, dtype, kind)
    s = tl.Schedule(y)
    s.separate("Y")
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(info.min, info.max, shape, dtype, endpoint=True)
    for kernel in (tl.build(s), tl.build(y)):
        made = kernel(x)
        np.testing.assert_array_equal(made, expected(weights, x, made.shape, kind))
    return s


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_integers_wrap_as_before(kind: str) -> None:
    """Sums that leave their type are the same in any order."""
    check(outer(BINOMIAL, BINOMIAL), IMAGE, kind, kind)


@pytest.mark.parametrize("weights", [
    outer(BINOMIAL, BINOMIAL),
    outer([1, 1, 1, 1], [1, 1, 1]),
    outer([1, 0, 2, 0, 1], [3, 0, -3, 0, 6]),
    outer([1, 2, 1], [1, 2, 1], [1, 2, 1]),
    outer([2, 2], [1, 2, 3, 4, 5]),
])  # fmt: skip
def test_windows_whose_weights_are_a_product(weights: dict[tuple[int, ...], int]) -> None:
    check(weights, (*IMAGE, 9)[: len(next(iter(weights)))])


def test_what_is_no_product_is_left_beside() -> None:
    """The neighbours of a pixel are a window without the one in the middle."""
    s = check({place: 1 for place in itertools.product(range(5), repeat=2) if place != (2, 2)}, IMAGE)
    assert "X[at0 + 2, at1 + 2] * -1" in str(s)


@pytest.mark.parametrize("seed", range(40))
def test_a_product_is_the_window_that_it_is_of(seed: int) -> None:
    """Of products with a few weights changed: the steps add up to the weights, or it is none."""
    rng = np.random.default_rng(seed)
    weights = np.outer(rng.integers(-3, 4, rng.integers(2, 6)), rng.integers(-3, 4, rng.integers(2, 6)))
    for _ in range(rng.integers(0, 3)):
        weights[tuple(rng.integers(0, weights.shape))] = rng.integers(-9, 10)
    found = {(int(a), int(b)): int(weight) for (a, b), weight in np.ndenumerate(weights) if weight}
    x = tl.placeholder(IMAGE, "int32", name="X")
    product = product_of(Window(tl.Schedule(tl.compute(IMAGE, lambda i, j: x[i, j], name="Y")).nest.body, ("i", "j"), found))  # type: ignore[arg-type]
    if product is None:
        return
    made = {(a, *rest): u * v for a, u in product.first.items() for rest, v in product.rest.items()}
    total = {place: made.get(place, 0) + product.left.get(place, 0) for place in {**made, **product.left}}
    assert {place: weight for place, weight in total.items() if weight} == found
    assert product.steps == len(product.first) + len(product.rest) + len(product.left) < len(found)


def test_clamped_windows_are_read_where_the_clamp_says() -> None:
    h, w = IMAGE
    x = tl.placeholder(IMAGE, "uint8", name="X")

    def element(i: Any, j: Any) -> Any:
        places = itertools.product(range(5), repeat=2)
        taken = (tl.cast(x[tl.clamp(i + a - 2, 0, h - 1), tl.clamp(j + b - 2, 0, w - 1)], "int32") for a, b in places)
        return tl.cast(sum(taken) // 25, "uint8")

    y = tl.compute(IMAGE, element, name="Y")
    s = tl.Schedule(y)
    s.separate("Y")
    data = np.random.default_rng(0).integers(0, 255, IMAGE, "uint8", endpoint=True)
    bordered = np.pad(data, 2, mode="edge").astype("int32")
    total = sum(bordered[a : a + h, b : b + w] for a, b in itertools.product(range(5), repeat=2)) // 25
    for kernel in (tl.build(s), tl.build(y)):
        np.testing.assert_array_equal(kernel(data), total.astype("uint8"))


def test_the_default_takes_ten_steps_and_not_twenty_five_in_as_few_bits_as_hold_them() -> None:
    strategy = choose(written(outer([1, 1, 1, 1, 1], [1, 1, 1, 1, 1]), (400, 500), "uint8"), target("znver4"), 1)
    assert strategy.default["reductions"] == "in_steps"
    assert "Y_inner: int16" in str(strategy.schedule(strategy.default))


@pytest.mark.parametrize("weights", [
    {(0, 1): 1, (1, 0): 1, (1, 2): 1, (2, 1): 1, (1, 1): -4},
    outer([1, 1], [1]),
    {(a, b): a * 5 + b * b + 1 for a in range(4) for b in range(4)},
])  # fmt: skip
def test_windows_that_take_no_fewer_steps_are_refused(weights: dict[tuple[int, ...], int]) -> None:
    refused(tl.Schedule(written(weights, IMAGE)), "TL-S304", "no sum of integers that 'Y' writes out", "separate", "Y")


def test_floats_are_added_as_they_are_written() -> None:
    refused(tl.Schedule(written(outer(BINOMIAL, BINOMIAL), IMAGE, "float32", "float32")), "TL-S304", "no sum of integers", "separate", "Y")


def test_what_reads_its_own_window_is_refused() -> None:
    def element(i: Any, j: Any, y: Any) -> Any:
        before = sum(y[i - 1 - a, j - b] for a in range(3) for b in range(3))
        return tl.select((i > 2) & (j > 1), before, i + j)

    refused(tl.Schedule(tl.recurrence((9, 12), element, dtype="int32", name="Y")), "TL-S303", "reads what it makes", "separate", "Y")
