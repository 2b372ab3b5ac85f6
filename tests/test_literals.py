"""Python numbers in definitions: the type that they take, and how precise what is made of them stays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tensorlang as tl


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda i: tl.select(i == 0, 0.1, 0.2), [0.1, 0.2, 0.2]),
        (lambda i: tl.maximum(0.1, 0.05), [0.1] * 3),
        (lambda i: tl.clamp(0.1, 0.0, 1.0), [0.1] * 3),
        (lambda i: tl.sqrt(2.0), [math.sqrt(2)] * 3),
        (lambda i: tl.exp(2), [math.exp(2)] * 3),
        (lambda i: 0.1 * tl.select(i == 0, 1.0, -1.0), [0.1, -0.1, -0.1]),
        (lambda i: tl.select(i == 1, tl.abs(-0.3), 0.7) ** 2, [0.7**2, 0.3**2, 0.7**2]),
    ],
)
def test_what_is_made_of_literals_is_as_precise_as_what_it_meets(made: Any, expected: Any) -> None:
    """By itself it is `float32`, and a number that was rounded to that before would stay so."""
    X = tl.placeholder((3,), "float64", name="X")
    for body in (lambda i: X[i] * made(i), lambda i: X[i] * tl.cast(made(i), "float64")):
        np.testing.assert_allclose(tl.build(tl.compute((3,), body, name="Y"))(np.ones(3)), expected, rtol=1e-15)
    assert tl.compute((3,), made, name="Z").dtype == "float32"


@pytest.mark.parametrize("literal", [1 << 64, -(1 << 63) - 1, 10**400])
def test_an_integer_that_no_type_holds_is_refused_where_it_is_written(literal: int) -> None:
    A = tl.placeholder((16,), "int32", name="A")
    uses = [
        lambda i: A[i] + literal,
        lambda i: A[literal],
        lambda i: tl.select(i < literal, A[i], 0),
        lambda i: A[(i + literal) % 16],
        lambda i: tl.cast(literal, "int32"),
        lambda i: tl.cast(A[i], "float32") * literal,
        lambda i: literal,
    ]
    for use in uses:
        with pytest.raises(tl.DefinitionError, match="fits no type"):
            tl.compute((16,), use)


def test_an_integer_beyond_int64_is_a_uint64() -> None:
    U = tl.placeholder((4,), "uint64", name="U")
    u = np.arange(4, dtype="u8")
    np.testing.assert_array_equal(tl.build(tl.compute((4,), lambda i: U[i] + (1 << 63)))(u), u + np.uint64(1 << 63))
    assert tl.compute((4,), lambda _: (1 << 64) - 1).dtype == "uint64"
    with pytest.raises(tl.DefinitionError, match="does not fit int64"):
        tl.compute((4,), lambda i: tl.select(i < 1 << 63, 1, 0))
