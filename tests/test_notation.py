"""`tl.tc` reads the notation of Tensor Comprehensions and infers ranges from the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.agreement import agree

rng = np.random.default_rng(10)


def test_a_matmul_has_no_ranges() -> None:
    mm = tl.tc("def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
    assert mm.__name__ == "mm"
    A, B = tl.placeholder((tl.dim("m"), 7), name="A"), tl.placeholder((7, 5), name="B")
    a, b = rng.random((6, 7)).astype("f4"), rng.random((7, 5)).astype("f4")
    agree(mm(A, B), {A: a, B: b}, a @ b)


def test_the_range_of_a_window_is_where_the_sum_stays_inside() -> None:
    conv = tl.tc("def conv(double(H,W) I, double(R,S) K) -> (O) { O(y,x) +=! I(y + r, 2 * x + s) * K(r,s) }")
    I, K = tl.placeholder((9, 12), "float64", name="I"), tl.placeholder((3, 2), "float64", name="K")
    i, k = rng.random((9, 12)), rng.random((3, 2))
    want = np.array([[(i[y : y + 3, 2 * x : 2 * x + 2] * k).sum() for x in range(6)] for y in range(7)])
    agree(conv(I, K), {I: i, K: k}, want)


def test_statements_scalars_functions_and_conditions() -> None:
    softplus = tl.tc("""
        def layer(double(N) X, double scale) -> (Y, top) {
            # every statement may use those before
            T(i) = scale * X(i) + log(1.0 + exp(-fabs(X(i))))
            Y(i) = X(i) > 0 && !(T(i) >= 2.0) ? max(T(i), 0.5) : -T(i);
            top max=! Y(i)
        }""")
    X, scale = tl.placeholder((11,), "float64", name="X"), tl.placeholder((), "float64", name="scale")
    x, c = rng.standard_normal(11), np.array(1.5)
    t = c * x + np.log(1 + np.exp(-np.abs(x)))
    y = np.where((x > 0) & ~(t >= 2), np.maximum(t, 0.5), -t)
    agree(softplus(X, scale), {X: x, scale: c}, (y, y.max()))


@pytest.mark.parametrize(("op", "fold"), [("+=!", np.sum), ("*=!", np.prod), ("max=!", np.max), ("min=!", np.min)])
@pytest.mark.parametrize("kind", ["double", "half", "int8", "uint16", "int"])
def test_every_operator_reduces_every_type(op: str, fold: Any, kind: str) -> None:
    f = tl.tc(f"def f({kind}(M,N) A) -> (B) {{ B(i) {op} A(i,j) }}")
    dtype = {"double": "float64", "half": "float16", "int": "int32"}.get(kind, kind)
    A = tl.placeholder((3, 4), dtype, name="A")
    a = rng.integers(1, 4, (3, 4)).astype(dtype)
    B = f(A)
    agree(B, {A: a}, fold(a, axis=1).astype(B.dtype.numpy))


def test_where_gives_ranges() -> None:
    f = tl.tc("def f(double(N) X) -> (Y) { Y(i) +=! X(k) * X(i) where i in 0:3, k in 1:N/2 }")
    X = tl.placeholder((11,), "float64", name="X")
    x = rng.random(11)
    agree(f(X), {X: x}, x[:3] * x[1:5].sum())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "line 1, column 1: expected 'def', found 'x'"),
        ("def f(float(N) A) -> (C) {\n C(i) = A(i) +* 2 }", r"line 2, column 15: expected a value, found '\*'"),
        ("def f(float(N) A) -> (C) { C(i) = A(i) $ 2 }", "column 40: '\\$' has no meaning"),
        ("def f(flot(N) A) -> (C) { C(i) = A(i) }", "column 7: 'flot' is no type; did you mean 'float'"),
        ("def f(float(N) A) -> () { C(i) = A(i) }", r"at least one result, as in -> \(C\)"),
        ("def f(float(N) A) -> (D) { C(i) = A(i) }", "the result D is defined by no statement"),
        ("def f(float(N) A) -> (C) { C(i) += A(i) }", "expected one of =, "),
        ("def f(float(N) A) -> (C) { C(i,i) = A(i) }", "an index twice"),
        ("def f(float(N) A) -> (A) { A(i) = A(i) }", "A is a parameter"),
        ("def f(float(N) A, float(N) A) -> (C) { C(i) = A(i) }", "stands twice"),
        ("def f(float(N) A) -> (C) { C(i) = A(i) } def", "expected the end"),
        ("def f(float(N) A) -> (C) { C(i) = A(i)", "expected a name, found 'the end'"),
        ("def f(float(N) A) -> (C) { C(i) = " + "(" * 5000 + "A(i)", "too large"),
        ("def f(float(N) A) -> (C) { C(i) = A(i)" + " + 1" * 5000 + " }", "too large"),
    ],
)
def test_a_mistake_in_the_text_has_a_place(text: str, message: str) -> None:
    with pytest.raises(tl.DefinitionError, match=message):
        tl.tc(text)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("C(i) = B(i)", "column 35: B is no tensor and no function"),
        ("C(i) = i2", "column 36: the range of i2 does not follow|range of i does not follow"),
        ("C(i,j) = A(i)", "the range of j does not follow from the operands; write where j in 0"),
        ("C(i) = A(i, i)", "A has 1 axes and is read with 2"),
        ("C(i) = A(i) + A(k)", "k is not an index of C; reduce over it"),
        ("C(i) = A(i) where i in 1:3", "i starts at 1"),
        ("C(i) = A(i + 1) + A(i)", "outside A"),
        ("C(i) = exp(A(i), 2.0)", "exp does not take 2 values"),
        ("C(i) = A(i) * A", "A is a tensor; index it"),
        ("C(i) = A(i) where i in 0:Z", "Z is no size"),
        ("C(i) = A(i) where i in 0:N/0", "positive integers"),
        ("C(i) = A(i) & 1", "has no meaning"),
    ],
)
def test_a_mistake_in_meaning_has_a_place(body: str, message: str) -> None:
    with pytest.raises(tl.DefinitionError, match=message):
        tl.tc(f"def f(float(N) A) -> (C) {{ {body} }}")(tl.placeholder((6,), name="A"))


def test_operands_have_to_fit() -> None:
    f = tl.tc("def f(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }")
    A = tl.placeholder((6,), name="A")
    for tensors, message in [
        ((A,), "takes 2 tensors"),
        ((A, tl.placeholder((5,), name="B")), "has N = 5 in B"),
        ((A, tl.placeholder((6,), "int32", name="B")), "is float32 with 1 axes"),
        ((A, 3), "is a tensor, not 3"),
    ]:
        with pytest.raises(tl.DefinitionError, match=message):
            f(*tensors)
