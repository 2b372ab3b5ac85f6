"""`tl.evaluate` is the meaning of definitions: NumPy's, total, and lazy where the language is."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.ir.dtype import DTYPES, DType

rng = np.random.default_rng(23)


def mapped(fn: Any, *arrays: Any) -> Any:
    """`fn` of the elements of one-dimensional arrays."""
    tensors = [tl.placeholder(array.shape, array.dtype.name, name="abc"[n]) for n, array in enumerate(arrays)]
    output = tl.compute(arrays[0].shape, lambda i: fn(*(tensor[i] for tensor in tensors)), name="y")
    return tl.evaluate(output, dict(zip(tensors, arrays, strict=True)))


# Operators


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integer_division_is_total_and_floored(dtype: str) -> None:
    low = np.iinfo(dtype).min
    a = np.array([7, -7, 7, -7, 5, low, low], dtype)
    b = np.array([2, 2, -2, -2, 0, -1, 0], dtype)
    np.testing.assert_array_equal(mapped(lambda x, y: x // y, a, b), np.array([3, -4, -4, 3, 0, low, 0], dtype))
    np.testing.assert_array_equal(mapped(lambda x, y: x % y, a, b), np.array([1, 1, -1, -1, 0, 0, 0], dtype))


def test_unsigned_division_by_zero_is_zero() -> None:
    a, b = np.array([200, 7], "u1"), np.array([0, 255], "u1")
    np.testing.assert_array_equal(mapped(lambda x, y: x // y, a, b), [0, 0])
    np.testing.assert_array_equal(mapped(lambda x, y: x % y, a, b), [0, 7])


def test_shifts_past_the_width_give_zero_or_the_sign() -> None:
    a, b = np.array([-5, -5, 5, 5, -128, 3], "i1"), np.array([8, 127, 100, -1, 7, 1], "i1")
    np.testing.assert_array_equal(mapped(lambda x, y: x >> y, a, b), [-1, -1, 0, 0, -1, 1])
    np.testing.assert_array_equal(mapped(lambda x, y: x << y, a, b), [0, 0, 0, 0, 0, 6])
    np.testing.assert_array_equal(mapped(lambda x, y: x >> y, np.array([255, 255], "u1"), np.array([4, 8], "u1")), [15, 0])


def test_arithmetic_on_integers_wraps() -> None:
    a = np.array([100, -128, 127], "i1")
    np.testing.assert_array_equal(mapped(lambda x: x + x, a), [-56, 0, -2])
    np.testing.assert_array_equal(mapped(lambda x: -x, a), [-100, -128, -127])
    np.testing.assert_array_equal(mapped(tl.abs, a), [100, -128, 127])


@pytest.mark.parametrize("target", [dtype for dtype in DTYPES if dtype.is_integer])
@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
def test_casts_from_floating_point_saturate(source: str, target: DType) -> None:
    x = np.array(
        [np.nan, np.inf, -np.inf, 1e30 if source != "float16" else 6e4, -0.9, 3.99, -3.99, 2.0**31 if source != "float16" else 5], source
    )
    got = mapped(lambda v: tl.cast(v, target), x)

    def exact(value: float) -> int:
        if math.isnan(value):
            return 0
        whole = math.trunc(min(max(value, -1e300), 1e300))
        return int(min(max(whole, int(target.lowest)), int(target.highest)))

    assert [int(value) for value in got] == [exact(float(value)) for value in x]


def test_casts_between_integers_wrap_and_to_bool_test_for_zero() -> None:
    x = np.array([-1, 256, 300, 0], "i4")
    np.testing.assert_array_equal(mapped(lambda v: tl.cast(v, "uint8"), x), [255, 0, 44, 0])
    np.testing.assert_array_equal(mapped(lambda v: tl.cast(v, "bool"), x), [True, True, True, False])
    np.testing.assert_array_equal(
        mapped(lambda v: tl.cast(v, "bool"), np.array([0.0, -0.0, 0.5, np.nan], "f4")), [False, False, True, True]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_rounds_after_each_operation(dtype: str) -> None:
    numpy = DType(dtype).numpy
    a, b, c = (rng.standard_normal(50).astype(numpy) for _ in range(3))

    def rounded(x: Any) -> Any:
        return x.astype(numpy).astype("f4")

    want = rounded(rounded(a.astype("f4") * b.astype("f4")) + c.astype("f4")).astype(numpy)
    got = mapped(lambda x, y, z: x * y + z, a, b, c)
    assert got.dtype == numpy
    np.testing.assert_array_equal(got, want)


def test_bfloat16_is_the_type_of_ml_dtypes() -> None:
    x = np.array([1.5, -2.25], ml_dtypes.bfloat16)
    got = mapped(tl.exp, x)
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got, np.exp(x.astype("f4")).astype(ml_dtypes.bfloat16))


EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("dtype", "ulp"), [("float32", 0.51), ("float64", 2.0)])
def test_functions_are_exact_to_the_last_bits(name: str, dtype: str, ulp: float) -> None:
    """float32 is the nearest value (computed in float64); float64 is NumPy's, within 2 ulp."""
    x = np.concatenate([np.linspace(0.01, 20, 40), rng.random(20) * 1e-3 + 1e-6]).astype(dtype)
    if name not in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt"):
        x = np.concatenate([x, -x])
    x = x / x.dtype.type(20) if name in ("asin", "acos") else x
    got = mapped(getattr(tl, name), x)
    with mpmath.workprec(120):
        for value, result in zip(x, got, strict=True):
            want = EXACT[name](mpmath.mpf(float(value)))
            spacing = float(np.spacing(np.abs(np.asarray(float(want), dtype))))
            assert abs(mpmath.mpf(float(result)) - want) <= ulp * spacing


