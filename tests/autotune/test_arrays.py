"""Inputs are the same everywhere, damage around outputs is seen, and the tolerance separates rounding from mistakes."""

import ctypes

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune.arrays import ALIGNMENT, Guarded, Spec, inputs, mismatch
from tensorlang.autotune.reference import sample_points, write_reference
from tensorlang.autotune.task import Task, longest_reduction
from tensorlang.dtype import DTYPES, dtype
from tensorlang.errors import TuningError


@pytest.mark.parametrize("kind", DTYPES)
def test_inputs_are_deterministic_aligned_and_finite(kind: str) -> None:
    first, again = (inputs([Spec((5, 7), dtype(kind))], 3)[0].array for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype(kind).numpy
    assert first.ctypes.data % ALIGNMENT == 0
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


def test_the_reference_is_whole_for_small_results_and_sampled_for_dear_ones(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    A, B = tl.placeholder((300, 2000), name="A"), tl.placeholder((2000, 300), name="B")
    for outputs, whole in ((tl.ops.relu(tl.placeholder((10, 10))), True), (tl.ops.matmul(A, B), False)):
        task = Task.of(outputs)
        reference = write_reference(task, folder, 0)
        assert (reference.at[0] is None) == whole
        values = np.load(reference.paths[0])
        given = [guarded.array for guarded in inputs(task.inputs, 0, signed=reference.signed)]
        want = np.maximum(given[0], 0) if whole else (given[0] @ given[1])[tuple(np.array(reference.at[0]).T)]
        np.testing.assert_allclose(values, want, rtol=1e-4, atol=1e-4)


def test_inputs_turn_positive_where_negative_ones_have_no_result(tmp_path: object) -> None:
    from pathlib import Path

    X = tl.placeholder((50,), name="X")
    task = Task.of(tl.compute((50,), lambda i: tl.log(X[i]), name="Y"))
    reference = write_reference(task, Path(str(tmp_path)), 0)
    assert not reference.signed
    assert np.isfinite(np.load(reference.paths[0])).all()


def test_reductions_add_up_along_a_program() -> None:
    assert longest_reduction((tl.ops.softmax(tl.placeholder((4, 100))),)) == 201


def test_a_run_time_extent_cannot_be_tuned() -> None:
    n = tl.dim("n")
    with pytest.raises(TuningError, match="run-time extent n"):
        Task.of(tl.ops.relu(tl.placeholder((n, 3))))
