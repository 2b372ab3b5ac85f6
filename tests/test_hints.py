"""Where NumPy or Python is asked to compute with what has no value yet, the error names what to write instead."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

A, B, Z = tl.placeholder((8,), name="A"), tl.placeholder((8,), name="B"), tl.placeholder((), name="Z")
TABLE = np.arange(8.0, dtype="float32")


def defined(fn: Callable[[Any], Any]) -> Any:
    return tl.compute((8,), fn)


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda i: np.exp(A[i]), "write tl.exp"),
        (lambda i: np.maximum(A[i], 0), "write tl.maximum"),
        (lambda i: np.absolute(A[i]), "write tl.abs"),
        (lambda i: np.rint(A[i]), "write tl.round"),
        (lambda i: np.logical_and(A[i] > 0, A[i] < 1), "write the operator &"),
        (lambda i: np.gcd(i, 3), "functions of tensorlang"),
        (lambda i: np.add.reduce(A[i]), "functions of tensorlang"),
        (lambda i: math.exp(A[i]), "tl.exp"),
        (lambda i: round(A[i]), "tl.round"),
        (lambda i: TABLE[i], "tl.buffer"),
        (lambda i: TABLE[i + 1], "tl.buffer"),
        (lambda i: [1.0, 2.0][i], "tl.buffer"),
        (lambda i: TABLE * A[i], "tl.buffer"),
        (lambda i: A[i] + TABLE, "A\\[i\\]|tl.buffer"),
        (lambda i: divmod(i, 3)[0], r"take divmod of i .* write a // b and a % b"),
        (lambda i: divmod(7, i)[0], r"take divmod of i .* write a // b and a % b"),
        (
            lambda i: operator.getitem(A[i], 0),
            r"^A\[i\] is one value and has no elements; indices stand together in one pair of brackets, as in A\[i, j\]$",
        ),
        (lambda i: i * len(A), r"^A: float32\[8\] has no length of its own; write A\.shape\[0\] for the extent of its first axis$"),
        (lambda i: i * len(Z), r"^Z: float32\[\] has no axes$"),
        (lambda i: i * len(A[i]), r"^A\[i\] is one value and has no length$"),
        (lambda i: tl.sum(A[i]), "axis=k"),
        (lambda i: tl.max(A[i], 0.0), "tl.maximum"),
        (lambda i: tl.min(A[i], B[i]), "tl.minimum"),
    ],
)
def test_an_index_expression_names_the_way(write: Callable[[Any], Any], hint: str) -> None:
    with pytest.raises(tl.DefinitionError, match=hint):
        defined(write)


@pytest.mark.parametrize(
    "write",
    [
        lambda: A + B,
        lambda: 2 * A,
        lambda: -A,
        lambda: A @ B,
        lambda: abs(A),
        lambda: A**2,
        lambda: divmod(A, 2),
        lambda: A < B,
        lambda: np.exp(A),
        lambda: np.sum(A),
        lambda: TABLE + A,
        lambda: np.asarray(A),
    ],
)
def test_a_whole_tensor_has_no_arithmetic(write: Callable[[], Any]) -> None:
    with pytest.raises(tl.DefinitionError, match=r"A: float32\[8\].*(tl.compute|tl.evaluate)"):
        write()


def test_a_tensor_is_there_whatever_python_may_ask_of_its_length() -> None:
    assert A
    assert Z


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sum", r"tl\.reduce_axis\(n\), then tl\.sum\({}, axis=k\)"),
        ("mean", r"then tl\.mean\({}, axis=k\)"),
        ("max", r"then tl\.max\("),
        ("min", r"then tl\.min\("),
        ("prod", r"then tl\.prod\("),
        ("any", r"then tl\.any\("),
        ("argmax", r"then tl\.argmax\("),
        ("argmin", r"then tl\.argmin\("),
        ("astype", r"write tl\.cast\({}, \.\.\.\)"),
        ("clip", r"write tl\.clamp\({}, lo, hi\)"),
        ("cumsum", r"write tl\.recurrence"),
        ("T", r"where elements are read, as in A\[j, i\]"),
        ("reshape", r"A\[i // n, i % n\]"),
        ("sort", r"there is no sort; count what comes before each element"),
    ],
)
def test_methods_of_arrays_are_told_what_to_write(name: str, hint: str) -> None:
    element, told = A[3], hint.replace("{}", r"A\[3\]")
    with pytest.raises(AttributeError, match=rf"^A\[3\] has no '{name}'; .*{told}"):
        getattr(element, name)
    told = hint.replace("{}", r"M\[i, k\]")
    with pytest.raises(AttributeError, match=rf"^M: float32\[8, 8\] has no '{name}'; .*{told}"):
        getattr(tl.placeholder((8, 8), name="M"), name)


@pytest.mark.parametrize("value", [A, A[3], tl.reduce_axis(8, name="k")])
def test_names_that_no_array_has_are_refused_as_python_refuses_them(value: Any) -> None:
    with pytest.raises(AttributeError, match=f"^'{type(value).__name__}' object has no attribute 'nothing'$"):
        value.nothing  # noqa: B018
    assert not hasattr(value, "sum")
    assert copy.copy(value).dtype == value.dtype


def test_the_way_to_sort_that_is_told_sorts() -> None:
    k, r = tl.reduce_axis(8, name="k"), tl.reduce_axis(8, name="r")
    before = lambda i: tl.sum(tl.cast((A[k] < A[i]) | ((A[k] == A[i]) & (k < i)), "int32"), axis=k)  # noqa: E731
    rank = tl.compute((8,), before, name="rank")
    result = tl.scatter(A, r, lambda r: tl.clamp(rank[r], 0, 7), lambda r: A[r], reduce="set", name="result")
    values = np.array([3, -1, 2, 3, 0, 7, -1, 5], "float32")
    np.testing.assert_array_equal(tl.build(result)(values), np.sort(values))


@pytest.mark.parametrize("scalar", [np.float32(2), np.float64(2), np.int32(2), np.asarray(2.0)])
def test_scalars_of_numpy_give_way_on_either_side(scalar: Any) -> None:
    result = tl.compute((8,), lambda i: scalar * A[i] + A[i] / scalar - scalar, name="R")
    np.testing.assert_allclose(tl.evaluate(result, {A: TABLE}), 2.5 * TABLE - 2)
    compared = tl.compute((8,), lambda i: tl.select(scalar < A[i], 1.0, 0.0), name="R")
    np.testing.assert_array_equal(tl.evaluate(compared, {A: TABLE}), (TABLE > 2).astype("float32"))


@pytest.mark.parametrize("value", [2.0, 2, True])
def test_a_python_number_for_an_argument_is_told_how_to_be_one(value: Any) -> None:
    kernel = tl.build(tl.compute((8,), lambda i: A[i] * Z[()], name="R"))
    with pytest.raises(tl.CallError, match=r"'Z'.*np.float32\("):
        kernel(TABLE, value)
    np.testing.assert_array_equal(kernel(TABLE, np.float32(value)), TABLE * np.float32(value))


def test_a_refusal_between_the_loops_of_two_stages_says_that_one_can_have_its_own() -> None:
    k = tl.reduce_axis(8, name="k")
    centred = tl.compute((4, 8), lambda i, j: B[j] - tl.sum(A[k], axis=k) * 0.125, name="M")
    s = tl.Schedule(centred)
    with pytest.raises(tl.ScheduleError, match="compute_root first") as refused:
        s.reorder("M.1.k", "M.j")
    (step,) = [step for step in refused.value.alternatives if type(step).__name__ == "ComputeRoot"]
    s.apply(step)
    assert "M.1" in s.stages()


def test_the_header_of_a_loop_and_its_uses_are_one_name() -> None:
    photo = tl.placeholder((8, 8), name="photo")
    gray = tl.compute((8, 8), lambda y, x: photo[y, x] * 2, name="gray")
    out = tl.compute((6, 8), lambda y, x: gray[y, x] + gray[y + 2, x], name="out")
    s = tl.Schedule(out)
    s.compute_at("gray", "out.y")
    text = str(s)
    assert "for out.y in range(6)" in text and "for gray.y in range(out.y, " in text
    assert " y in range" not in text
