"""`inputs=` is the order of the arguments: every placeholder that is read, once, and any that is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl

A, B = (tl.placeholder((4,), name=name) for name in "AB")
C = tl.compute((4,), lambda i: A[i] + 1, name="C")
a, b = np.arange(4, dtype="f4"), np.ones(4, "f4")
BOUND = tl.buffer(a, name="bound")


def kernels(outputs: Any, inputs: Any) -> list[tl.Kernel]:
    """The ways in which the order of arguments is given."""
    return [tl.build(outputs, inputs=inputs), tl.build(tl.Schedule(outputs, inputs=inputs)), tl.build(tl.Schedule(outputs), inputs=inputs)]


@pytest.mark.parametrize("order", [(A, B), (B, A), [B, A]])
def test_an_argument_that_is_not_read_is_checked_and_left_alone(order: Any) -> None:
    for kernel in kernels(C, order):
        given = [a if tensor is A else b for tensor in order]
        np.testing.assert_array_equal(kernel(*given), a + 1)
        wrong = [a if tensor is A else b.astype("f8") for tensor in order]
        with pytest.raises(tl.CallError, match=r"argument 'B' .*expected dtype float32"):
            kernel(*wrong)
        with pytest.raises(tl.CallError, match="expected 2 inputs, got 1"):
            kernel(a)


def test_an_argument_that_is_not_read_fixes_a_dim() -> None:
    n = tl.dim("n")
    like = tl.placeholder((n,), name="like")
    f = tl.build(tl.compute((n,), lambda i: i * i, name="squares"), inputs=[like])
    np.testing.assert_array_equal(f(np.zeros(5, "f4")), np.arange(5) ** 2)


def test_an_unread_argument_changes_no_name() -> None:
    unnamed, other = tl.placeholder((4,)), tl.placeholder((4,), name="C")
    body = str(tl.Schedule(C)).splitlines()[1:]
    for extra in (unnamed, other):
        assert str(tl.Schedule(C, inputs=(extra, A))).splitlines()[1:] == body


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (3, "takes a tuple of placeholders.*not 3"),
        (A, "takes a tuple of placeholders"),
        (["A"], "'A' is no tensor"),
        ([A, A], "A: float32.4. stands there twice"),
        ([A, C], "C: float32.4. is computed"),
        ([A, BOUND], "is bound by tl.buffer"),
        ([], "leaves out 'A', which the outputs read"),
        ([B], "leaves out 'A', which the outputs read"),
    ],
)
def test_what_is_no_order_of_arguments_is_refused(inputs: Any, message: str) -> None:
    for make in (
        lambda: tl.build(C, inputs=inputs),
        lambda: tl.Schedule(C, inputs=inputs),
        lambda: tl.build(tl.Schedule(C), inputs=inputs),
    ):
        with pytest.raises(tl.DefinitionError, match=message):
            make()
