"""Definitions are checked when they are written, and every refusal says what is wrong, with what, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.definition.expr import MAX_DEPTH, Expr
from tensorlang.definition.tensor import Tensor
from tests.draws import examples

A, B = tl.placeholder((8,), name="A"), tl.placeholder((4, 6), name="B")
I, U, F = tl.placeholder((8,), "int32", name="I"), tl.placeholder((8,), "uint8", name="U"), tl.placeholder((8,), "bool", name="F")
D, H = tl.placeholder((8,), "float64", name="D"), tl.placeholder((8,), "float16", name="H")
L = tl.placeholder((8,), "int64", name="L")
n, m = tl.dim("n"), tl.dim("m")
V = tl.placeholder((n,), name="V")


def over(fn: Callable[..., Any], shape: Any = (8,)) -> Any:
    return tl.compute(shape, fn, name="Y")


# Types


@pytest.mark.parametrize(
    ("fn", "dtype"),
    [
        (lambda i: A[i] + 1, "float32"),
        (lambda i: 1 - A[i], "float32"),
        (lambda i: A[i] * np.float64(2), "float32"),
        (lambda i: A[i] + D[i], "float64"),
        (lambda i: H[i] * A[i], "float32"),
        (lambda i: I[i] + i, "int64"),
        (lambda i: I[i] // 2, "int32"),
        (lambda i: U[i] << 1, "uint8"),
        (lambda i: F[i] & (i > 3), "bool"),
        (lambda i: tl.select(F[i], A[i], 0), "float32"),
        (lambda i: A[i] < 1, "bool"),
        (lambda i: tl.isnan(A[i]), "bool"),
        (lambda i: tl.exp(H[i]), "float16"),
        (lambda i: A[i] ** 2, "float32"),
        (lambda i: tl.cast(A[i], "bfloat16"), "bfloat16"),
    ],
)
def test_types_promote_within_a_kind_and_scalars_are_weak(fn: Any, dtype: str) -> None:
    assert over(fn).dtype == dtype


def test_bfloat16_and_float16_promote_to_float32() -> None:
    X = tl.placeholder((8,), "bfloat16", name="X")
    assert over(lambda i: X[i] + H[i]).dtype == "float32"


k, r = tl.reduce_axis(8, name="k"), tl.reduce_axis((1, 8), name="r")
REFUSED: dict[str, Callable[[], Any]] = {
    # kinds
    '* of A[i] (float32) and I[i] (int32): the kinds differ; convert one side, for example tl.cast(I[i], "float32")': lambda: over(
        lambda i: A[i] * I[i]
    ),
    '+ of A[i] (float32) and i (int64): the kinds differ; convert one side, for example tl.cast(i, "float32")': lambda: over(
        lambda i: A[i] + i
    ),
    '+ of I[i] (int32) and U[i] (uint8): the kinds differ; convert one side, for example tl.cast(U[i], "int32")': lambda: over(
        lambda i: I[i] + U[i]
    ),
    '+ of I[i] (int32) and 0.5 (float32): the kinds differ; convert one side, for example tl.cast(I[i], "float32")': lambda: over(
        lambda i: I[i] + 0.5
    ),
    'I[i] / 2 divides integers; write // for the floor, or tl.cast(..., "float32") to divide exactly': lambda: over(lambda i: I[i] / 2),
    "A[i] // 2.0: // and % are for integers; write tl.floor(a / b), or tl.cast to an integer": lambda: over(lambda i: A[i] // 2),
    "A[i] % 2.0: // and % are for integers; write a - tl.floor(a / b) * b, or tl.cast to an integer": lambda: over(lambda i: A[i] % 2),
    "tl.clamp has two ends; where there is one write tl.maximum(x, lo) or tl.minimum(x, hi)": lambda: over(
        lambda i: tl.clamp(A[i], 0, None)
    ),
    '& of A[i] and A[i]: bits are for integers and bool; write tl.cast(..., "int32")': lambda: over(lambda i: A[i] & A[i]),
    '* of F[i] and F[i]: there is no arithmetic on bool; write tl.cast(..., "int32") or use & | ~': lambda: over(lambda i: F[i] ** 1),
    '+ of F[i] and F[i]: there is no arithmetic on bool; write tl.cast(..., "int32") or use & | ~': lambda: over(lambda i: F[i] + F[i]),
    "F[i] and F[i] are bool and have no order; compare with == or combine with & | ~": lambda: over(lambda i: F[i] < F[i]),
    "300 does not fit uint8; write tl.cast to compute in a wider type": lambda: over(lambda i: U[i] + 300),
    'tl.exp of I[i] (int32) needs floating point; write tl.cast(I[i], "float32")': lambda: over(lambda i: tl.exp(I[i])),
    "the first argument of tl.select must be a condition (bool), not A[i] (float32); compare it with something": lambda: over(
        lambda i: tl.select(A[i], 1, 0)
    ),
    'I[i] ** I[i]: an integer power is defined for the exponents 1 to 4; write tl.cast(..., "float32")': lambda: over(
        lambda i: I[i] ** I[i]
    ),
    "neg of F[i] (bool) has no meaning; use ~ for bool, - and abs for numbers": lambda: over(lambda i: -F[i]),
    "'float31' is not a tensorlang type; did you mean 'float32' or 'float16'?": lambda: tl.placeholder((3,), "float31"),
    # truth
    "the truth of A[i] > 0.0 is not known while the operator is defined; write tl.select(cond, a, b) instead of `if`, "
    "tl.maximum(a, b) and tl.minimum(a, b) instead of `max` and `min`, and & | ~ instead of `and`, `or`, `not`": lambda: over(
        lambda i: max(0, A[i])
    ),
    "the truth of F[i] is not known while the operator is defined; write tl.select(cond, a, b) instead of `if`, "
    "and & | ~ instead of `and`, `or`, `not`": lambda: over(lambda i: 1 if F[i] else 0),
    "A[i] is one value and cannot be iterated over": lambda: over(lambda i: list(A[i])),
    "i has no value while the operator is defined, so Python cannot use it as an integer; "
    "to read a list or an array at it, make that an operand first: table = tl.buffer(array), then table[i]": lambda: over(
        lambda i: [1, 2][i]
    ),
    # reads
    "Y reads A[i + 1] outside A: float32[8]: at i = 7, axis 0 is read at 8; read it under tl.select with a condition, restrict the axis, "
    "or pad the tensor with tl.pad": lambda: over(lambda i: A[i + 1]),
    "Y reads A[-1] outside A: float32[8]: indices do not count from the end; 7 is that element": lambda: over(lambda _: A[-1]),
    "Y reads C[-2] outside C: float32[n]: indices do not count from the end; n - 2 is that element": lambda: over(
        lambda _: tl.placeholder((n,), name="C")[-2]
    ),
    "B: float32[4, 6] @ B: float32[4, 6]: a product of matrices is tl.ops.matmul(B, B); operators of Python are on elements": lambda: B @ B,
    "B: float32[4, 6] has 2 axes and is read with 1 indices; indices stand together in one pair of brackets, as in A[i, j]": lambda: over(
        lambda i: B[i]
    ),
    "A: float32[8] has 1 axes and is read with 2 indices": lambda: over(lambda i: A[i, 0]),
    "an index of A: float32[8] is A[i] (float32); indices are integers: use tl.cast": lambda: over(lambda i: A[A[i]]),
    "A: float32[8] is read one element at a time; write an index for each axis, not slice(None, None, None)": lambda: over(lambda _: A[:]),
    "A: float32[8] is a whole tensor, and arithmetic is on elements; "
    "write tl.compute(A.shape, lambda i: A[i] + ...), or a function of tl.ops": lambda: over(lambda i: A + i),
    "the body of tensor Y is A: float32[8] itself; index it, as in A[i]": lambda: over(lambda i: A if i is not None else 0),
    "A: float32[8] cannot be iterated over; define a tensor over its axes with tl.compute": lambda: list(A),
    # axes
    "Y uses the axis 'k', which it does not own; reduce over it (tl.sum(..., axis=k)) or use one of i": lambda: over(lambda i: A[k] + A[i]),
    "axis= of tl.sum takes reduction axes made by tl.reduce_axis, not i": lambda: over(lambda i: tl.sum(A[i], axis=i)),
    "axis= of tl.sum needs one or more different reduction axes": lambda: over(lambda i: tl.sum(A[i], axis=())),
    "where= of tl.sum must be a condition (bool), not k (int64); compare it with something": lambda: over(
        lambda _: tl.sum(A[k], axis=k, where=k)
    ),
    "tl.max of bool has no meaning; use tl.any or tl.all": lambda: over(lambda _: tl.max(F[k], axis=k)),
    "the operand of tl.any must be a condition (bool), not A[k] (float32); compare it with something": lambda: over(
        lambda _: tl.any(A[k], axis=k)
    ),
    # shapes and names
    "tensor Y has 2 axes but its body takes 1 parameters (i)": lambda: over(lambda i: A[i], (8, 8)),
    "the body of tensor Y must be a function of its axes, not 3": lambda: over(3),  # type: ignore[arg-type]
    "the body of tensor Y returns an empty tuple; return at least one expression": lambda: over(lambda _: ()),
    "an extent of placeholder X is -1; extents are at least 0": lambda: tl.placeholder((-1,), name="X"),
    "an extent of placeholder X must be an int or a tl.dim, not 2.5": lambda: tl.placeholder((2.5,), name="X"),
    "the shape of placeholder X must be a tuple of ints and dims, not 'ab'": lambda: tl.placeholder("ab", name="X"),
    "an extent of placeholder X of 1125899906842624 is out of range (at most 2**48)": lambda: tl.placeholder((1 << 50,), name="X"),
    "'a b' cannot name a tensor; use letters, digits and _, at most 200": lambda: tl.placeholder((3,), name="a b"),
    "1 cannot name a dim; use letters, digits and _, at most 200": lambda: tl.dim(1),  # type: ignore[arg-type]
    "a reduction axis runs over an extent or a pair (lo, hi), not (1, 2, 3)": lambda: tl.reduce_axis((1, 2, 3)),  # type: ignore[arg-type]
    "the extent n is known only at run time; compare it inside tl.select or where=": lambda: bool(n),
    "an output must be a tensor, not 3": lambda: tl.evaluate(3, {}),  # type: ignore[call-overload]
    # padding and einsum
    "pad mode 'zero' is not one of 'constant', 'edge', 'reflect', 'symmetric', 'wrap'": lambda: tl.pad(A, ((1, 1),), mode="zero"),
    "pad widths of A: float32[8] must be a pair (before, after) of ints >= 0 for each of its 1 axes, not ((-1, 0),)": lambda: tl.pad(
        A, ((-1, 0),)
    ),
    "einsum takes letters, commas and one ->, as in 'ik,kj->ij', not 'i...->i'; write a letter for each axis that ... stands for": lambda: (
        tl.einsum("i...->i", A)
    ),
    "einsum 'i,j->ij' names 2 operands and is given 1": lambda: tl.einsum("i,j->ij", A),
    "einsum 'ij->i': 'ij' names 2 axes, but A: float32[8] has 1": lambda: tl.einsum("ij->i", A),
    "einsum 'ii->i': i is 4 in B: float32[4, 6] but 6 in B: float32[4, 6]": lambda: tl.einsum("ii->i", B),
    "einsum 'ij->ii': an output axis is named twice": lambda: tl.einsum("ij->ii", B),
    "einsum 'ij->k': the output axis k is in no operand": lambda: tl.einsum("ij->k", B),
    "einsum 'i': an operand must be a tensor, not 3": lambda: tl.einsum("i", 3),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_refusal_says_what_is_wrong_and_what_to_do(message: str) -> None:
    with pytest.raises(tl.DefinitionError) as refusal:
        REFUSED[message]()
    assert str(refusal.value) == message


# Reads in range


@pytest.mark.parametrize(
    "fn",
    [
        lambda i: A[7 - i],
        lambda i: A[(i * 3) % 8],
        lambda i: A[i // 2],
        lambda i: A[tl.clamp(L[i], 0, 7)],
        lambda i: A[L[i] % 8],
        lambda i: tl.select((L[i] >= 0) & (L[i] < 8), A[L[i]], 0),
        lambda i: tl.select((L[i] < 0) | (L[i] > 7), 0, A[L[i]]),
        lambda i: tl.select(i < 7, A[i + 1], A[0]),
        lambda _: tl.sum(A[r - 1], axis=r),
        lambda i: tl.sum(A[i + r], axis=r, where=i + r < 8),
        lambda i: A[tl.cast(tl.clamp(I[i], 0, 7), "int64")],
        lambda i: A[tl.clamp(U[i], 0, 7)],
        lambda i: tl.select(i < n, V[i], 0),
        lambda i: A[tl.minimum(i + 5, 7)],
        lambda i: B[i // 2, (i + 1) % 6],
        lambda i: tl.sum(tl.select(i >= k, A[i - k], 0), axis=k),
    ],
)
def test_a_read_that_is_proved_inside_is_accepted(fn: Any) -> None:
    assert isinstance(over(fn), Tensor)


@pytest.mark.parametrize(
    ("fn", "example"),
    [
        (lambda i: A[i - 1], "at i = 0, axis 0 is read at -1"),
        (lambda i: A[2 * i], r"at i = \d, axis 0 is read at (8|10|12|14)"),
        (lambda i: A[L[i]], "keep a data-dependent index inside with tl.clamp"),
        (lambda i: A[tl.clamp(L[i], 0, 8)], "axis 0 is read at 8"),
        (lambda i: tl.select(i < 8, A[i + 1], 0), "at i = 7, axis 0 is read at 8"),
        (lambda i: tl.select(i > 0, 0, A[i - 1]), "at i = 0, axis 0 is read at -1"),
        (lambda i: tl.sum(A[i + k], axis=k), r"axis 0 is read at"),
        (lambda i: tl.sum(A[i + r], axis=r, where=i + r < 9), "axis 0 is read at 8"),
        (lambda i: V[i], "n = 0"),
        (lambda i: B[i // 2, i], r"axis 1 is read at [67]"),
        (lambda i: A[tl.cast(U[i], "int64")], "axis 0 is read at"),
    ],
)
def test_a_read_outside_is_refused_with_an_example(fn: Any, example: str) -> None:
    with pytest.raises(tl.DefinitionError, match=example):
        over(fn)


@examples(100)
@given(st.integers(-3, 3), st.integers(-9, 9), st.integers(1, 4), st.integers(1, 9), st.integers(1, 9))
def test_a_read_is_refused_just_where_some_index_is_outside(factor: int, offset: int, by: int, extent: int, size: int) -> None:
    X = tl.placeholder((size,), name="X")
    inside = all(0 <= (factor * i + offset) // by < size for i in range(extent))
    try:
        tl.compute((extent,), lambda i: X[(i * factor + offset) // by], name="Y")
    except tl.DefinitionError:
        assert not inside
    else:
        assert inside


def test_symbolic_extents_are_proved_for_every_size() -> None:
    Y = tl.compute((n - 2,), lambda i: V[i] + V[i + 2], name="Y")
    assert repr(Y) == "Y: float32[n - 2]"
    X = tl.placeholder((2 * n + 1, m), name="X")
    assert repr(tl.compute((n, m), lambda i, j: X[2 * i + 1, j], name="Z")) == "Z: float32[n, m]"
    with pytest.raises(tl.DefinitionError, match="outside V"):
        tl.compute((n,), lambda i: V[i + 1], name="Y")


# Surface


def test_dims_are_extents_by_structure() -> None:
    assert tl.dim("n") == n
    assert n + 1 == 1 + n
    assert n != m
    assert (n * 2 - n) == n
    assert tl.placeholder((n, 3)).shape == tl.placeholder((tl.dim("n"), 3)).shape
    assert len({n, tl.dim("n"), m}) == 2
    assert repr((n + 1) // 2) == "(n + 1) // 2"


def test_axes_are_named_by_the_parameters() -> None:
    Y = tl.compute((4, 6), lambda *i: B[i] * 2.0, name="Y")
    assert repr(Expr(Y.definition.values[0])) == "B[i0, i1] * 2.0"


def test_expressions_print_as_python() -> None:
    assert repr(tl.reduce_axis(4, name="q") * 2 + 1) == "q * 2 + 1"
    assert repr(tl.select(k > 1, A[k], -A[k])) == "select(k > 1, A[k], -A[k])"
    assert repr((k + 1) * 2) == "(k + 1) * 2"


def test_an_expression_that_is_too_large_is_refused_and_not_a_crash() -> None:
    def deep(i: Any) -> Any:
        value = A[i]
        for _ in range(10_000):
            value = value + 1
        return value

    def wide(i: Any) -> Any:
        value = A[i]
        for _ in range(400):
            value = value * value
        return value

    for fn in (deep, wide):
        with pytest.raises(tl.DefinitionError, match=f"too large .at most 32768 and {MAX_DEPTH}.*make a part of it a tensor"):
            over(fn)


def test_several_results_share_one_stage() -> None:
    P, Q = tl.compute((8,), lambda i: (A[i], I[i]), name="P")
    assert P.definition is Q.definition
    assert (P.name, Q.name, P.dtype, Q.dtype) == ("P_0", "P_1", "float32", "int32")


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("ik,kj->ij", [(2, 3), (3, 4)]),
        ("ik,kj", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("ij->", [(2, 3)]),
        ("i,j->ij", [(2,), (3,)]),
        ("bik,bkj->bij", [(2, 3, 4), (2, 4, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("Aa , aB -> BA", [(2, 3), (3, 4)]),
    ],
)
def test_einsum_is_numpys(spec: str, shapes: Any) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.integers(-4, 5, shape).astype("f4") for shape in shapes]
    tensors = [tl.placeholder(shape, name=f"X{number}") for number, shape in enumerate(shapes)]
    got = tl.evaluate(tl.einsum(spec, *tensors), dict(zip(tensors, arrays, strict=True)))
    np.testing.assert_array_equal(got, np.einsum(spec, *arrays))


def test_einsum_names_its_axes_by_letters() -> None:
    X, Y = tl.placeholder((2, 3), name="X"), tl.placeholder((3, 4), name="Y")
    product = tl.einsum("ik,kj->ij", X, Y, name="C")
    assert repr(Expr(product.definition.values[0])) == "sum(X[i, k] * Y[k, j] for k in range(3))"  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("symbolic", [False, True])
def test_pad_is_numpys(mode: str, symbolic: bool) -> None:
    x = np.arange(20, dtype="f4").reshape(4, 5)
    if symbolic and mode != "constant":
        pytest.skip("where an extent may be 0 there is nothing to repeat")
    X = tl.placeholder((n, 5) if symbolic else (4, 5), name="X")
    P = tl.pad(X, ((3, 1), (0, 2)), mode=mode)
    np.testing.assert_array_equal(tl.evaluate(P, {X: x}), np.pad(x, ((3, 1), (0, 2)), mode=mode))  # type: ignore[call-overload]


@pytest.mark.parametrize("widths", [2, (1, 2), ((1, 2),)])
def test_widths_are_numpys(widths: Any) -> None:
    for shape in [(6,)] if np.shape(widths) == (1, 2) else [(6,), (4, 5)]:
        x = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        X = tl.placeholder(shape, name="X")
        np.testing.assert_array_equal(tl.evaluate(tl.pad(X, widths, mode="edge"), {X: x}), np.pad(x, widths, mode="edge"))


def test_the_least_and_the_greatest_are_of_two_or_more() -> None:
    P = tl.placeholder((3, 7), name="P")
    p = np.random.default_rng(0).random((3, 7), dtype="f4")
    for ours, theirs in ((tl.minimum, np.min), (tl.maximum, np.max)):
        found = tl.evaluate(tl.compute((7,), lambda i, ours=ours: ours(P[0, i], P[1, i], P[2, i])), {P: p})
        np.testing.assert_array_equal(found, theirs(p, axis=0))


def test_the_first_that_is_true_is_found() -> None:
    Q, k = tl.placeholder((4, 9), "bool", name="Q"), tl.reduce_axis(9)
    q = np.random.default_rng(0).random((4, 9)) < 0.3
    q[2] = False
    for ours, theirs in ((tl.argmax, np.argmax), (tl.argmin, np.argmin)):
        found = tl.evaluate(tl.compute((4,), lambda i, ours=ours: ours(Q[i, k], axis=k)), {Q: q})
        np.testing.assert_array_equal(found, theirs(q, axis=1))


@pytest.mark.parametrize("value", [0, 1, False, True])
def test_bools_are_padded_with_bools(value: int) -> None:
    x = np.array([True, False, True])
    X = tl.placeholder((3,), "bool", name="X")
    np.testing.assert_array_equal(tl.evaluate(tl.pad(X, ((1, 2),), value=value), {X: x}), np.pad(x, (1, 2), constant_values=bool(value)))