def test_rounding_functions_and_tests_are_numpys() -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.nan, np.inf, 1e9], "f4")
    for name, want in {
        "floor": np.floor,
        "ceil": np.ceil,
        "round": np.rint,
        "trunc": np.trunc,
        "isnan": np.isnan,
        "isinf": np.isinf,
    }.items():
        np.testing.assert_array_equal(mapped(getattr(tl, name), x), want(x))


def test_atan2_is_cs_in_every_quadrant() -> None:
    ends = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -np.inf, np.inf, np.nan, 5e-324, -1e308])
    y, x = (grid.ravel() for grid in np.meshgrid(ends, ends))
    got = mapped(tl.atan2, y, x)
    want = np.array([math.atan2(b, a) for b, a in zip(y, x, strict=True)])
    np.testing.assert_allclose(got, want, rtol=3e-16)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("of", ["int8", "uint16", "int64", "float16", "float32", "float64"])
def test_sign_is_numpys(of: str) -> None:
    x = np.array([0, 1, 3, 100], of)
    x = np.concatenate([x, -x]) if not of.startswith("u") else x
    x = np.concatenate([x, np.array([np.nan, np.inf, -np.inf], of)]) if of.startswith("f") else x
    np.testing.assert_array_equal(mapped(tl.sign, x), np.sign(x))


def test_minimum_keeps_nan_and_fmin_drops_it() -> None:
    a, b = np.array([np.nan, 1, np.nan, 2], "f4"), np.array([1, np.nan, np.nan, 3], "f4")
    for name, want in (("minimum", np.minimum), ("maximum", np.maximum), ("fmin", np.fmin), ("fmax", np.fmax)):
        np.testing.assert_array_equal(mapped(getattr(tl, name), a, b), want(a, b))


def test_pow_is_cs() -> None:
    a, b = np.array([2, 0, -8, 1, np.nan, -2], "f4"), np.array([0.5, 0, 1 / 3, np.nan, 0, 3], "f4")
    np.testing.assert_array_equal(mapped(tl.pow, a, b), np.array([math.sqrt(2), 1, np.nan, 1, 1, -8], "f4"))
    x = tl.placeholder((4,), name="x")
    root = tl.compute((4,), lambda i: tl.pow(x[i], 0.5), name="root")
    found = tl.evaluate(root, {x: np.array([-np.inf, -0.0, 4, np.inf], "f4")})
    np.testing.assert_array_equal(found, [math.pow(value, 0.5) for value in (-math.inf, -0.0, 4, math.inf)])
    assert not np.signbit(found).any()


# Reading


def test_an_unchosen_read_is_never_made() -> None:
    X, I = tl.placeholder((4,), name="X"), tl.placeholder((6,), "int64", name="I")
    Y = tl.compute((6,), lambda i: tl.select((I[i] >= 0) & (I[i] < 4), X[I[i]], -1.0), name="Y")
    x, index = np.arange(4, dtype="f4"), np.array([0, 3, 4, -1, 2**62, -(2**62)])
    np.testing.assert_array_equal(tl.evaluate(Y, {X: x, I: index}), [0, 3, -1, -1, -1, -1])


def test_a_masked_read_of_an_empty_tensor_is_fine() -> None:
    n = tl.dim("n")
    X = tl.placeholder((n,), name="X")
    Y = tl.compute((3,), lambda i: tl.select(i < n, X[i], 7.0), name="Y")
    np.testing.assert_array_equal(tl.evaluate(Y, {X: np.zeros(0, "f4")}), [7, 7, 7])
    np.testing.assert_array_equal(tl.evaluate(Y, {X: np.ones(2, "f4")}), [1, 1, 7])


def test_selects_nest_with_their_conditions() -> None:
    X = tl.placeholder((4,), name="X")
    Y = tl.compute((6,), lambda i: tl.select(i > 0, tl.select(i <= 4, X[i - 1], 9.0), 8.0), name="Y")
    np.testing.assert_array_equal(tl.evaluate(Y, {X: np.arange(4, dtype="f4")}), [8, 0, 1, 2, 3, 9])


def test_a_restricted_reduction_reads_only_where_it_holds() -> None:
    X = tl.placeholder((5,), name="X")
    k = tl.reduce_axis((-2, 3), name="k")
    Y = tl.compute((5,), lambda i: tl.sum(X[i + k], axis=k, where=(i + k >= 0) & (i + k < 5)), name="Y")
    x = rng.random(5).astype("f4")
    np.testing.assert_allclose(tl.evaluate(Y, {X: x}), np.convolve(x, np.ones(5), "same"), rtol=1e-6)


def test_a_definition_is_evaluated_without_recursion_limits() -> None:
    X = tl.placeholder((2,), name="X")

    def body(i: Any) -> Any:
        value = X[i]
        for _ in range(245):
            value = value + 1.0
        return value

    np.testing.assert_array_equal(tl.evaluate(tl.compute((2,), body, name="Y"), {X: np.zeros(2, "f4")}), [245, 245])
