"""Names of other libraries lead to what is written here instead, and what is told works as it stands."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition import elsewhere
from tensorlang.definition.tensor import operands


@pytest.mark.parametrize(("theirs", "ours"), elsewhere.RENAMED.items())
def test_names_of_other_libraries_lead_to_those_of_this_one(theirs: str, ours: str) -> None:
    assert callable(getattr(tl, ours))
    with pytest.raises(AttributeError, match=f"has no attribute '{theirs}'; use tl.{ours}"):
        getattr(tl, theirs)


def test_what_is_an_operator_here_or_one_of_ops_is_told() -> None:
    for name in elsewhere.OPS:
        assert callable(getattr(tl.ops, name))
        with pytest.raises(AttributeError, match=f"'{name}'; use tl.ops.{name}$"):
            getattr(tl, name)
    for name, sign in elsewhere.OPERATORS.items():
        with pytest.raises(AttributeError, match=f"'{name}'; write the operator {re.escape(sign)}$"):
            getattr(tl, name)


def test_no_name_is_told_twice_or_is_one_of_ours() -> None:
    tables = (elsewhere.RENAMED, elsewhere.OPERATORS, elsewhere.OPS, elsewhere.ABSENT)
    names = [name for table in tables for name in table]
    assert len(set(names)) == len(names) and not set(names) & set(tl.__all__)


@pytest.mark.parametrize(
    ("absent", "way"),
    [
        ("sort", r"tl\.scatter\(\.\.\., reduce="),
        ("argsort", r"tl\.scatter\(\.\.\., reduce="),
        ("topk", r"tl\.argmax\(x\[k\], axis=k\)"),
        ("unique", "tl.scatter counts"),
        ("bitcast", r"x\.view\("),
        ("while_loop", r"tl\.scan has a fixed number of steps; .* tl\.select\(ended"),
        ("transpose", r"A\[j, i\]"),
        ("fori_loop", r"tl\.recurrence and tl\.scan"),
    ],
)
def test_what_there_is_none_of_is_told_with_the_way_that_works(absent: str, way: str) -> None:
    with pytest.raises(AttributeError, match=f"^module 'tensorlang' has no attribute '{absent}'; .*{way}"):
        getattr(tl, absent)


@pytest.mark.parametrize(
    ("absent", "want"),
    [
        ("arange", [0, 1, 2]),
        ("concat", [5, 6, 7, 8]),
        ("stack", [[5, 6, 7], [8, 9, 10]]),
        ("full", [2, 2, 2]),
        ("zeros", [0, 0, 0]),
        ("ones", [1, 1, 1]),
        ("eye", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("one_hot", [[0, 1], [1, 0], [0, 1]]),
    ],
)
def test_what_is_told_can_be_written_so(absent: str, want: object) -> None:
    A, B = tl.placeholder((3,), name="A"), tl.placeholder((3,), name="B")
    I = tl.placeholder((3,), "int32", name="I")
    names = {"A": A, "B": B, "I": I, "tl": tl, "n": 3, "m": 1 if absent == "concat" else 2, "shape": (3,), "value": 2}
    told = elsewhere.ABSENT[absent]
    made = eval(told[told.index("tl.compute") :], names)  # noqa: S307 - a text of ours
    given = {A: np.array([5, 6, 7], "float32"), B: np.array([8, 9, 10], "float32"), I: np.array([1, 0, 1], "int32")}
    read = {
        tensor: array for tensor, array in given.items() if tensor.definition in {part.definition for part in operands(made.definition)}
    }
    np.testing.assert_array_equal(tl.evaluate(made, read), want)


def test_bits_that_are_counted_as_is_told_are() -> None:
    v = tl.placeholder((4,), "uint32", name="v")
    told = elsewhere.ABSENT["popcount"]
    steps = dict(part.split(" = ") for part in re.findall(r"[pq] = .*?(?=,| and \()", told))
    result = told[told.index("(((q") : told.index(", which is one")]

    def counted(i: object) -> object:
        names = {"v": v[i]}
        for name, text in steps.items():
            names[name] = eval(text, names)  # noqa: S307 - a text of ours
        return eval(result, names)  # noqa: S307 - a text of ours

    values = np.array([0, 1, 0xFFFFFFFF, 0x80F0], "uint32")
    np.testing.assert_array_equal(tl.build(tl.compute((4,), counted, name="ones"))(values), [0, 1, 32, 5])


def test_the_gamma_function_is_what_is_told() -> None:
    x = tl.placeholder((5,), "float64", name="x")

    def stirling(y: object) -> object:
        return (y - 0.5) * tl.log(y) - y + 0.5 * math.log(2 * math.pi) + 1 / (12 * y) - 1 / (360 * y * y * y)  # type: ignore[operator]

    made = tl.compute((5,), lambda i: stirling(x[i] + 8) - tl.log(math.prod((x[i] + k for k in range(1, 8)), start=x[i])), name="lgamma")
    values = np.array([0.1, 0.5, 1.0, 3.7, 20.0])
    np.testing.assert_allclose(tl.evaluate(made, {x: values}), [math.lgamma(value) for value in values], rtol=1e-6, atol=1e-7)
    assert "x * (x + 1) * ... * (x + 7)" in elsewhere.ABSENT["lgamma"]
