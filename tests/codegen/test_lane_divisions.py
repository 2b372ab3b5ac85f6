"""Quotients and remainders of integers in lanes, which are taken by floats: the ends of every type, and all pairs of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tests.thinned import crossed

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def divided(dtype: str, count: int) -> Any:
    A, B = (tl.placeholder((count,), dtype, name=name) for name in "AB")
    quotient = tl.compute((count,), lambda i: A[i] // B[i], name="Q")
    rest = tl.compute((count,), lambda i: A[i] % B[i], name="R")
    return quotient, rest


def expected(a: Any, b: Any) -> tuple[Any, Any]:
    """Rounded down, in integers without bounds; a division by 0 gives 0, and so does its rest."""
    pairs = [(int(x) // int(y), int(x) % int(y)) if y else (0, 0) for x, y in zip(a, b, strict=True)]
    quotients, rests = zip(*pairs, strict=True)
    wrap = 1 << (8 * a.dtype.itemsize)
    first, second = (np.array([value % wrap for value in side], dtype=np.uint64).astype(a.dtype) for side in (quotients, rests))
    return first, second


def checked(a: Any, b: Any) -> None:
    for found, wanted in zip(tl.build(divided(a.dtype.name, len(a)))(a, b), expected(a, b), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_pair_of_bytes(dtype: str) -> None:
    every = np.arange(256, dtype="uint8").view(dtype)
    checked(*(side.ravel() for side in np.meshgrid(every, every)))


@pytest.mark.parametrize("dtype", TYPES)
def test_the_ends_and_what_is_just_below_a_multiple(dtype: str) -> None:
    ends, rng = np.iinfo(dtype), np.random.default_rng(5)
    near = {int(end) + off for end in (ends.min, ends.max, 0) for off in range(-3, 4)} | {int(ends.max) // part for part in (2, 3, 7, 10)}
    telling = [value for value in near if ends.min <= value <= ends.max]
    drawn = rng.integers(ends.min, ends.max, 400, dtype=dtype, endpoint=True)
    divisors = np.concatenate([np.array(telling, dtype), drawn[:40], (drawn[40:80] % 100).astype(dtype)])
    a, b = (side.ravel() for side in np.meshgrid(np.concatenate([np.array(telling, dtype), drawn[:60]]), divisors))
    multiples = (a.astype(object) // np.where(b == 0, 1, b).astype(object)) * b.astype(object)
    below = np.array([value - 1 if ends.min < value <= ends.max else 0 for value in multiples], dtype)  # one less than a multiple
    checked(np.concatenate([a, below]), np.concatenate([b, b]))


@crossed({"dtype": TYPES[:6], "name": ["x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-n1"]})
def test_lanes_are_not_taken_apart(dtype: str, name: str) -> None:
    text = tl.build(divided(dtype, 256), target=target(name)).inspect("llvm")
    assert " sdiv <" not in text and " udiv <" not in text and " srem <" not in text and " urem <" not in text
    assert "fdiv <" in text


def test_a_tree_of_divisions_builds_soon() -> None:
    A = tl.placeholder((2100,), "uint16", name="A")

    def element(i: Any) -> Any:
        values = [A[i + place] for place in range(256)]
        while len(values) > 1:
            values = [values[at] // values[at + 1] for at in range(0, len(values), 2)]
        return values[0]

    kernel = tl.build(tl.compute((100,), element, name="C"))
    assert len(kernel.program.compiled.object) < 200_000


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_a_balanced_sum_stays_balanced(dtype: str) -> None:
    """Sums of integers of 64 bits are taken for indices, and written anew."""
    count = 700
    A = tl.placeholder((count + 64,), dtype, name="A")

    def element(i: Any) -> Any:
        values = [A[i + place] - 3 * (place % 5) for place in range(count)]
        while len(values) > 1:
            values = [values[at] + values[at + 1] if at + 1 < len(values) else values[at] for at in range(0, len(values), 2)]
        return values[0]

    a = np.random.default_rng(1).integers(-9, 9, count + 64).astype(dtype)
    wanted = np.array([a[i : i + count].sum() for i in range(64)]) - sum(3 * (place % 5) for place in range(count))
    np.testing.assert_array_equal(tl.build(tl.compute((64,), element, name="C"))(a), wanted)
