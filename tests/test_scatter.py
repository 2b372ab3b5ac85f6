"""A scatter combines values into a tensor at computed indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.agreement import agree
from tests.thinned import crossed

rng = np.random.default_rng(8)


def zeros(*shape: int, dtype: str = "float64") -> Any:
    return tl.compute(shape, lambda *_: tl.cast(0, dtype), name="zero")


def test_a_histogram_is_numpy_bincount() -> None:
    X = tl.placeholder((100,), "int32", name="X")
    r = tl.reduce_axis(100, name="r")
    H = tl.scatter(zeros(8, dtype="int32"), r, lambda r: (tl.clamp(X[r], 0, 7),), lambda r: 1, name="H")
    x = rng.integers(0, 8, 100).astype("int32")
    agree(H, {X: x}, np.bincount(x, minlength=8).astype("int32"))


@crossed({"reduce, ufunc": [("add", np.add), ("min", np.minimum), ("max", np.maximum)], "dtype": ["float64", "int32", "uint8", "float16"]})
def test_a_scatter_is_ufunc_at(reduce: str, ufunc: Any, dtype: str) -> None:
    A, X, V = tl.placeholder((5, 3), dtype, name="A"), tl.placeholder((20,), "int64", name="X"), tl.placeholder((20, 3), dtype, name="V")
    i, j = tl.reduce_axis(20, name="i"), tl.reduce_axis(3, name="j")
    S = tl.scatter(A, (i, j), lambda i, j: (tl.clamp(X[i], 0, 4), j), lambda i, j: V[i, j], reduce, name="S")
    a, x, v = rng.integers(0, 9, (5, 3)).astype(dtype), rng.integers(0, 5, 20), rng.integers(0, 9, (20, 3)).astype(dtype)
    want = a.copy()
    ufunc.at(want, x, v)
    agree(S, {A: a, X: x, V: v}, want)


def test_set_keeps_the_last_in_row_major_order() -> None:
    X = tl.placeholder((4, 6), "int64", name="X")
    i, j = tl.reduce_axis(4, name="i"), tl.reduce_axis(6, name="j")
    S = tl.scatter(zeros(5, dtype="int64"), (i, j), lambda i, j: (tl.clamp(X[i, j], 0, 4),), lambda i, j: 10 * i + j + 1, "set", name="S")
    x = rng.integers(0, 5, (4, 6))
    want = np.zeros(5, "int64")
    for p in range(4):
        for q in range(6):
            want[x[p, q]] = 10 * p + q + 1
    agree(S, {X: x}, want)


def test_a_condition_keeps_indices_inside_and_skips_the_rest() -> None:
    n = tl.dim("n")
    X = tl.placeholder((n,), "int64", name="X")
    r = tl.reduce_axis(n, name="r")
    H = tl.scatter(zeros(6), r, lambda r: X[r], lambda r: 0.5, where=lambda r: (X[r] >= 0) & (X[r] < 6), name="H")
    for size in (0, 1, 40):
        x = rng.integers(-3, 9, size)
        agree(H, {X: x}, np.bincount(x[(x >= 0) & (x < 6)], minlength=6) * 0.5)


def test_the_value_may_hold_a_reduction() -> None:
    X = tl.placeholder((7, 5), "float64", name="X")
    i, k = tl.reduce_axis(7, name="i"), tl.reduce_axis(5, name="k")
    S = tl.scatter(zeros(3), i, lambda i: i % 3, lambda i: tl.sum(X[i, k], axis=k), name="S")
    x = rng.random((7, 5))
    want = np.zeros(3)
    np.add.at(want, np.arange(7) % 3, x.sum(1))
    agree(S, {X: x}, want)


def test_axes_start_where_they_say() -> None:
    X = tl.placeholder((9,), "float64", name="X")
    i = tl.reduce_axis((2, 7), name="i")
    S = tl.scatter(zeros(9), i, lambda i: 8 - i, lambda i: X[i], "set", name="S")
    x = rng.random(9)
    want = np.zeros(9)
    want[8 - np.arange(2, 7)] = x[2:7]
    agree(S, {X: x}, want)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda Z, X, r: tl.scatter(Z, r, lambda r: X[r], lambda r: 1.0), "writes .* outside"),
        (lambda Z, X, r: tl.scatter(Z, r, lambda r: r, lambda r: 1.0), "written at 19; .* where="),
        (lambda Z, X, r: tl.scatter(Z, r, lambda r: (r % 8, r), lambda r: 1.0), "1 axes"),
        (
            lambda Z, X, r: tl.scatter(Z, r, lambda r: r % 8, lambda r: X[r]),
            r'X\[r\] \(int64\), of another kind than zero: float64\[8\]; write tl.cast\(..., "float64"\) .*, or make zero of int64$',
        ),
        (lambda Z, X, r: tl.scatter(X, r, lambda r: r, lambda r: 0.5), r"0.5 \(float32\), of another kind than X: int64\[20\]"),
        (lambda Z, X, r: tl.scatter(X, r, lambda r: r, lambda r: True), r"True \(bool\), of another kind than X: int64\[20\]"),
        (
            lambda Z, X, r: tl.scatter(Z, r, lambda r: r % 8, lambda r: 1.0, "mul"),
            "^reduce='mul' is not one of add, min, max, set; products of what is above 0 are tl.exp of sums of logarithms$",
        ),
        (lambda Z, X, r: tl.scatter(Z, (), lambda: 0, lambda: 1.0), "one or more"),
        (lambda Z, X, r: tl.scatter(Z, r, lambda: 0, lambda r: 1.0), "must be a function of the 1 axes"),
        (lambda Z, X, r: tl.scatter(3, r, lambda r: 0, lambda r: 1.0), "must be a tensor"),  # type: ignore[arg-type]
        (lambda Z, X, r: tl.scatter(Z, r, lambda r: r % 8, lambda r: tl.cast(X[r + 1], "float64")), "outside X"),
    ],
)
def test_misuse_is_a_definition_error(make: Any, message: str) -> None:
    X = tl.placeholder((20,), "int64", name="X")
    with pytest.raises(tl.DefinitionError, match=message):
        make(zeros(8), X, tl.reduce_axis(20, name="r"))
