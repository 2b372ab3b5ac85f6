"""How `tl.evaluate` is called: points, dims, what it returns, and the operands it refuses."""

from __future__ import annotations

import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.semantics import evaluation
from tests.draws import examples
from tests.strategies import Program, programs
from tests.work import work

rng = np.random.default_rng(29)


@examples(60)
@given(programs(), st.booleans(), st.data())
def test_points_are_elements_of_the_whole(program: Program, on_demand: bool, data: Any) -> None:
    """Also where the producers are evaluated only at the elements that the points read."""
    output = program.outputs[-1]
    whole = tl.evaluate(output, program.feeds)
    points = data.draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in whole.shape)), max_size=4))
    before = evaluation.LARGE
    evaluation.LARGE = -1 if on_demand else before  # type: ignore[misc]
    try:
        got = tl.evaluate(output, program.feeds, at=points)
    finally:
        evaluation.LARGE = before  # type: ignore[misc]
    assert got.shape == (len(points),)
    np.testing.assert_array_equal(got, np.array([whole[point] for point in points], whole.dtype))


def test_a_point_of_a_large_product_takes_the_elements_that_it_reads_and_no_others() -> None:
    """Beside the operand and one chunk, which are there in any case, an intermediate of 36 MB would be seen."""
    n = 3000
    A, k, l = tl.placeholder((n, n), name="A"), tl.reduce_axis(n, name="k"), tl.reduce_axis(n, name="l")
    B = tl.compute((n, n), lambda i, j: tl.sum(A[i, k] * A[k, j], axis=k), name="B")
    C = tl.compute((n, n), lambda i, j: tl.sum(B[i, l] * A[l, j], axis=l), name="C")
    a = rng.standard_normal((n, n), "f4")
    tracemalloc.start()
    try:
        got = tl.evaluate(C, {A: a}, at=[(3, 5), (2999, 0)])
        assert tracemalloc.get_traced_memory()[1] < a.nbytes / 8
    finally:
        tracemalloc.stop()
    want = [a[i].astype("f8") @ a @ a[:, j] for i, j in ((3, 5), (2999, 0))]
    np.testing.assert_allclose(got, want, rtol=1e-3)


# Calls


def test_one_output_gives_an_array_and_a_tuple_gives_a_tuple() -> None:
    X = tl.placeholder((2,), name="X")
    x = np.ones(2, "f4")
    Y, Z = tl.compute((2,), lambda i: (X[i] + 1.0, X[i] > 0), name="Y")
    assert isinstance(tl.evaluate(Y, {X: x}), np.ndarray)
    one, two = tl.evaluate((Y, Z), {X: x})
    assert [one.dtype.name, two.dtype.name] == ["float32", "bool"]
    assert len(tl.evaluate((Y,), {X: x})) == 1


def test_a_result_is_the_callers_own() -> None:
    X = tl.placeholder((2,), name="X")
    x = np.ones(2, "f4")
    got = tl.evaluate(X, {X: x})
    got[0] = 5
    assert x[0] == 1


def test_dims_follow_from_shapes_or_are_passed_by_name() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    X, Z = tl.placeholder((2 * n + 1,), name="X"), tl.placeholder((n, n + m), name="Z")
    Y = tl.compute((n, m), lambda i, j: X[i] + Z[i, j], name="Y")
    assert tl.evaluate(Y, {X: np.zeros(7, "f4"), Z: np.zeros((3, 5), "f4")}).shape == (3, 2)
    W = tl.compute((m,), lambda i: tl.cast(i, "float32"), name="W")
    np.testing.assert_array_equal(tl.evaluate(W, {}, m=3), [0, 1, 2])


