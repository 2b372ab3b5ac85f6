"""A recurrence reads earlier elements of itself, which is proved when it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.sequential import leading
from tensorlang.definition.tensor import Stage, Tensor
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
        ("bool", lambda _, past: ~past, False, "bool"),
        ("int32", lambda _, past: past + 1, False, "int64"),
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


def gotoh(a: Any, b: Any, gap: float, more: float) -> tuple[np.ndarray[Any, Any], ...]:
    """Scores of local alignments with affine gaps, in Python: the best, and those that end in a gap of either side."""
    H, E, F = (np.full((len(a) + 1, len(b) + 1), start) for start in (0.0, -np.inf, -np.inf))
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            E[i, j] = max(H[i, j - 1] - gap, E[i, j - 1] - more)
            F[i, j] = max(H[i - 1, j] - gap, F[i - 1, j] - more)
            H[i, j] = max(0.0, H[i - 1, j - 1] + (2.0 if a[i - 1] == b[j - 1] else -1.0), E[i, j], F[i, j])
    return H[1:, 1:], E[1:, 1:], F[1:, 1:]


@pytest.mark.parametrize("symbolic", [False, True])
def test_an_alignment_with_affine_gaps_is_three_recurrences_in_one(symbolic: bool) -> None:
    m, n = (tl.dim("m"), tl.dim("n")) if symbolic else (9, 13)
    A, B = tl.placeholder((m,), "int8", name="A"), tl.placeholder((n,), "int8", name="B")

    def body(i: Any, j: Any, H: Any, E: Any, F: Any) -> Any:
        across = tl.maximum(H[i, j - 1] - 3.0, E[i, j - 1] - 0.5)
        down = tl.maximum(H[i - 1, j] - 3.0, F[i - 1, j] - 0.5)
        step = H[i - 1, j - 1] + tl.select(A[i] == B[j], 2.0, -1.0)
        return tl.maximum(tl.maximum(0.0, step), tl.maximum(across, down)), across, down

    outputs = tl.recurrence((m, n), body, outside=(0.0, -np.inf, -np.inf), dtype="float64", name="G")
    assert [tensor.name for tensor in outputs] == ["G_0", "G_1", "G_2"]
    a, b = rng.integers(0, 4, 9).astype("i1"), rng.integers(0, 4, 13).astype("i1")
    agree(outputs, {A: a, B: b}, gotoh(a, b, 3.0, 0.5))


def test_the_most_likely_path_keeps_scores_and_where_they_came_from() -> None:
    T, S = 7, 4
    emit, move = tl.placeholder((T, S), "float64", name="emit"), tl.placeholder((S, S), "float64", name="move")
    k = tl.reduce_axis(S, name="k")

    def body(t: Any, s: Any, score: Any, origin: Any) -> Any:
        best = tl.max(score[t - 1, k] + move[k, s], axis=k)
        source = tl.argmax(score[t - 1, k] + move[k, s], axis=k)
        return emit[t, s] + tl.select(t > 0, best, 0.0), tl.select(t > 0, tl.cast(source, "int32"), origin[t - 1, s])

    score, origin = tl.recurrence((T, S), body, outside=(0.0, -1), name="V")
    assert (score.dtype, origin.dtype) == ("float64", "int32")
    e, m = rng.random((T, S)), rng.random((S, S))
    want, came = np.zeros((T, S)), np.full((T, S), -1, "i4")
    want[0] = e[0]
    for t in range(1, T):
        steps = want[t - 1][:, None] + m
        want[t], came[t] = e[t] + steps.max(0), steps.argmax(0)
    agree((score, origin), {emit: e, move: m}, (want, came))
    s = tl.Schedule(score, origin)
    assert s.can("parallel", "s")
    assert not s.can("parallel", "t")


def test_several_tensors_see_only_earlier_elements_of_each_other() -> None:
    with pytest.raises(tl.DefinitionError, match=r"Z reads Q\[i\], which is Z\[0\] while Z\[0\] is computed"):
        tl.recurrence((5,), lambda i, P, Q: (Q[i] + 1.0, P[i - 1]), dtype="float32", name="Z")
    P, Q = tl.recurrence((6,), lambda i, P, Q: (Q[i - 1] + 1.0, P[i - 1] * 2.0), outside=(0.0, 1.0), name="Z")
    want = np.zeros((2, 6), "f4")
    p, q = 0.0, 1.0
    for i in range(6):
        p, q = q + 1.0, p * 2.0
        want[:, i] = p, q
    agree((P, Q), {}, tuple(want))
    agree(Q, {}, want[1])
    np.testing.assert_array_equal(tl.evaluate((P, Q), {}, at=[(2,), (5,)]), want[:, [2, 5]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tl.recurrence((4,), lambda i, P, Q: P[i - 1] + 1.0, name="Y"), "a tuple of 2 expressions"),
        (lambda: tl.recurrence((4,), lambda i, P: (P[i - 1], 1.0), name="Y"), "take a parameter for each of several tensors"),
        (lambda: tl.recurrence((4,), lambda i, P, Q: (P[i - 1], 1.0), outside=(0, 1, 2), name="Y"), "gives 3 values for 2 tensors"),
        (lambda: tl.recurrence((4,), lambda i, P, Q: (P[i - 1], 1.0), dtype=("float32",), name="Y"), "gives 1 values for 2 tensors"),
    ],
)
def test_a_body_says_how_many_tensors_it_defines(make: Any, message: str) -> None:
    with pytest.raises(tl.DefinitionError, match=message):
        make()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32", "float64"])
def test_a_tensor_that_reads_only_the_others_is_of_the_type_that_they_give_it(dtype: str) -> None:
    x = tl.placeholder((6,), dtype, name="X")
    found = tl.recurrence((6,), lambda t, a, b, c: (x[t] + b[t - 1], a[t - 1] + b[t - 1], b[t - 1] * 2 + 1))
    assert [part.dtype for part in found] == [tl.dtype(dtype)] * 3
    given = np.arange(6).astype(dtype)
    a, b, c = [0], [0], [0]
    for value in given.tolist():
        a, b, c = [*a, value + b[-1]], [*b, a[-1] + b[-1]], [*c, b[-1] * 2 + 1]
    for got, wanted in zip(tl.build(found)(given), (a, b, c), strict=True):
        np.testing.assert_array_equal(got, np.array(wanted[1:], dtype))


def test_tensors_of_no_type_of_their_own_are_of_that_of_numbers() -> None:
    found = tl.recurrence((4,), lambda t, a, b: (b[t - 1] + 1, a[t - 1] + b[t - 1]))
    assert [part.dtype for part in found] == [tl.dtype("int64")] * 2
