"""Kernels are checked on operands whose results tell a fault from rounding, also where a program repeats its own results."""

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.autotune import tune
from tensorlang.autotune.measurement.arrays import Spec, inputs
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification import reference
from tensorlang.autotune.verification.check import why_wrong
from tensorlang.autotune.verification.reference import make_reference
from tensorlang.ir.dtype import dtype

N = 60


def factors(n: int = N) -> tl.Tensor:
    """Both factors of a matrix in one, without pivots (Golub and Van Loan 2013, algorithm 3.2.1)."""
    A, k = tl.placeholder((n, n), "float64", name="A"), tl.reduce_axis(n, name="k")

    def element(i: Any, j: Any, F: Any) -> Any:
        rest = A[i, j] - tl.sum(tl.select(k < tl.minimum(i, j), F[i, k] * F[k, j], 0.0), axis=k)
        return tl.select(i <= j, rest, rest / F[j, j])

    found: tl.Tensor = tl.recurrence((n, n), element, name="F")
    return found


def growing(steps: int = 200) -> tl.Tensor:
    """The logistic map (May 1976), under which neighbouring numbers part, whatever they are."""
    x = tl.placeholder((50,), "float64", name="x")
    state = tl.compute((50,), lambda i: 0.1 + 0.7 * tl.abs(x[i]), name="first")
    step = lambda _, s: tl.compute((50,), lambda i: 3.99 * s[i] * (1 - s[i]), name="next")  # noqa: E731
    found: tl.Tensor = tl.scan(step, state, steps, keep="last", name="logistic")
    return found


def test_a_factorisation_is_checked_on_matrices_in_which_the_diagonal_dominates() -> None:
    task = Task.of(factors())
    found = make_reference(task, 0)
    assert found.sample == "dominant"
    (given,) = inputs(task.inputs, 0, found.sample)
    got = tl.build(task.outputs[0])(given.array)
    np.testing.assert_allclose((np.tril(got, -1) + np.eye(N)) @ np.triu(got), given.array, rtol=1e-12, atol=1e-14)
    expected, at = np.frombuffer(found.values[0].data), found.at[0]
    np.testing.assert_allclose(got.ravel() if at is None else got[tuple(np.array(at).T)], expected, rtol=1e-12, atol=1e-14)


def test_a_factorisation_is_tuned() -> None:
    found = tune(factors(24), trials=3, threads=1)
    assert found.records and not [trial.why for trial in found.records if trial.status == "wrong_result"]
    assert why_wrong(found.kernel, (factors(24),)) is None


def test_what_no_operand_conditions_well_is_checked_on_the_first_kind() -> None:
    assert make_reference(Task.of(growing()), 0).sample == "signed"


def test_a_recurrence_that_forgets_is_checked_on_the_first_kind() -> None:
    x = tl.placeholder((9, 40), name="x")
    smooth = tl.recurrence((9, 40), lambda i, j, S: 0.9 * tl.select(j > 0, S[i, j - 1], 0.0) + x[i, j], name="smooth")
    assert make_reference(Task.of(smooth), 0).sample == "signed"


@pytest.mark.parametrize("shape", [(4, 4), (3, 5, 5), (6,), (4, 7), ()])
def test_in_dominant_operands_the_diagonal_exceeds_the_sum_of_its_row(shape: tuple[int, ...]) -> None:
    (made,) = inputs([Spec(shape, dtype("float64"))], 3, "dominant")
    if len(shape) > 1 and shape[-1] == shape[-2]:
        diagonal = np.abs(np.diagonal(made.array, axis1=-2, axis2=-1))
        assert (2 * diagonal > np.abs(made.array).sum(axis=-1)).all()
    else:
        assert (np.abs(made.array).sum(axis=-1) < 1).all() if shape else abs(made.array) <= 1


def test_what_takes_the_evaluator_too_long_is_computed_by_its_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "EVALUATING", 1e-6)
    x, k = tl.placeholder((300, 500), name="x"), tl.reduce_axis(500, name="k")
    sums = tl.compute((300,), lambda i: tl.sum(x[i, k], axis=k), name="sums")
    task = Task.of((tl.compute((300, 500), lambda i, j: x[i, j] - sums[i], name="centred"), sums))
    found = make_reference(task, 0)
    (given,) = inputs(task.inputs, 0)
    whole = given.array.sum(axis=1)
    for blob, at, want in zip(found.values, found.at, (given.array - whole[:, None], whole), strict=True):
        assert at is not None and len(at) > 256
        np.testing.assert_allclose(np.frombuffer(blob.data, np.float32), want[tuple(np.array(at).T)], rtol=1e-4, atol=1e-4)
