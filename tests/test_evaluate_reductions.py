"""Reductions mean what NumPy's do: taken in order, whatever chunks they are evaluated in, with identities of empty domains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.definition.expr import Expr
from tensorlang.definition.tensor import ReduceAxis
from tensorlang.ir import Compare, Const, Param, Reducer, Select
from tensorlang.ir.dtype import BOOL, FLOAT32, INT64, DType
from tensorlang.semantics import arithmetic, evaluate
from tests.draws import examples
from tests.strategies import Program, programs

rng = np.random.default_rng(23)


def reduced(fn: Any, array: Any, **options: Any) -> Any:
    """`fn` over the last axis of a matrix."""
    X = tl.placeholder(array.shape, array.dtype.name, name="x")
    k = tl.reduce_axis(array.shape[1], name="k")
    return tl.evaluate(tl.compute(array.shape[:1], lambda i: fn(X[i, k], axis=k, **options), name="y"), {X: array})


REDUCERS = [("max", np.max), ("min", np.min), ("argmax", np.argmax), ("argmin", np.argmin)]


@pytest.mark.parametrize(("name", "numpy"), REDUCERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint64"])
def test_extrema_are_numpys(name: str, numpy: Any, dtype: str) -> None:
    x = rng.integers(0, 4, (6, 9)).astype(dtype)
    if dtype.startswith("f"):
        x[2, 3], x[3, [1, 4]], x[4] = np.nan, np.nan, -np.inf
    got = reduced(getattr(tl, name), x)
    np.testing.assert_array_equal(got, numpy(x, axis=1))
    assert got.dtype == (np.int64 if name.startswith("arg") else x.dtype)


@pytest.mark.parametrize("shape", [(7,), (3, 5)])
@pytest.mark.parametrize("of", ["float32", "int64", "uint8"])
def test_places_of_32_bits_are_found_in_32_bits(shape: tuple[int, ...], of: str) -> None:
    x = tl.placeholder((4, *shape), of, name="x")
    axes = tuple(tl.reduce_axis(size, name=f"k{place}") for place, size in enumerate(shape))
    data = (np.random.default_rng(0).integers(0, 4, (4, *shape)) * 3).astype(of)
    for reducer, wanted in ((tl.argmin, np.argmin), (tl.argmax, np.argmax)):
        found = tl.compute((4,), lambda i, reducer=reducer: reducer(x[(i, *axes)], axis=axes, dtype="int32"), name="found")
        assert found.dtype == "int32"
        assert [str(state.dtype) for state in found.definition.values[0].reducer.identities] == [of, "int32"]
        np.testing.assert_array_equal(tl.evaluate(found, {x: data}), wanted(data.reshape(4, -1), axis=1))
        np.testing.assert_array_equal(tl.build(found)(data), wanted(data.reshape(4, -1), axis=1))


def test_places_that_32_bits_do_not_hold_are_found_in_64() -> None:
    x, k = tl.placeholder((1 << 32,), "int8", name="x"), tl.reduce_axis(1 << 32, name="k")
    found = tl.compute((), lambda: tl.argmax(x[k], axis=k, dtype="int32"), name="found")
    assert found.dtype == "int32"
    assert "int64" in str(tl.Schedule(found))


def test_argmax_over_several_axes_gives_the_row_major_position() -> None:
    x = rng.integers(0, 5, (4, 3, 5), "i4")
    X = tl.placeholder(x.shape, "int32", name="X")
    k, l = tl.reduce_axis(3, name="k"), tl.reduce_axis((1, 5), name="l")
    Y = tl.compute((4,), lambda i: tl.argmax(X[i, k, l], axis=(k, l)), name="Y")
    np.testing.assert_array_equal(tl.evaluate(Y, {X: x}), x[:, :, 1:].reshape(4, -1).argmax(1))


def test_an_empty_domain_gives_the_identity() -> None:
    x, none = np.ones((2, 0), "f4"), np.ones((2, 0), "i1")
    for name, want in {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "reduce_fmax": np.nan, "argmax": -1}.items():
        np.testing.assert_array_equal(reduced(getattr(tl, name), x), [want, want])
    np.testing.assert_array_equal(reduced(tl.max, none), [-128, -128])
    assert reduced(tl.sum, none).dtype == np.int32


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("int8", "int32"), ("uint16", "int32"), ("int32", "int32"), ("uint32", "uint32"), ("float16", "float16"), ("float64", "float64")],
)
def test_sums_have_the_types_of_the_contract(dtype: str, result: str) -> None:
    x = rng.integers(0, 100, (3, 50)).astype(dtype)
    got = reduced(tl.sum, x)
    assert got.dtype == result
    np.testing.assert_allclose(got.astype("f8"), x.astype("f8").sum(1), rtol=1e-3 if dtype == "float16" else 0)


def test_products_of_small_integers_do_not_wrap_before_they_are_summed() -> None:
    x = np.full((2, 10), 100, "i1")
    np.testing.assert_array_equal(reduced(lambda v, axis: tl.sum(v * v, axis=axis), x), [100_000, 100_000])


def test_a_sum_converted_to_integers_converts_each_whole_element() -> None:
    x = np.full((1, 4), 1.5, "f4")
    np.testing.assert_array_equal(reduced(lambda v, axis: tl.sum(v * v, axis=axis, dtype="int32"), x), [8])


def test_sums_are_taken_in_order() -> None:
    x = rng.standard_normal((2, 1000)).astype("f4")
    want = np.zeros(2, "f4")
    for k in range(1000):
        want = want + x[:, k]
    np.testing.assert_array_equal(reduced(tl.sum, x), want)


def reduce_with(reducer: Reducer, values: Any, axis: ReduceAxis, component: int = 0, where: Any = None) -> Expr:
    nodes = tuple(value.node for value in values)
    return Expr(ir.Reduce(reducer, nodes, (axis.axis,), None if where is None else where.node, component))


def test_any_reducer_may_be_used() -> None:
    """Welford's mean and squared deviation, whose three components depend on each other."""

    def param(name: str) -> Expr:
        return Expr(Param(name, FLOAT32))

    (n, mean, square), (m, other, rest) = map(param, ("a0", "a1", "a2")), map(param, ("b0", "b1", "b2"))
    total, delta = n + m, other - mean
    safe = tl.maximum(total, 1.0)
    results = (total, mean + delta * m / safe, square + rest + delta * delta * n * m / safe)
    zero = Const(0.0, FLOAT32)
    welford = Reducer("welford", (zero, zero, zero), tuple(result.node for result in results))
    x = rng.standard_normal((3, 700)).astype("f4")
    X, k = tl.placeholder(x.shape, name="X"), tl.reduce_axis(700, name="k")

    def body(i: Expr) -> tuple[Expr, ...]:
        values = (tl.cast(1.0, "float32"), X[i, k], tl.cast(0.0, "float32"))
        return tuple(reduce_with(welford, values, k, component, k >= 2) for component in range(3))

    count, mean_, deviation = tl.evaluate(tl.compute((3,), body, name="Y"), {X: x})
    np.testing.assert_array_equal(count, 698)
    np.testing.assert_allclose(mean_, x[:, 2:].mean(1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(deviation / 698, x[:, 2:].var(1), rtol=1e-4)


def test_a_reducer_of_choices_does_not_depend_on_chunks(monkeypatch: Any) -> None:
    greatest = Reducer(
        "greatest",
        (Const(-1, INT64),),
        (Select(Compare("gt", Param("b0", INT64), Param("a0", INT64)), Param("b0", INT64), Param("a0", INT64)),),
    )
    k = tl.reduce_axis(1000, name="k")
    Y = tl.compute((3,), lambda i: reduce_with(greatest, (k % (97 + i),), k, 0, k % 2 == 0), name="Y")
    want = [max(k % (97 + i) for k in range(0, 1000, 2)) for i in range(3)]
    for chunk in (1, 7, 100, 1 << 20):
        monkeypatch.setattr(evaluate, "CHUNK", chunk)
        np.testing.assert_array_equal(tl.evaluate(Y, {}), want)


@examples(60)
@given(programs(), st.sampled_from([1, 3, 64]))
def test_chunks_do_not_show(program: Program, chunk: int) -> None:
    want = tl.evaluate(program.outputs, program.feeds)
    before, evaluate.CHUNK = evaluate.CHUNK, chunk  # type: ignore[misc]
    try:
        got = tl.evaluate(program.outputs, program.feeds)
    finally:
        evaluate.CHUNK = before  # type: ignore[misc]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_reductions_may_be_nested() -> None:
    x = rng.random((4, 5)).astype("f4")
    X, k, l = tl.placeholder((4, 5), name="X"), tl.reduce_axis(4, name="k"), tl.reduce_axis(5, name="l")
    Y = tl.compute((2,), lambda i: tl.max(tl.sum(X[k, l], axis=l) * (tl.cast(i, "float32") + 1.0), axis=k), name="Y")
    np.testing.assert_allclose(tl.evaluate(Y, {X: x}), x.sum(1).max() * np.array([1, 2]), rtol=1e-6)


def test_a_fast_path_is_the_reducer_it_stands_for() -> None:
    """Every operation that `fold` knows gives what the general path gives, one step after the other."""
    for dtype in (FLOAT32, INT64, DType("uint8"), BOOL):
        for op in ("add", "mul", "min", "max", "fmin", "fmax", "and", "or", "xor"):
            if (dtype == BOOL and op not in ("and", "or", "xor")) or (dtype.is_floating and op in ("and", "or", "xor")):
                continue
            values = rng.integers(0, 2 if dtype == BOOL else 5, (9, 4)).astype(dtype.numpy)
            if dtype.is_floating:
                values[3, 1] = np.nan
            with arithmetic.quiet():
                state = want = np.asarray(values[0])
                for row in values[1:]:
                    want = arithmetic.binary(op, want, row, dtype)
                np.testing.assert_array_equal(arithmetic.fold(op, state, values[1:]), want)
                rest = arithmetic.neutral(op, dtype)
                np.testing.assert_array_equal(arithmetic.binary(op, values[3], rest, dtype), values[3])
