"""`tl.reducer` makes associative, commutative combinations of one or several values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import tensorlang as tl
from tests.agreement import agree

rng = np.random.default_rng(9)


def welford() -> Any:
    def combine(a: Any, b: Any) -> Any:
        count = a[0] + b[0]
        share = tl.select(count > 0, b[0] / tl.maximum(count, 1.0), 0.0)
        apart = b[1] - a[1]
        return count, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share

    return tl.reducer(combine, (0.0, 0.0, 0.0), "welford")


def online_softmax() -> Any:
    """The greatest value, and the sum of exponentials relative to it."""

    def combine(a: Any, b: Any) -> Any:
        top = tl.maximum(a[0], b[0])

        def scaled(part: Any) -> Any:
            return tl.select(part[1] == 0.0, 0.0, part[1] * tl.exp(part[0] - top))

        return top, scaled(a) + scaled(b)

    return tl.reducer(combine, (-np.inf, 0.0), "online_softmax")


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-4), ("float64", 1e-12)])
def test_welford_is_mean_and_variance_in_one_stage(dtype: str, rtol: float) -> None:
    X = tl.placeholder((4, 37), dtype, name="X")
    k = tl.reduce_axis(37, name="k")
    one, zero = tl.cast(1.0, dtype), tl.cast(0.0, dtype)
    W = tl.compute((4,), lambda i: welford()((one, X[i, k], zero), axis=k), name="W")
    x = rng.random((4, 37)).astype(dtype)
    count, mean, rest = W
    agree((count, mean, rest), {X: x}, (np.full(4, 37, dtype), x.mean(1), x.var(1) * 37), rtol=rtol)
    assert tl.Schedule(W).stages() == ("W.init", "W")


def test_components_of_one_reduction_share_its_stage() -> None:
    X = tl.placeholder((4, 37), "float64", name="X")
    k = tl.reduce_axis(37, name="k")

    def body(i: Any) -> Any:
        count, _, rest = welford()((tl.cast(1.0, "float64"), X[i, k], tl.cast(0.0, "float64")), axis=k)
        return rest / count

    V = tl.compute((4,), body, name="V")
    x = rng.random((4, 37))
    agree(V, {X: x}, x.var(1))
    assert tl.Schedule(V).stages() == ("V.1.init", "V.1", "V")


def test_online_softmax_reads_its_row_once() -> None:
    X = tl.placeholder((5, 19), "float64", name="X")
    k = tl.reduce_axis(19, name="k")
    top, total = tl.compute((5,), lambda i: online_softmax()((X[i, k], tl.cast(1.0, "float64")), axis=k), name="m")
    Y = tl.compute((5, 19), lambda i, j: tl.exp(X[i, j] - top[i]) / total[i], name="Y")
    x = rng.standard_normal((5, 19)) * 30
    agree(Y, {X: x}, special.softmax(x, axis=1), rtol=1e-10)


def test_a_custom_reduction_runs_in_vectors() -> None:
    X = tl.placeholder((64,), "float64", name="X")
    k = tl.reduce_axis(64, name="k")
    s = tl.Schedule(tl.compute((), lambda: online_softmax()((X[k], tl.cast(1.0, "float64")), axis=k), name="m"))
    s.vectorize(s.split("m.k", 8)[1])
    x = rng.standard_normal(64) * 5
    top, total = tl.build(s)(x)
    np.testing.assert_allclose(top + np.log(total), special.logsumexp(x))


def test_a_reducer_of_one_value_is_a_plain_function() -> None:
    X = tl.placeholder((4, 9), "int32", name="X")
    k = tl.reduce_axis(9, name="k")
    xor = tl.reducer(lambda a, b: a ^ b, 0, "xor")
    Y = tl.compute((4,), lambda i: xor(X[i, k] * 3, axis=k, where=k != 2) + 1, name="Y")
    x = rng.integers(0, 99, (4, 9)).astype("int32")
    agree(Y, {X: x}, np.bitwise_xor.reduce(np.delete(x, 2, 1) * 3, axis=1) + 1)


def test_an_arg_reduction_of_ones_own() -> None:
    def nearest(a: Any, b: Any) -> Any:
        first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] <= b[1]))
        return tl.select(first, a[0], b[0]), tl.select(first, a[1], b[1])

    X = tl.placeholder((6, 11), "float64", name="X")
    k = tl.reduce_axis(11, name="k")
    best = tl.reducer(nearest, (np.inf, tl.cast(1 << 40, "int64")), "nearest")
    d, at = tl.compute((6,), lambda i: best((tl.abs(X[i, k] - 0.5), k), axis=k), name="N")
    x = rng.random((6, 11))
    agree((d, at), {X: x}, (np.abs(x - 0.5).min(1), np.abs(x - 0.5).argmin(1)))


@pytest.mark.parametrize(
    ("combine", "identity", "law"),
    [
        (lambda a, b: a - b, 0, r"combine\(identity, a\) == a fails at a ="),
        (lambda a, b: a * b, 0, r"combine\(identity, a\) == a fails at a ="),
        (lambda a, b: a + b, 1, r"combine\(identity, identity\) == identity fails at a = 1"),
        (lambda a, b: tl.select(a == 0, b, tl.select(b == 0, a, a - b)), 0, r"combine\(a, b\) == combine\(b, a\) fails at a ="),
        (lambda a, b: a + b + a * b * 0.5 * (a - b) * (a - b), 0.0, r"combine\(combine\(a, b\), c\)"),
    ],
)
def test_a_broken_law_is_refused_with_an_example(combine: Any, identity: Any, law: str) -> None:
    X = tl.placeholder((9,), "float64", name="X")
    with pytest.raises(tl.DefinitionError, match=law):
        tl.reducer(combine, identity, "odd")(X[0], axis=tl.reduce_axis(9))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda X, k: tl.reducer(lambda a, b: a + b, X[0], "r"), "identity of reducer r"),
        (lambda X, k: tl.reducer(3, 0, "r"), "must be a function"),  # type: ignore[arg-type]
        (lambda X, k: tl.reducer(lambda a, b: a + b, 0, "r s"), "cannot name a reducer"),
        (lambda X, k: tl.reducer(lambda a, b: a, (0, 0), "r")((X[k],), axis=k), "takes 2 values"),
        (lambda X, k: tl.reducer(lambda a, b: (a[0],), (0, 0), "r")((X[k], X[k]), axis=k), "states of 2 parts into 1"),
        (lambda X, k: tl.reducer(lambda a, b: a + b, tl.cast(0, "int32"), "r")(X[k], axis=k), "kinds differ"),
        (lambda X, k: tl.reducer(lambda a, b: a + b, tl.cast(0, "float32"), "r")(X[k], axis=k), "states of float32"),
        (lambda X, k: tl.reducer(lambda a, b: a + b, 0, "r")(X[k], axis=3), "reduction axes"),
    ],
)
def test_misuse_is_a_definition_error(make: Any, message: str) -> None:
    X = tl.placeholder((9,), "float64", name="X")
    with pytest.raises(tl.DefinitionError, match=message):
        make(X, tl.reduce_axis(9, name="k"))


@pytest.mark.parametrize(
    ("combine", "identity", "dtype", "law"),
    [
        (lambda a, b: tl.maximum(tl.abs(a), tl.abs(b)), 0, "float32", r"combine\(identity, a\) == a fails at a = -"),
        (lambda a, b: tl.maximum(tl.abs(a), tl.abs(b)), 0, "int8", r"combine\(identity, a\) == a fails at a = -"),
        (tl.maximum, 0, "int32", r"combine\(identity, a\) == a fails at a = -"),
        (tl.minimum, 100, "uint8", r"combine\(identity, a\) == a fails at a = 2"),
        (lambda a, b: tl.minimum(a + b, 50), 0, "float64", r"fails at a = "),
        (
            lambda a, b: tl.select((a < 0) & (b < 0), a + b + 1, a + b),
            0,
            "int32",
            r"combine\(combine\(a, b\), c\) .* fails at a = .*b = .*c = ",
        ),
        (lambda a, b: tl.select(a * b < 0, a - b, a + b), 0, "float16", r"combine\(a, b\) == combine\(b, a\) fails at a = .*b = "),
    ],
)
def test_a_law_that_only_holds_of_small_positive_values_is_refused_with_the_states(
    combine: Any, identity: Any, dtype: str, law: str
) -> None:
    X = tl.placeholder((9,), dtype, name="X")
    with pytest.raises(tl.DefinitionError, match=law):
        tl.reducer(combine, identity, "odd")(X[0], axis=tl.reduce_axis(9))


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32"]
)
def test_sound_reducers_pass_on_every_value_of_every_type(dtype: str) -> None:
    X = tl.placeholder((9,), dtype, name="X")
    k = tl.reduce_axis(9)
    tl.reducer(lambda a, b: a + b, 0, "plus")(X[k], axis=k)
    tl.reducer(lambda a, b: a * b, 1, "times")(X[k], axis=k)
    tl.reducer(lambda a, b: (a[0] + b[0], tl.maximum(a[1], b[1])), (0, tl.dtype(dtype).lowest), "both")((X[k], X[k]), axis=k)


def test_values_that_occur_may_be_named() -> None:
    X = tl.placeholder((9,), "float64", name="X")
    W = tl.placeholder((9,), "float64", name="W")
    k = tl.reduce_axis(9, name="k")

    def mean(a: Any, b: Any) -> Any:
        weight = a[1] + b[1]
        return tl.select(weight > 0, (a[0] * a[1] + b[0] * b[1]) / weight, 0.0), weight

    with pytest.raises(tl.DefinitionError, match="name the values that occur with samples="):
        tl.reducer(mean, (0.0, 0.0), "mean")((X[k], W[k]), axis=k)
    weighted = tl.reducer(mean, (0.0, 0.0), "mean", samples=(None, (0.5, 1, 7)))
    found = tl.compute((), lambda: weighted((X[k], W[k]), axis=k), name="M")
    x, w = rng.standard_normal(9), rng.random(9)
    agree(found, {X: x, W: w}, (np.array(np.average(x, weights=w)), np.array(w.sum())))
    for samples in ((1, 2), (None,), 3, ("a", None), ((), None), (None, (np.inf,))):
        with pytest.raises(tl.DefinitionError, match=r"samples of reducer mean must be 2 lists of numbers \(None for any\)"):
            tl.reducer(mean, (0.0, 0.0), "mean", samples=samples)


@pytest.mark.parametrize("of", ["float64", "float32", "float16"])
def test_numbers_among_the_values_take_the_type_of_the_others(of: str) -> None:
    X = tl.placeholder((40,), of, name="X")
    k = tl.reduce_axis(40, name="k")
    for one in (1, 1.0):
        stats = tl.compute((), lambda one=one: welford()((one, X[k], 0.0), axis=k), name="S")
        assert [part.dtype for part in stats] == [of] * 3
    wide = tl.compute((), lambda: welford()((1, tl.cast(X[k], "float64"), 0), axis=k), name="W")
    x = rng.random(40).astype(of)
    exact = x.astype("f8")
    agree(wide, {X: x}, (np.float64(40), exact.mean(), exact.var() * 40), rtol=1e-9)


def test_a_whole_number_beside_whole_values_stays_whole() -> None:
    X = tl.placeholder((9,), "int32", name="X")
    k = tl.reduce_axis(9, name="k")
    pair = tl.reducer(lambda a, b: (a[0] + b[0], tl.maximum(a[1], b[1])), (0, -(2**31)), "pair")
    count, most = tl.compute((), lambda: pair((1, X[k]), axis=k), name="P")
    assert (count.dtype, most.dtype) == ("int32", "int32")
    x = rng.integers(-50, 50, 9).astype("i4")
    agree((count, most), {X: x}, (np.int32(9), x.max()))


def test_what_nobody_reads_of_a_reducer_has_another_name_than_reductions_inside_of_its_operands() -> None:
    x = np.arange(15).reshape(5, 3) - 4
    X, k, q = tl.placeholder((5, 3), "int64", name="X"), tl.reduce_axis(5, name="k"), tl.reduce_axis(3, name="q")
    both = tl.reducer(lambda a, b: (a[0] + b[0], tl.maximum(a[1], b[1])), (0, -(2**63)), name="both")
    C = tl.compute((4,), lambda i: both((tl.sum(X[k, q], axis=q) * (i + 1), X[k, 0]), axis=k)[0], name="C")
    for kernel in (tl.build(C), tl.build(tl.Schedule(C))):
        np.testing.assert_array_equal(kernel(x), x.sum() * np.arange(1, 5))


@pytest.mark.parametrize(("lo", "hi"), [(-3, 4), (-7, 0), (-1, 6), (0, 7), (2, 9)])
@pytest.mark.parametrize("dtype", ["uint64", "int8", "float32"])
def test_places_below_zero_are_places(lo: int, hi: int, dtype: str) -> None:
    """-1 stands for none; the first of equals is the least value of the axis."""
    values = np.array([5, 5, 1, 7, 1, 1, 7], dtype)
    P, b = tl.placeholder((7,), dtype, name="P"), tl.placeholder((7,), "bool", name="b")
    where = np.array([False, True, False, False, True, True, False])
    for find, best in ((tl.argmin, np.argmin), (tl.argmax, np.argmax)):
        for kept in (np.ones(7, bool), where, np.zeros(7, bool)):
            k = tl.reduce_axis((lo, hi), name="k")
            A = tl.compute((2,), lambda i, k=k, find=find: find(P[k - lo], axis=k, where=b[k - lo]), name="A")
            places = np.flatnonzero(kept)
            wanted = lo + places[best(values[places])] if len(places) else -1
            feeds = {P: values, b: kept}
            np.testing.assert_array_equal(tl.evaluate(A, feeds), [wanted] * 2)
            for kernel in (tl.build(A, inputs=[P, b]), tl.build(tl.Schedule(A), inputs=[P, b])):
                np.testing.assert_array_equal(kernel(values, kept), [wanted] * 2)


def test_a_combine_of_other_than_two_states_is_refused() -> None:
    """It was a `TypeError` of Python's, when the reducer was first used."""
    combines: tuple[Any, ...] = (lambda a: a, lambda a, b, c: a)
    for combine in combines:
        with pytest.raises(tl.DefinitionError, match="combine of reducer d must take two states, as in lambda a, b: a \\+ b"):
            tl.reducer(combine, 0.0, name="d")
    either: Any = tl.reducer(lambda a, b, *others: a + b, 0.0, name="d")
    assert either.name == "d"
