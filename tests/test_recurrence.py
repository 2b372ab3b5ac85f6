"""A recurrence reads earlier elements of itself, which is proved when it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.sequential import leading
from tensorlang.tensor import Stage, Tensor
from tests.agreement import agree

rng = np.random.default_rng(5)


def test_a_cumulative_sum_is_numpy_cumsum() -> None:
    X = tl.placeholder((4, 9), "float64", name="X")
    x = rng.random((4, 9))
    agree(tl.recurrence((4, 9), lambda i, j, self: X[i, j] + self[i, j - 1], name="Y"), {X: x}, x.cumsum(1))


@pytest.mark.parametrize("size", [0, 1, 2, 13])
def test_a_recurrence_has_symbolic_extents(size: int) -> None:
    n = tl.dim("n")
    X = tl.placeholder((n,), "float64", name="X")
    Y = tl.recurrence((n,), lambda i, self: X[i] + self[i - 1] * 0.5 + self[i - 2] * 0.25, outside=1.0, name="Y")
    x = rng.random(size)
    want = np.zeros(size)
    for i in range(size):
        want[i] = x[i] + 0.5 * (want[i - 1] if i > 0 else 1.0) + 0.25 * (want[i - 2] if i > 1 else 1.0)
    agree(Y, {X: x}, want)


def test_reads_outside_give_the_border_on_every_side() -> None:
    X = tl.placeholder((5, 6), "int64", name="X")
    Y = tl.recurrence((5, 6), lambda i, j, self: X[i, j] + self[i - 1, j + 1] + self[i - 2, j - 1], outside=7, name="Y")
    x = rng.integers(0, 9, (5, 6))
    want = np.zeros((5, 6), "int64")
    at = np.full((9, 10), 7, "int64")
    for i in range(5):
        for j in range(6):
            want[i, j] = at[2 + i, 2 + j] = x[i, j] + at[1 + i, 3 + j] + at[i, 1 + j]
    agree(Y, {X: x}, want)


def test_conditions_that_always_hold_are_left_out() -> None:
    X = tl.placeholder((5, 6), name="X")
    Y = tl.recurrence((5, 6), lambda t, j, self: X[t, j] + tl.select(t > 0, self[t - 1, j], 0.0), name="Y")
    assert "select(t > 0, Y[t - 1, j], 0.0)" in str(tl.Schedule(Y))


@pytest.mark.parametrize(
    ("body", "example"),
    [
        (lambda i, j, self: self[i, j], r"self\[i, j\], which is Z\[0, 0\] while Z\[0, 0\]"),
        (lambda i, j, self: self[i, j + 1], r"Z\[0, 1\] while Z\[0, 0\]"),
        (lambda i, j, self: self[i + 1, j - 1], r"Z\[1, 0\] while Z\[0, 1\]"),
        (lambda i, j, self: self[4 - i, j], "earlier in row-major order"),
        (lambda i, j, self: self[i - 1, j] + self[j, i], "earlier in row-major order"),
    ],
)
def test_a_read_that_is_not_earlier_is_refused_with_both_elements(body: Any, example: str) -> None:
    X = tl.placeholder((5, 6), name="X")
    with pytest.raises(tl.DefinitionError, match=example):
        tl.recurrence((5, 6), lambda i, j, self: X[i, j] + body(i, j, self), name="Z")


def test_a_data_dependent_read_has_to_be_provably_earlier() -> None:
    X, P = tl.placeholder((8,), name="X"), tl.placeholder((8,), "int64", name="P")
    with pytest.raises(tl.DefinitionError, match=r"not|earlier"):
        tl.recurrence((8,), lambda i, self: X[i] + self[P[i]], name="Z")
    Y = tl.recurrence((8,), lambda i, self: X[i] + tl.select((P[i] < i) & (P[i] >= 0), self[P[i]], 0.0), name="Y")
    x, p = rng.random(8).astype("f4"), np.array([0, 0, 1, 9, -1, 2, 6, 3])
    want = np.zeros(8, "f4")
    for i in range(8):
        want[i] = x[i] + (want[p[i]] if 0 <= p[i] < i else 0)
    agree(Y, {X: x, P: p}, want)


def test_cholesky_is_numpy_cholesky() -> None:
    n = tl.dim("n")
    A = tl.placeholder((n, n), "float64", name="A")
    k = tl.reduce_axis(n, name="k")

    def body(i: Any, j: Any, self: Any) -> Any:
        rest = A[i, j] - tl.sum(self[i, k] * self[j, k], axis=k, where=k < j)
        return tl.select(j > i, 0.0, tl.select(i == j, tl.sqrt(rest), rest / tl.select(j < i, self[j, j], 1.0)))

    with pytest.raises(tl.DefinitionError, match="earlier"):  # where j > i the sum would read rows below
        tl.recurrence((n, n), lambda i, j, self: A[i, j] - tl.sum(self[i, k] * self[j, k], axis=k, where=k < j), name="Z")
    L = tl.recurrence((n, n), body, name="L")
    for size in (1, 5, 8):
        a = rng.random((size, size))
        a = a @ a.T + np.eye(size)
        agree(L, {A: a}, np.linalg.cholesky(a), rtol=1e-9)


def test_gauss_seidel_reads_this_sweep_and_the_last() -> None:
    A = tl.placeholder((7,), "float64", name="A")

    def body(t: Any, i: Any, self: Any) -> Any:
        return tl.select((t == 0) | (i == 0) | (i == 6), A[i], (self[t, i - 1] + self[t - 1, i] + self[t - 1, i + 1]) / 3.0)

    a = rng.random(7)
    want = [a.copy()]
    for _ in range(4):
        sweep = want[-1].copy()
        for i in range(1, 6):
            sweep[i] = (sweep[i - 1] + sweep[i] + sweep[i + 1]) / 3
        want.append(sweep)
    agree(tl.recurrence((5, 7), body, name="S"), {A: a}, np.stack(want))


@pytest.mark.parametrize(
    ("dtype", "body", "outside", "result"),
    [
        ("float32", lambda x, past: x + 0.5 * past, 0, "float32"),
        ("float64", lambda x, past: past / 3 + x, 0, "float64"),
        ("int8", lambda x, past: x + past, 0, "int8"),
        ("bool", lambda x, past: x | past, False, "bool"),
        ("float16", lambda x, past: tl.maximum(past, x), 0.0, "float16"),
        ("float64", lambda x, past: x + tl.sqrt(past), 1.0, "float64"),
        ("int32", lambda x, past: tl.cast(x, "int64") + past // 2, 0, "int64"),
    ],
)
def test_the_type_is_that_of_the_body_with_the_past_taken_as_weak(dtype: str, body: Any, outside: Any, result: str) -> None:
    X = tl.placeholder((6,), dtype, name="X")
    Y = tl.recurrence((6,), lambda i, self: body(X[i], self[i - 1]), outside=outside, name="Y")
    assert Y.dtype == result


def test_reductions_of_the_past_do_not_fix_the_type() -> None:
    X = tl.placeholder((5,), "float64", name="X")
    k = tl.reduce_axis(5, name="k")
    Y = tl.recurrence((5,), lambda i, self: X[i] - tl.sum(self[k] * self[k], axis=k, where=k < i), name="Y")
    assert Y.dtype == "float64"
    x = rng.random(5)
    want = np.zeros(5)
    for i in range(5):
        want[i] = x[i] - (want[:i] ** 2).sum()
    agree(Y, {X: x}, want)


def test_dtype_overrides_the_type_of_the_body() -> None:
    X = tl.placeholder((6,), "float32", name="X")
    Y = tl.recurrence((6,), lambda i, self: tl.cast(X[i], "float64") + self[i - 1], dtype="float64", name="Y")
    x = rng.random(6).astype("f4")
    agree(Y, {X: x}, x.astype("f8").cumsum())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X: tl.recurrence((4,), lambda i: X[i], name="Y"), "takes 1 parameters"),
        (lambda X: tl.recurrence((4,), lambda i, self: X[i] + self[i, 0], name="Y"), "self has 1 axes"),
        (lambda X: tl.recurrence((4,), lambda i, self: (X[i], X[i]), name="Y"), "one expression"),
        (lambda X: tl.recurrence((4,), lambda i, self: X[i] + self[i - 1], outside=X[0], name="Y"), "outside= of tensor Y"),
        (lambda X: tl.recurrence((4,), lambda i, self: X[i + 1] + self[i - 1], name="Y"), "outside X"),
    ],
)
def test_misuse_is_a_definition_error(make: Any, message: str) -> None:
    with pytest.raises(tl.DefinitionError, match=message):
        make(tl.placeholder((4,), name="X"))


def test_elements_that_read_none_of_each_other_are_evaluated_together() -> None:
    X = tl.placeholder((5, 6), name="X")

    def depth(body: Any) -> int:
        Y: Tensor = tl.recurrence((5, 6), lambda t, j, self: X[t, j] + body(t, j, self), name="Y")
        assert isinstance(Y.definition, Stage)
        return leading(Y.definition)

    assert depth(lambda t, j, self: self[t - 1, j] + self[t - 2, j + 3]) == 1
    assert depth(lambda t, j, self: self[t, j - 1]) == 2
    assert depth(lambda t, j, self: 0.0) == 0


def test_single_elements_of_a_recurrence_can_be_evaluated() -> None:
    X = tl.placeholder((9,), "float64", name="X")
    Y = tl.recurrence((9,), lambda i, self: X[i] + self[i - 1], name="Y")
    Z = tl.compute((9,), lambda i: Y[i] * 2, name="Z")
    x = rng.random(9)
    np.testing.assert_allclose(tl.evaluate(Y, {X: x}, at=[(3,), (8,)]), x.cumsum()[[3, 8]])
    np.testing.assert_allclose(tl.evaluate(Z, {X: x}, at=[(3,)]), 2 * x.cumsum()[[3]])
