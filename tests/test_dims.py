"""A dim with bounds: proofs rely on them, calls are held to them, and they go wherever the definition goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.definition.tensor import operands
from tensorlang.serialization.canonical import describe, family, fingerprint
from tensorlang.serialization.rebuild import rebuild


def around(n: Any) -> tl.Tensor:
    """Reads `A[i % n]` and `A[n - 1]`: there has to be an element."""
    A = tl.placeholder((n,), name="A")
    return tl.compute((n,), lambda i: A[i % n] + A[n - 1], name="B")  # type: ignore[no-any-return]


def test_a_least_value_proves_that_there_is_an_element() -> None:
    B = around(tl.dim("n", 1))
    a = np.arange(5, dtype="f4")
    np.testing.assert_array_equal(tl.build(B)(a), a + 4)
    A = tl.placeholder((tl.dim("n"),), name="A")
    with pytest.raises(tl.DefinitionError, match=r"at n = 0, axis 0 is read at -1; .* bound the dim, as in tl.dim\('n', least, most\)"):
        tl.compute((1,), lambda i: A[A.shape[0] - 1], name="B")


def test_a_greatest_value_proves_that_a_table_is_large_enough() -> None:
    T = tl.placeholder((64,), name="T")
    Y = tl.compute((tl.dim("n", 0, 64),), lambda i: T[i], name="Y")
    np.testing.assert_array_equal(tl.build(Y)(np.arange(64, dtype="f4"), n=3), [0, 1, 2])
    with pytest.raises(tl.DefinitionError, match="at i = 64, n = 65, axis 0 is read at 64"):
        tl.compute((tl.dim("n", 0, 65),), lambda i: T[i], name="Y")


@pytest.mark.parametrize("size", [0, 65, 1000])
def test_a_call_outside_the_bounds_is_refused_by_every_way_in(size: int, tmp_path: Path) -> None:
    B = around(tl.dim("n", 1, 64))
    (A,) = operands(B.definition)
    a, kernel = np.zeros(size, "f4"), tl.build(B)
    kernel.save(tmp_path / "kernel.tlk")
    calls = [
        lambda: kernel(a),
        lambda: kernel(A=a, out=np.zeros(size, "f4")),
        lambda: kernel.bind(a, out=np.zeros(size, "f4")),
        lambda: tl.load(tmp_path / "kernel.tlk")(a),
        lambda: kernel.report(n=size),
        lambda: tl.evaluate(B, {A: a}),
    ]
    for call in calls:
        with pytest.raises(tl.CallError, match=f"the dim n is from 1 to 64, and not {size}"):
            call()


def test_a_dim_that_is_passed_by_name_is_held_to_its_bounds() -> None:
    k = tl.reduce_axis(tl.dim("n", 2), name="k")
    Y = tl.compute((3,), lambda i: tl.sum(tl.cast(i + k, "float32"), axis=k), name="Y")
    np.testing.assert_array_equal(tl.build(Y)(n=2), [1, 3, 5])
    for call in (lambda: tl.build(Y)(n=1), lambda: tl.evaluate(Y, {}, n=1)):
        with pytest.raises(tl.CallError, match="the dim n is at least 2, and not 1"):
            call()


@pytest.mark.parametrize("bounds", [(-1,), (5, 4), (0, 1 << 49), (1.5,), (True,), ("1",), (None, 3)])
def test_bounds_are_ints_in_order(bounds: Any) -> None:
    with pytest.raises(tl.DefinitionError, match="dim n"):
        tl.dim("n", *bounds)


@pytest.mark.parametrize("word", ["in", "None", "lambda", "inf", "nan"])
def test_a_word_of_the_notations_is_no_dim(word: str) -> None:
    with pytest.raises(tl.DefinitionError, match=f"'{word}' cannot name a dim: .* call it {word}_, say"):
        tl.dim(word)


def test_one_name_has_one_pair_of_bounds() -> None:
    message = r"the dim n is given two pairs of bounds, tl.dim\('n', 1\) and tl.dim\('n', 1, 64\); equal names are the same dim"
    A = tl.placeholder((tl.dim("n", 1),), name="A")
    with pytest.raises(tl.DefinitionError, match=message):
        tl.compute((2,), lambda i: A[0] + tl.cast(tl.dim("n", 1, 64).as_expr(), "float32"))
    B = tl.compute(A.shape, lambda i: A[i] + 1, name="B")
    C = tl.compute((tl.dim("n", 1, 64),), lambda i: i, name="C")
    with pytest.raises(tl.DefinitionError, match=message):
        tl.build((B, C))
    assert tl.compute((tl.dim("n", 1),), lambda i: A[i]).shape == A.shape


def test_bounds_are_part_of_a_description_and_of_a_key() -> None:
    keys = {fingerprint(around(dim)) for dim in (tl.dim("n", 1), tl.dim("n", 2), tl.dim("n", 1, 64), tl.dim("n", 1, 65))}
    assert len(keys) == 4
    assert fingerprint(around(tl.dim("m", 1, 64))) == fingerprint(around(tl.dim("n", 1, 64)))
    assert family(around(tl.dim("m", 1, 64))) != family(around(tl.dim("m", 1)))
    B = around(tl.dim("n", 1, 64))
    document = json.loads(json.dumps(describe(B)))
    assert describe(rebuild(document)) == document
    assert ["dim", "n"] in describe(tl.compute((tl.dim("n"),), lambda i: i))["definitions"][0]["shape"]


@pytest.mark.parametrize(
    "entry", [["dim", "n", 1], ["dim", "n", 5, 4], ["dim", "n", -1, 4], ["dim", "n", "1", 4], ["dim", "n", 1, 1 << 60]]
)
def test_a_description_with_odd_bounds_is_refused(entry: list[Any]) -> None:
    document = describe(tl.compute((tl.dim("n"),), lambda i: i))
    document["definitions"][0]["shape"] = [entry]
    with pytest.raises(tl.DefinitionError):
        rebuild(document)


def test_a_product_of_dims_that_is_no_extent_is_refused(tmp_path: Path) -> None:
    """2**64 + 2 = 77158673929 * 239075442 would be taken for 2."""
    n, m = tl.dim("n"), tl.dim("m")
    T = tl.compute((n * m,), lambda i: tl.cast(i, "float32"), name="T")
    k = tl.reduce_axis(n, name="k")
    Y = tl.compute((1,), lambda o: tl.sum(T[k * m], axis=k, where=(m > 0) & (k < 2)), name="Y")
    kernel = tl.build(Y)
    np.testing.assert_array_equal(kernel(n=3, m=5), [5])
    kernel.save(tmp_path / "kernel.tlk")
    for called in (kernel, tl.load(tmp_path / "kernel.tlk")):
        with pytest.raises(tl.CallError, match=r"the extent n \* m is 18446744073709551618; extents are at most 2\*\*48"):
            called(n=77158673929, m=239075442)


def test_a_product_inside_an_extent_is_no_more_than_an_extent_can_be() -> None:
    """It is known not to wrap, so that n * n // 4 is at least 1; 211106232532992 squared would be taken for 0."""
    n = tl.dim("n", 2)
    X = tl.placeholder((n * n // 4,), name="X")
    R = tl.compute((n,), lambda i: X[tl.minimum(i, n * n // 4 - 1)], name="R")
    np.testing.assert_array_equal(tl.build(R)(np.arange(6, dtype="f4"), n=5), [0, 1, 2, 3, 4])
    with pytest.raises(tl.CallError, match="expected shape"):
        tl.build(R)(np.zeros(0, dtype="f4"), n=211106232532992)


def test_bounds_are_printed() -> None:
    s = tl.Schedule(around(tl.dim("n", 1, 64)))
    assert str(s).splitlines()[0] == "B(A: float32[n]) -> B: float32[n], 1 <= n <= 64"


def test_schedules_keep_to_the_bounds() -> None:
    """A dim of at least a vector needs no guard against less; a version for one extent has that extent."""
    n = tl.dim("n", 8, 64)
    A = tl.placeholder((n,), name="A")
    B = tl.compute((n,), lambda i: A[(i + 1) % n] * 2, name="B")
    s = tl.Schedule(B)
    s.split("i", 8, tail="shift")
    s.specialize("n == 64")
    for size in (8, 9, 63, 64):
        a = np.arange(size, dtype="f4")
        np.testing.assert_array_equal(tl.build(s)(a), np.roll(a, -1) * 2)


def test_an_extent_tells_its_dims_and_what_it_is_at_their_sizes() -> None:
    n, m = tl.dim("n", 1, 64), tl.dim("m")
    extent = (n * 3 + m) // 2
    assert list(extent.dims) == ["n", "m"] and extent.dims["n"] == (1, 64)
    assert extent.at(n=5, m=2) == (5 * 3 + 2) // 2
    with pytest.raises(tl.DefinitionError, match="is known where m is given"):
        extent.at(n=5)


@pytest.mark.parametrize("size", [1, 4])
def test_an_extent_is_compared_with_an_index_from_either_side(size: int) -> None:
    n = tl.dim("n")
    x, k = tl.placeholder((n,), "int32", name="X"), tl.reduce_axis(n, name="k")
    left = tl.compute((n,), lambda i: tl.select(n - 1 == i, -1, x[i]), name="left")
    right = tl.compute((n,), lambda i: tl.select(i == n - 1, -1, x[i]), name="right")
    but = tl.compute((), lambda: tl.sum(x[k], axis=k, where=n - 1 != k), name="but")
    values = np.arange(10, 10 + size, dtype="int32")
    want = np.where(np.arange(size) == size - 1, -1, values)
    assert np.array_equal(tl.build(left)(values), want)
    assert np.array_equal(tl.build(right)(values), want)
    assert tl.build(but)(values) == values[:-1].sum()
    assert n == tl.dim("n")
    assert (n == 4) is False
    assert tl.build(tl.compute((n,), lambda i: tl.select(n.as_expr() == size, x[i], 0), name="of"))(values).tolist() == values.tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_dim_beside_floats_is_the_literal_that_it_stands_for(dtype: str) -> None:
    """`sum / n` is what it is of a literal `n`; a dim beside integers is one of 64 bits, and with a literal alone no float."""

    def centred(n: Any) -> Any:
        x, k = tl.placeholder((n,), dtype, name="x"), tl.reduce_axis(n, name="k")
        mean = tl.compute((), lambda: tl.sum(x[k], axis=k) / n, name="mean")
        return tl.compute((n,), lambda i: tl.select(i > n // 2, x[i] - mean[()], tl.minimum(x[i], 2 * n - 1)) * n, name="y")

    x = np.linspace(-3, 40, 9).astype(dtype)
    of_dim, of_literal = centred(tl.dim("n", 1)), centred(9)
    assert of_dim.dtype == of_literal.dtype == dtype
    np.testing.assert_array_equal(tl.build(of_dim)(x), tl.build(of_literal)(x))
    n = tl.dim("n")
    i = tl.placeholder((n,), "int32", name="i")
    assert tl.compute((n,), lambda k: i[k] * n, name="y").dtype == "int64"
    with pytest.raises(tl.DefinitionError, match="the kinds differ; convert one side, for example tl.cast"):
        tl.compute((n,), lambda k: i[k] * (0.5 * n), name="y")
    with pytest.raises(tl.DefinitionError, match="the kinds differ"):
        tl.compute((n,), lambda k: tl.cast(i[k], dtype) * (k + n), name="y")