def test_no_warning_leaks() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.array([0, -1, np.inf, np.nan, 1e38], "f4")
        X = tl.placeholder((5,), name="X")
        Y = tl.compute((5,), lambda i: tl.log(X[i]) / X[i] * 1e38 + tl.cast(tl.cast(X[i], "int8") // 0, "float32"), name="Y")
        tl.evaluate(Y, {X: x})


def test_no_operand_is_no_obstacle() -> None:
    np.testing.assert_array_equal(tl.evaluate(tl.compute((2, 2), lambda i, j: i * 2 + j, name="Y"), {}), [[0, 1], [2, 3]])
    assert tl.evaluate(tl.compute((0, 3), lambda i, j: i + j, name="Y"), {}).shape == (0, 3)


A, N = tl.placeholder((2, 3), name="A"), tl.dim("n")
V, W = tl.placeholder((N,), name="V"), tl.placeholder((N, 2 * N), "int32", name="W")
SUM = tl.compute((N,), lambda i: V[i] + tl.cast(W[i, 0], "float32"), name="S")
zeros = np.zeros((2, 3), "f4")
BAD = {
    "A: float32[2, 3] is missing; feed an array for it": (A, {}),
    "A: float32[2, 3]: expected dtype float32, got float64": (A, {A: np.zeros((2, 3))}),
    "A: float32[2, 3]: expected dtype float32, got float32 in foreign byte order": (A, {A: zeros.astype(">f4")}),
    "A: float32[2, 3]: expected 2 axes, got shape (6,)": (A, {A: np.zeros(6, "f4")}),
    "A: float32[2, 3]: got shape (3, 2)": (A, {A: np.zeros((3, 2), "f4")}),
    "A: float32[2, 3]: expected an array, got a list ([[0.0]])": (A, {A: [[0.0]]}),
    "A: float32[2, 3]: expected an array, got a NoneType (None)": (A, {A: None}),
    "W: int32[n, 2 * n]: got shape (3, 7), where n = 3 by the other arguments": (SUM, {V: np.zeros(3, "f4"), W: np.zeros((3, 7), "i4")}),
    "S: float32[n] is computed, so it cannot be fed; feed its placeholders": (SUM, {SUM: np.zeros(3, "f4")}),
    "feeds map placeholders to arrays; 'A' is not a tensor": (A, {"A": zeros}),
    "feeds map placeholders to arrays, as in {A: a, B: b}; got a list": (A, [zeros]),
    "the extent n is fixed by no operand; pass it by name, as in n=5": (tl.compute((N,), lambda i: i, name="Y"), {}),
    "Y: int64[n - 2]: the extent n - 2 is -1; extents are at least 0": (
        tl.compute((N - 2,), lambda i: tl.cast(V[i], "int64"), name="Y"),
        {V: np.ones(1, "f4")},
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_operands_that_do_not_fit_are_call_errors(message: str) -> None:
    output, feeds = BAD[message]
    with pytest.raises(tl.CallError) as refusal:
        tl.evaluate(output, feeds)  # type: ignore[call-overload]
    assert str(refusal.value) == message


def test_a_point_outside_is_a_call_error() -> None:
    for point in ((2, 0), (0,), (0, -1), "x"):
        with pytest.raises(tl.CallError, match=r"at= of A: float32\[2, 3\]: .* is not an index of shape \(2, 3\)"):
            tl.evaluate(A, {A: zeros}, at=[point])


@pytest.mark.parametrize("at", [3, tl.dim("n"), {(0, 0): 1}, iter([(0, 0)]), np.zeros((1, 2), int), object])
def test_points_that_are_no_list_are_a_call_error(at: Any) -> None:
    with pytest.raises(tl.CallError, match=r"at= of A: float32\[2, 3\] is a list of points, as in at=\[\(3, 5\)\], and not"):
        tl.evaluate(A, {A: zeros}, at=at)


def test_the_steps_of_a_product_are_taken_many_at_a_time() -> None:
    n = 256
    X, Y, k = tl.placeholder((n, n), name="X"), tl.placeholder((n, n), name="Y"), tl.reduce_axis(n, name="k")
    Z = tl.compute((n, n), lambda i, j: tl.sum(X[i, k] * Y[k, j], axis=k), name="Z")
    x, y = rng.random((2, n, n), "f4")
    np.testing.assert_allclose(tl.evaluate(Z, {X: x, Y: y}), x @ y, rtol=1e-4)
    assert work(lambda: tl.evaluate(Z, {X: x, Y: y})) < n**3 / 256


def test_what_does_not_fit_memory_is_a_call_error() -> None:
    large = tl.compute((1 << 40,), lambda i: 1.0, name="large")
    with pytest.raises(tl.CallError, match=r"large: float32\[1099511627776\] does not fit memory"):
        tl.evaluate(large, {})
    assert tl.evaluate(large, {}, at=[(1 << 39,)]) == 1
