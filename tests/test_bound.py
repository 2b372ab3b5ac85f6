"""`tl.buffer` binds an operand to an array, which kernels read and are not passed."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.serialization.canonical import fingerprint

rng = np.random.default_rng(12)


def dense(w: np.ndarray) -> tuple[tl.Tensor, tl.Tensor]:  # type: ignore[type-arg]
    W = tl.buffer(w, name="W")
    X = tl.placeholder((5, w.shape[0]), name="X")
    k = tl.reduce_axis(w.shape[0], name="k")
    return X, tl.compute((5, w.shape[1]), lambda i, j: tl.sum(X[i, k] * W[k, j], axis=k), name="Y")


def test_a_bound_operand_is_not_passed_and_not_copied() -> None:
    w, x = rng.random((7, 4)).astype("f4"), rng.random((5, 7)).astype("f4")
    X, Y = dense(w)
    kernel = tl.build(Y)
    for _ in range(2):
        np.testing.assert_allclose(kernel(x), x @ w, rtol=1e-5)
        np.testing.assert_allclose(tl.evaluate(Y, {X: x}), x @ w, rtol=1e-5)
        w += 1  # the same memory
    np.testing.assert_allclose(kernel.bind(x)(), x @ w, rtol=1e-5)
    with pytest.raises(tl.CallError, match="expected 1 inputs"):
        kernel(x, w)


def test_a_saved_kernel_has_its_operands(tmp_path: Path) -> None:
    w, x = rng.random((7, 4)).astype("f4"), rng.random((5, 7)).astype("f4")
    _, Y = dense(w)
    tl.build(Y).save(tmp_path / "dense")
    np.testing.assert_allclose(tl.load(tmp_path / "dense")(x), x @ w, rtol=1e-5)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(tl.build(Y)))(x), x @ w, rtol=1e-5)  # noqa: S301


def test_values_are_no_part_of_the_definition() -> None:
    a, b = rng.random((7, 4)).astype("f4"), rng.random((7, 4)).astype("f4")
    assert fingerprint(dense(a)[1]) == fingerprint(dense(b)[1])


def test_order_of_arguments_concerns_what_is_passed() -> None:
    w = rng.random((3,)).astype("f4")
    W, A, B = tl.buffer(w, name="W"), tl.placeholder((3,), name="A"), tl.placeholder((3,), name="B")
    Y = tl.compute((3,), lambda i: W[i] * A[i] - B[i], name="Y")
    a, b = rng.random(3).astype("f4"), rng.random(3).astype("f4")
    np.testing.assert_allclose(tl.build(Y, inputs=(B, A))(b, a), w * a - b, rtol=1e-5)
    with pytest.raises(tl.DefinitionError, match="is bound by tl.buffer; leave it out"):
        tl.build(Y, inputs=(B, A, W))
    with pytest.raises(tl.CallError, match="bound to an array"):
        tl.evaluate(Y, {A: a, B: b, W: w})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "takes an array"),
        ([1, 2], "takes an array"),
        (np.zeros((4, 4))[:, ::2], "contiguous"),
        (np.zeros(4, ">f4"), "native"),
        (np.zeros(4, "complex64"), "complex64"),
        (np.array(["a"]), "not a tensorlang type"),
    ],
)
def test_what_is_no_operand_is_refused(value: object, message: str) -> None:
    with pytest.raises(tl.DefinitionError, match=message):
        tl.buffer(value)
