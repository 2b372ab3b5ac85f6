"""Every kind of index that is proved to stay inside gives what NumPy gives: evaluated, built unscheduled, and built by default."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.thinned import crossed

rng = np.random.default_rng(6)
SIZE = 16
DATA: dict[str, Any] = {
    of: rng.integers(np.iinfo(of).min, np.iinfo(of).max, SIZE, of, endpoint=True)
    for of in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
DATA["float32"] = rng.choice(np.array([-np.inf, -3.5, 0.0, 0.7, 3.2, 14.99, 15.0, 15.5, 1e30, np.inf, np.nan], "f4"), SIZE)
SMALL = rng.integers(-4, 20, SIZE)
X = {of: tl.placeholder((SIZE,), of, name=f"X_{of}") for of in DATA}
S = tl.placeholder((SIZE,), "int64", name="S")
I = np.arange(SIZE)


def table(size: int) -> tl.Tensor:
    return tl.placeholder((size,), name="T")


def whole(values: Any) -> Any:
    """What a cast to an integer type makes of floating-point values."""
    return np.where(np.isnan(values), 0, np.clip(np.trunc(values), -(2.0**62), 2.0**62)).astype(np.int64)


def axis() -> Any:
    return tl.reduce_axis(SIZE, name="k")


Row = tuple[int, Callable[[Any], Any], Any]
# entries of the table, the index over an axis i of SIZE, what it is
ROWS: dict[str, Row] = {
    "xor": (SIZE, lambda i: i ^ 1, I ^ 1),
    "and": (4, lambda i: i & 3, I & 3),
    "and of the higher bits": (13, lambda i: i & ~3, I & ~3),
    "or": (SIZE, lambda i: i | 1, I | 1),
    "not": (SIZE, lambda i: ~i + SIZE, SIZE - 1 - I),
    "shift right": (8, lambda i: i >> 1, I >> 1),
    "shift left": (1 << 15 | 1, lambda i: 1 << i, 1 << I),
    "interleaved bits": (SIZE, lambda i: ((i & 1) << 3) | (i >> 1), (I & 1) << 3 | I >> 1),
    "magnitude": (9, lambda i: tl.abs(i - 7), abs(I - 7)),
    "square": (226, lambda i: i * i, I * I),
    "square and mask": (5, lambda i: (i * i) & 7, I * I & 7),
    "mask of data": (256, lambda i: X["int64"][i] & 255, DATA["int64"] & 255),
    "mask of narrow data": (8, lambda i: X["int8"][i] & 7, DATA["int8"] & 7),
    "shift of data": (256, lambda i: X["uint16"][i] >> 8, DATA["uint16"] >> 8),
    "signed shift of data": (SIZE, lambda i: (X["int16"][i] >> 12) + 8, (DATA["int16"] >> 12) + 8),
    "data of a narrow type": (256, lambda i: X["uint8"][i], DATA["uint8"]),
    "shifted data of a narrow type": (256, lambda i: tl.cast(X["int8"][i], "int32") + 128, DATA["int8"].astype(int) + 128),
    "narrowing cast": (256, lambda i: tl.cast(X["int32"][i], "uint8"), DATA["int32"].astype("u1")),
    "remainder of data": (10, lambda i: X["int32"][i] % 10, DATA["int32"] % 10),
    "quotient of data": (52, lambda i: X["uint8"][i] // 5, DATA["uint8"] // 5),
    "saturating cast": (256, lambda i: tl.cast(X["float32"][i], "uint8"), np.clip(whole(DATA["float32"]), 0, 255)),
    "clamp of floating point": (SIZE, lambda i: tl.cast(tl.clamp(X["float32"][i], 0, 15), "int64"), np.clip(whole(DATA["float32"]), 0, 15)),
    "comparison": (2, lambda i: tl.cast(X["float32"][i] > 1.0, "int64"), (DATA["float32"] > 1).astype(int)),
    "clamp": (SIZE, lambda i: tl.clamp(S[i], 0, SIZE - 1), np.clip(SMALL, 0, SIZE - 1)),
    "chain of extrema": (5, lambda i: tl.minimum(tl.maximum(tl.minimum(S[i], 9), 2), 4), np.clip(np.minimum(SMALL, 9), 2, 4)),
    "choice": (SIZE, lambda i: tl.select(S[i] > 15, 3, tl.select(S[i] < 0, 7, S[i])),
               np.where(SMALL > 15, 3, np.where(SMALL < 0, 7, SMALL))),
    "argmax": (SIZE, lambda i: tl.argmax(X["int16"][(k := axis())] ^ tl.cast(i, "int16"), axis=k),
               [(DATA["int16"] ^ np.int16(n)).argmax() for n in I]),
    "most": (256, lambda i: tl.max(X["uint8"][(k := axis())], axis=k), np.full(SIZE, DATA["uint8"].max())),
    "count": (SIZE + 1, lambda i: tl.sum(tl.cast(S[(k := axis())] < S[i], "int64"), axis=k), [(value > SMALL).sum() for value in SMALL]),
    "any": (2, lambda i: tl.cast(tl.any(S[(k := axis())] == i, axis=k), "int64"), np.isin(I, SMALL).astype(int)),
    "argmin of nothing": (SIZE + 1, lambda i: tl.argmin(S[(k := axis())], axis=k, where=S[k] > i) + 1,
                          [1 + (np.where(n < SMALL, SMALL, 99).argmin() if (n < SMALL).any() else -1) for n in I]),
}  # fmt: skip


def results(outputs: tl.Tensor, feeds: dict[tl.Tensor, Any], **dims: int) -> list[Any]:
    """By the evaluator, by the kernel of the unscheduled nest, and by the default kernel."""
    inputs = list(feeds)
    kernels = [tl.build(what, inputs=inputs) for what in (tl.Schedule(outputs), outputs)]
    return [tl.evaluate(outputs, feeds, **dims), *(kernel(*feeds.values(), **dims) for kernel in kernels)]


def operands(outputs: tl.Tensor, given: dict[tl.Tensor, Any]) -> dict[tl.Tensor, Any]:
    """Those that the outputs read."""
    from tensorlang.definition.tensor import definitions

    read = {id(definition) for definition in definitions((outputs,))}
    return {tensor: array for tensor, array in given.items() if id(tensor.definition) in read}


@crossed({"name": ROWS, "form": ["read", "where", "scatter"]})
def test_an_index_that_is_proved_inside_is_right(name: str, form: str) -> None:
    size, index, places = ROWS[name]
    T, t = table(size), rng.standard_normal(size).astype("f4")
    places = np.asarray(places, np.int64)
    given = {T: t, S: SMALL, **{X[of]: array for of, array in DATA.items()}}
    if form == "scatter":
        i = tl.reduce_axis(SIZE, name="i")
        Y = tl.scatter(T, i, lambda i: tl.cast(index(i), "int64"), lambda i: 1.0)
        expected = t + np.bincount(places, minlength=size).astype("f4")
    elif form == "where":
        k = tl.reduce_axis(SIZE, name="i")
        Y = tl.compute((1,), lambda o: tl.sum(T[index(k)], axis=k, where=S[k] > 0), name="Y")
        expected = np.array([t[places][SMALL > 0].sum()])
    else:
        Y = tl.compute((SIZE,), lambda i: T[index(i)], name="Y")
        expected = t[places]
    for found in results(Y, operands(Y, given)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_condition_on_the_same_data_protects_a_sum_with_it() -> None:
    T, t = table(SIZE), rng.standard_normal(SIZE).astype("f4")
    inside = (SMALL >= 1) & (SMALL < SIZE - 1)
    Y = tl.compute((SIZE,), lambda i: tl.select((S[i] >= 1) & (S[i] < SIZE - 1), T[S[i] + 1] - T[S[i] - 1], 0), name="Y")
    for found in results(Y, {T: t, S: SMALL}):
        np.testing.assert_allclose(found, np.where(inside, np.take(t, SMALL + 1, mode="clip") - np.take(t, SMALL - 1, mode="clip"), 0))
    R = X["float32"]
    Z = tl.compute((SIZE,), lambda i: tl.select((R[i] >= 0) & (R[i] < SIZE), T[tl.cast(R[i], "int64")], -1), name="Z")
    real = DATA["float32"]
    for found in results(Z, {T: t, R: real}):
        np.testing.assert_allclose(found, np.where((real >= 0) & (real < SIZE), t[np.clip(whole(real), 0, SIZE - 1)], -1))


@pytest.mark.parametrize("of", ["int32", "int64"])
def test_rows_of_a_sparse_matrix_are_read_between_their_pointers(of: str) -> None:
    rows, entries = tl.dim("rows"), tl.dim("entries")
    P = tl.placeholder((rows + 1,), of, name="P")
    V, C = tl.placeholder((entries,), name="V"), tl.placeholder((entries,), of, name="C")
    W = tl.placeholder((7,), name="W")
    j = tl.reduce_axis(6, name="j")

    def row(i: Any) -> Any:
        at = P[i] + tl.cast(j, of)
        inside = (at >= P[i]) & (at < P[i + 1]) & (at >= 0) & (at < tl.cast(entries.as_expr(), of))
        column = tl.select(inside, C[at], 0)
        return tl.sum(tl.select(inside & (column >= 0) & (column < 7), V[at] * W[column], 0), axis=j)

    Y = tl.compute((rows,), row, name="Y")
    pointers = np.array([0, 3, 3, 7, 9], of)
    values, columns, w = rng.standard_normal(9).astype("f4"), rng.integers(0, 7, 9).astype(of), rng.standard_normal(7).astype("f4")
    expected = [(values[a:b] * w[columns[a:b]]).sum() for a, b in itertools.pairwise(pointers)]
    for found in results(Y, {P: pointers, V: values, C: columns, W: w}):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(("mode", "least"), [("edge", 1), ("reflect", 3), ("symmetric", 2), ("wrap", 1), ("wrap", 2)])
def test_an_image_whose_extents_are_dims_is_padded(mode: str, least: int) -> None:
    H, W = tl.dim("H", least), tl.dim("W", least)
    A = tl.placeholder((H, W), name="A")
    P = tl.pad(A, ((1, 2), (2, 1)), mode=mode)
    for shape in ((least, least), (5, 8)):
        a = rng.standard_normal(shape).astype("f4")
        for found in results(P, {A: a}):
            np.testing.assert_array_equal(found, np.pad(a, ((1, 2), (2, 1)), mode=mode))  # type: ignore[call-overload]
    with pytest.raises(tl.DefinitionError, match=r"at .*H = .* is read at .*bound the dim, as in tl.dim\('H', least, most\)"):
        tl.pad(tl.placeholder((tl.dim("H"), tl.dim("W"))), ((1, 2), (2, 1)), mode=mode)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("extent", [1, 2, 3, 6])
def test_what_is_wider_than_the_axis_is_padded_as_often_as_it_takes(mode: str, extent: int) -> None:
    x = np.arange(extent, dtype="f4")
    X = tl.placeholder((extent,), name="X")
    for widths in ((8, 8), (0, 13), (7, 0), (extent, extent - 1)):
        P = tl.pad(X, (widths,), mode=mode)
        want = np.pad(x, (widths,), mode=mode)  # type: ignore[call-overload]
        np.testing.assert_array_equal(tl.evaluate(P, {X: x}), want)
        np.testing.assert_array_equal(tl.build(P)(x), want)


def test_a_tensor_of_dims_is_flattened_and_back() -> None:
    n, m = tl.dim("n"), tl.dim("m")
    A, B = tl.placeholder((n, m), name="A"), tl.placeholder((n * m,), name="B")
    flat = tl.compute((n * m,), lambda i: A[i // m, i % m], name="flat")
    back = tl.compute((n, m), lambda i, j: B[i * m + j], name="back")
    a = rng.standard_normal((3, 5)).astype("f4")
    for found in results(flat, {A: a}):
        np.testing.assert_array_equal(found, a.ravel())
    for found in results(back, {B: a.ravel()}, n=3, m=5):
        np.testing.assert_array_equal(found, a)
    assert tl.build(flat)(a[:, :0]).shape == (0,)


def test_a_remainder_by_an_extent_stays_below_it() -> None:
    n = tl.dim("n", 1)
    A = tl.placeholder((n,), name="A")
    Y = tl.compute((20,), lambda i: A[(7 * i + 3) % n] + A[i % n], name="Y")
    a = rng.standard_normal(6).astype("f4")
    for found in results(Y, {A: a}):
        np.testing.assert_allclose(found, a[(7 * np.arange(20) + 3) % 6] + a[np.arange(20) % 6])


@pytest.mark.parametrize(
    ("size", "index", "shown"),
    [
        (255, lambda i: i ^ 1, "at i = 254, axis 0 is read at 255"),
        (15, lambda i: X["uint8"][i] & 15, r"at i = \d+, X_uint8\[\d+\] = \d+, axis 0 is read at 15"),
        (SIZE, lambda i: S[i], r"at i = \d+, S\[\d+\] = -?\d+, axis 0 is read at -?\d+"),
        (SIZE, lambda i: tl.argmax(S[(k := axis())], axis=k, where=S[k] > 0), "for some data, axis 0 is read at -1"),
        (SIZE, lambda i: tl.cast(X["float32"][i], "int64"), r"X_float32\[\d+\] = .*, axis 0 is read at"),
    ],
)
def test_a_refusal_shows_the_data_that_lead_outside(size: int, index: Callable[[Any], Any], shown: str) -> None:
    with pytest.raises(tl.DefinitionError, match=shown):
        tl.compute((size if size == 255 else SIZE,), lambda i: table(size)[index(i)])


def test_data_at_the_end_of_the_widest_type_are_looked_at_too() -> None:
    U, T = X["uint64"], table(3)
    top = (1 << 64) - 3
    Y = tl.compute((SIZE,), lambda i: tl.select(U[i] >= tl.cast(top, "uint64"), T[tl.cast(U[i] - tl.cast(top, "uint64"), "int64")], 0))
    t, u = np.array([1, 2, 3], "f4"), DATA["uint64"].copy()
    u[:3] = [top, top + 1, top + 2]
    for found in results(Y, {T: t, U: u}):
        np.testing.assert_array_equal(found, [1, 2, 3, *[0] * (SIZE - 3)])
    with pytest.raises(tl.DefinitionError, match="X_uint64"):
        tl.compute((SIZE,), lambda i: tl.select(U[i] >= tl.cast(top - 1, "uint64"), T[tl.cast(~U[i] * U[i], "int64")], 0))


def test_the_position_in_an_empty_domain_is_outside() -> None:
    n = tl.dim("n")
    A, k = tl.placeholder((n,), name="A"), tl.reduce_axis(n, name="k")
    with pytest.raises(tl.DefinitionError, match="at n = 0, axis 0 is read at -1"):
        tl.compute((1,), lambda o: A[tl.argmax(A[k], axis=k)])
    m = tl.dim("m", 1)
    B, j = tl.placeholder((m,), name="B"), tl.reduce_axis(m, name="j")
    Y = tl.compute((1,), lambda o: B[tl.argmax(B[j], axis=j)], name="Y")
    b = rng.standard_normal(9).astype("f4")
    for found in results(Y, {B: b}):
        np.testing.assert_array_equal(found, [b.max()])


def test_a_recurrence_reads_earlier_elements_at_masked_and_shifted_places() -> None:
    """`heap[t] = x[t] + heap[t >> 1]`, whose parent comes earlier for every t but 0."""
    V = tl.placeholder((SIZE,), name="V")
    Y = tl.recurrence((SIZE,), lambda t, self: V[t] + tl.select(t > 0, self[t >> 1], 0), name="Y")
    v = rng.standard_normal(SIZE).astype("f4")
    expected = np.zeros(SIZE, "f4")
    for t in range(SIZE):
        expected[t] = v[t] + (expected[t >> 1] if t else 0)
    for found in results(Y, {V: v}):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(tl.DefinitionError, match=r"reads self\[t \^ 1\], which is .* while .* is computed"):
        tl.recurrence((SIZE,), lambda t, self: V[t] + self[t ^ 1])


def test_a_step_of_a_scan_reads_at_places_that_its_state_clamps() -> None:
    """A walk along a table: each state says where the next one is read."""
    T = tl.placeholder((SIZE,), "int64", name="T")
    start = tl.placeholder((3,), "int64", name="start")
    walk = tl.scan(lambda t, at: tl.compute((3,), lambda i: T[at[i] & 15] ^ t), start, 5, name="walk")
    table_, first = rng.integers(-99, 99, SIZE), np.array([1, -7, 1 << 40])
    expected: list[np.ndarray[Any, Any]] = []
    for step in range(5):
        first_or_last = expected[-1] if expected else first
        expected.append(table_[first_or_last & 15] ^ step)
    for found in results(walk, {T: table_, start: first}):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("of", ["float16", "float32", "float64"])
def test_what_is_left_behind_the_point_tells_a_place(of: str) -> None:
    """A table by the phase of a wave: from 0 to 1, which it is where less than its place is missing to the next number."""
    X, T = tl.placeholder((12,), of, name="X"), tl.placeholder((5,), name="T")
    y = tl.compute((12,), lambda i: T[tl.cast((X[i] - tl.floor(X[i])) * 4, "int32")], name="y")
    x = np.array([0.3, 1.5, -0.2, 7.99, -1e-7, -1e-30, 0.0, -3.0, 2.0**11, np.nan, np.inf, -np.inf], of)
    table = np.arange(5, dtype="f4")
    with np.errstate(invalid="ignore"):
        behind = (x - np.floor(x)) * x.dtype.type(4)
    places = np.where(np.isnan(behind), 0, behind).astype("i4")
    for found in results(y, {X: x, T: table}):
        np.testing.assert_array_equal(found, table[places])
    with pytest.raises(tl.DefinitionError):
        tl.compute((12,), lambda i: T[tl.cast((X[i] - tl.floor(X[i])) * 5, "int32")], name="z")
