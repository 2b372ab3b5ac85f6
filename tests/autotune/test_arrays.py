"""Inputs are the same everywhere, damage around outputs is seen, and the tolerance separates rounding from mistakes."""

import ctypes

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune.measurement.arrays import Guarded, Spec, inputs, mismatch
from tensorlang.autotune.task import Task, bound_arrays, longest_reduction
from tensorlang.autotune.verification.points import sample_points
from tensorlang.autotune.verification.reference import make_reference
from tensorlang.errors import TuningError
from tensorlang.ir.dtype import DTYPES, dtype
from tensorlang.ir.machine import LINE_BYTES


@pytest.mark.parametrize("kind", DTYPES)
def test_inputs_are_deterministic_aligned_and_finite(kind: str) -> None:
    first, again = (inputs([Spec((5, 7), dtype(kind))], 3)[0].array for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype(kind).numpy
    assert first.ctypes.data % LINE_BYTES == 0
    assert np.isfinite(first.astype(np.float64)).all()


@pytest.mark.parametrize("shape", [(), (1,), (4, 5)])
def test_a_write_past_either_end_is_seen(shape: tuple[int, ...]) -> None:
    for offset in (-1, None):
        guarded = Guarded(Spec(shape, dtype("float32")))
        guarded.poison()
        guarded.array[...] = 1
        assert guarded.intact()
        ctypes.memset(guarded.array.ctypes.data + (guarded.array.nbytes if offset is None else offset), 0, 1)
        assert not guarded.intact()


def test_an_unwritten_element_of_any_type_is_a_mismatch() -> None:
    for kind in ("float32", "int32", "uint8"):
        guarded = Guarded(Spec((4,), dtype(kind)))
        guarded.poison()
        guarded.array[:3] = 0
        assert mismatch(guarded.array, np.zeros(4, dtype(kind).numpy), dtype(kind), 1) is not None


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_a_reassociated_sum_passes_and_a_missing_term_does_not(kind: str) -> None:
    rng = np.random.default_rng(0)
    terms = rng.uniform(0.1, 1, (200, 1000)).astype(np.float32 if kind != "float64" else np.float64)
    there, back = (np.cumsum(terms[:, order], axis=1)[:, -1].astype(dtype(kind).numpy) for order in (range(1000), range(999, -1, -1)))
    assert mismatch(there, back, dtype(kind), 1000) is None
    if kind in ("float32", "float64"):
        assert mismatch(there - terms[:, 0].astype(there.dtype), back, dtype(kind), 1000) is not None


def test_nan_and_infinity_must_be_where_they_belong() -> None:
    kind, want = dtype("float32"), np.array([np.nan, np.inf, 1.0], np.float32)
    assert mismatch(want.copy(), want, kind, 1) is None
    for wrong in ([1, np.inf, 1], [np.nan, -np.inf, 1], [np.nan, np.inf, np.nan]):
        assert mismatch(np.array(wrong, np.float32), want, kind, 1) is not None


def test_sampled_points_are_distinct_inside_and_include_the_corners() -> None:
    points = sample_points((17, 1, 33), 100)
    assert 80 <= len(points) == len(set(points)) <= 100
    assert all(0 <= i < 17 and j == 0 and 0 <= k < 33 for i, j, k in points)
    assert {(0, 0, 0), (16, 0, 32), (0, 0, 32), (16, 0, 0)} <= set(points)


def test_the_reference_is_whole_for_small_results_and_sampled_for_dear_ones() -> None:
    A, B = tl.placeholder((600, 4000), name="A"), tl.placeholder((4000, 600), name="B")
    for outputs, whole in ((tl.ops.relu(tl.placeholder((10, 10))), True), (tl.ops.matmul(A, B), False)):
        task = Task.of(outputs)
        reference = make_reference(task, 0)
        assert (reference.at[0] is None) == whole
        values = np.frombuffer(reference.values[0].data, np.float32)
        given = [guarded.array for guarded in inputs(task.inputs, 0, reference.sample)]
        want = np.maximum(given[0], 0).ravel() if whole else (given[0] @ given[1])[tuple(np.array(reference.at[0]).T)]
        np.testing.assert_allclose(values, want, rtol=1e-4, atol=1e-4)


def test_inputs_turn_positive_where_negative_ones_have_no_result() -> None:
    X = tl.placeholder((50,), name="X")
    reference = make_reference(Task.of(tl.compute((50,), lambda i: tl.log(X[i]), name="Y")), 0)
    assert reference.sample == "positive"
    assert np.isfinite(np.frombuffer(reference.values[0].data, np.float32)).all()


def test_the_reference_is_computed_with_the_arrays_that_buffers_are_bound_to() -> None:
    weights = np.array([3, 5, 7], np.float32)
    X, W = tl.placeholder((3,), name="X"), tl.buffer(weights, name="W")
    task = Task.of(tl.compute((3,), lambda i: X[i] * W[i], name="Y"))
    assert list(bound_arrays(task.outputs)) == [1]
    values = np.frombuffer(make_reference(task, 0).values[0].data, np.float32)
    np.testing.assert_allclose(values, inputs(task.inputs, 0)[0].array * weights, rtol=1e-6)


def test_reductions_add_up_along_a_program() -> None:
    assert longest_reduction((tl.ops.softmax(tl.placeholder((4, 100))),)) == 201


def test_a_run_time_extent_is_tuned_at_a_value() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    X = tl.placeholder((n, m), name="X")
    k = tl.reduce_axis(m, name="k")
    Y = tl.compute((n - 1,), lambda i: tl.sum(X[i, k], axis=k), name="Y")
    task = Task.of(Y, dims={"n": 6, "m": 40})
    assert task.inputs[0].shape == (6, 40) and task.results[0].shape == (5,) and task.reduction == 41
    assert task.to_json()["dims"] == {"m": 40, "n": 6} and "dims" not in Task.of(tl.ops.relu(tl.placeholder((3,)))).to_json()
    values = np.frombuffer(make_reference(task, 0).values[0].data, np.float32)
    np.testing.assert_allclose(values, inputs(task.inputs, 0)[0].array[:5].sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({}, r"n is known only at run time.*dims=\{'n': 1024\}"),
        ({"n": 4, "k": 1}, "no extent 'k'"),
        ({"n": 0}, "whole number from 1"),
        ({"n": True}, "whole number from 1"),
        ({"n": 1}, "the extent n - 2 has no value|has no value"),
    ],
)
def test_a_run_time_extent_without_a_value_is_refused(dims: dict[str, int], message: str) -> None:
    n = tl.dim("n")
    X = tl.placeholder((n,), name="X")
    with pytest.raises(TuningError, match=message):
        Task.of(tl.compute((n - 2,), lambda i: X[i], name="Y"), dims=dims)
