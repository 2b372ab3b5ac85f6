"""Clamps that conditions decide are gone, all others stay, and either way every element is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl

N = 13


def summed(where: Any, index: Any) -> Any:
    """Sums of elements of a vector at an index of two axes, under a condition on them."""
    X, k = tl.placeholder((N,), name="X"), tl.reduce_axis(N, name="k")
    return tl.compute((N,), lambda i: tl.sum(X[index(i, k)], axis=k, where=where(i, k)), name="S")


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (lambda i, k: k < i, lambda i, k: tl.maximum(i - k - 1, 0)),
        (lambda i, k: i + k < N - 1, lambda i, k: tl.minimum(i + k + 1, N - 1)),
        (lambda i, k: (k < i) & (2 * i < N), lambda i, k: tl.clamp(i + k, 0, N - 1)),
        (lambda i, k: (i >= 2) & (k >= i), lambda i, k: tl.maximum(k - i, 0) + tl.minimum(i - 2, 0)),
    ],
)
def test_a_clamp_that_does_nothing_under_its_condition_is_gone(where: Any, index: Any) -> None:
    text = str(tl.Schedule(summed(where, index)))
    assert "minimum" not in text and "maximum" not in text


@pytest.mark.parametrize(
    ("where", "index"),
    [
        (lambda i, k: k <= i + 1, lambda i, k: tl.maximum(i - k, 0)),
        (lambda i, k: k < i, lambda i, k: tl.minimum(i + k, N - 1)),
    ],
)
def test_a_clamp_that_may_do_something_stays(where: Any, index: Any) -> None:
    text = str(tl.Schedule(summed(where, index)))
    assert "minimum" in text or "maximum" in text


FORMS = st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(-N, N))


@given(FORMS, FORMS, st.integers(0, N - 1), st.booleans())
def test_every_element_is_what_the_clamped_index_reads(condition: Any, read: Any, end: int, low: bool) -> None:
    def form(part: tuple[int, int, int], i: Any, k: Any) -> Any:
        return part[0] * i + part[1] * k + part[2]

    def index(i: Any, k: Any) -> Any:
        inner = tl.maximum(form(read, i, k), end) if low else tl.minimum(form(read, i, k), end)
        return tl.clamp(inner, 0, N - 1)

    x = np.arange(1, N + 1, dtype=np.float32)
    found = tl.build(summed(lambda i, k: form(condition, i, k) < 0, index))(x)
    wanted = np.zeros(N, np.float32)
    for i in range(N):
        for k in range(N):
            if form(condition, i, k) < 0:
                at = max(form(read, i, k), end) if low else min(form(read, i, k), end)
                wanted[i] += x[min(max(at, 0), N - 1)]
    np.testing.assert_array_equal(found, wanted)


def test_a_scatter_reads_without_the_clamps_that_its_condition_decides() -> None:
    X, i = tl.placeholder((N,), name="X"), tl.reduce_axis(N, name="i")
    zeros = tl.compute((N,), lambda _: 0.0, name="Z")
    text = str(tl.Schedule(tl.scatter(zeros, i, lambda at: at, lambda at: X[tl.maximum(at - 1, 0)], where=lambda at: at >= 1)))
    assert "maximum" not in text


def chosen(value: Any) -> Any:
    """Elements of a definition over two vectors of N elements."""
    X, Y = tl.placeholder((N,), name="X"), tl.placeholder((N,), name="Y")
    return tl.compute((2 * N,), lambda j: value(X, Y, j), name="Z")


@pytest.mark.parametrize(
    "value",
    [
        lambda X, Y, j: tl.select(j < N, X[tl.minimum(j, N - 1)], Y[tl.maximum(j - N, 0)]),
        lambda X, Y, j: tl.select((j >= 3) & (j < N + 3), X[tl.clamp(j - 3, 0, N - 1)], 0.0) + Y[j // 2],
        lambda X, Y, j: tl.select(j >= 2, tl.select(j < N + 2, X[tl.clamp(j - 2, 0, N - 1)], 1.0), 0.0),
        lambda X, Y, j: tl.select((j < 4) | (j >= N + 4), 2.0, Y[tl.clamp(j - 4, 0, N - 1)]),
        lambda X, Y, j: X[j // 2] * tl.select(j % 2 == 0, tl.select(j < N, Y[tl.minimum(j, N - 1)], 0.0), 1.0),
    ],
)
def test_a_clamp_that_does_nothing_on_its_side_of_a_choice_is_gone(value: Any) -> None:
    text = str(tl.Schedule(chosen(value)))
    assert "minimum" not in text and "maximum" not in text


@pytest.mark.parametrize(
    "value",
    [
        lambda X, Y, j: tl.select(j <= N, X[tl.minimum(j, N - 1)], 0.0),
        lambda X, Y, j: tl.select(Y[j // 2] > 0, X[tl.minimum(j, N - 1)], 0.0),
        lambda X, Y, j: tl.minimum(tl.select(j < N, X[j // 2], 0.0), Y[tl.minimum(j, N - 1)]),
    ],
)
def test_a_clamp_that_may_do_something_on_its_side_stays(value: Any) -> None:
    assert "minimum(j" in str(tl.Schedule(chosen(value)))


@given(FORMS, FORMS, FORMS, st.sampled_from("<>=!"), st.booleans())
def test_every_element_is_what_the_chosen_side_reads(condition: Any, read: Any, other: Any, op: str, nested: bool) -> None:
    """Choices by any comparison, also inside one another, of clamped reads."""
    compare = {"<": lambda a: a < 0, ">": lambda a: a >= 0, "=": lambda a: a == 0, "!": lambda a: a != 0}[op]

    def form(part: tuple[int, int, int], i: Any, k: Any) -> Any:
        return part[0] * i + part[1] * k + part[2]

    X = tl.placeholder((N,), name="X")

    def element(i: Any, k: Any) -> Any:
        first, second = (X[tl.clamp(form(part, i, k), 0, N - 1)] for part in (read, other))
        inner = tl.select(i < k, first, second) if nested else first
        return tl.select(compare(form(condition, i, k)), inner, second)

    x = np.arange(1, N + 1, dtype=np.float32)
    i, k = np.indices((N, N))
    first, second = (x[np.clip(form(part, i, k), 0, N - 1)] for part in (read, other))
    want = np.where(compare(form(condition, i, k)), np.where(i < k, first, second) if nested else first, second)
    assert np.array_equal(tl.build(tl.compute((N, N), element, name="Z"))(x), want)


@pytest.mark.parametrize("extent", [7, 8, 64])
def test_what_is_asked_of_even_and_odd_elements_decides_clamps(extent: int) -> None:
    """An even element of eight is not the last one; of seven it may be."""
    X = tl.placeholder((extent,), name="X")

    def turned(i: Any) -> Any:
        return tl.select(i % 2 == 0, X[tl.minimum(i + 1, extent - 1)], -X[tl.maximum(i - 1, 0)])

    y = tl.compute((extent,), turned, name="Y")
    text = str(tl.Schedule(y))
    assert "maximum" not in text
    assert ("minimum" in text) == (extent % 2 == 1)
    x = np.arange(1, extent + 1, dtype=np.float32)
    wanted = [x[min(i + 1, extent - 1)] if i % 2 == 0 else -x[i - 1] for i in range(extent)]
    np.testing.assert_array_equal(tl.build(y)(x), wanted)


def test_a_choice_that_asks_what_is_asked_around_it_is_gone() -> None:
    """A value of Python that is used on both sides of a choice, and asks the same: `level` and `shape` of a forecast."""
    x, y = (tl.placeholder((9, 6), name=name) for name in "xy")

    def element(i: Any, j: Any) -> Any:
        known = tl.select(j < 2, x[i, j], y[i, tl.maximum(j - 2, 0)])
        other = tl.select((j < 2) | (i == 3), 1.0, known)
        return tl.select(j < 2, known + 1, tl.select(i > 4, known * other, tl.select(j < 2, 5.0, 2.0)))

    z = tl.compute((9, 6), element, name="z")
    text = str(tl.Schedule(z))
    assert text.count("select(j < 2") == 1, "it is asked once"
    assert "maximum" not in text
    a, b = np.random.default_rng(0).random((2, 9, 6), dtype="float32")
    known = np.where(np.arange(6) < 2, a, b[:, np.maximum(np.arange(6) - 2, 0)])
    other = np.where((np.arange(6) < 2) | (np.arange(9)[:, None] == 3), 1, known)
    inside = np.where(np.arange(9)[:, None] > 4, known * other, 2)
    np.testing.assert_array_equal(tl.build(z)(a, b), np.where(np.arange(6) < 2, known + 1, inside))


@pytest.mark.parametrize("steps", [0, 3])
def test_a_stage_behind_a_scan_knows_nothing_of_its_steps(steps: int) -> None:
    """In a range of no steps everything holds."""
    a, e, r = tl.placeholder((3,), name="a"), tl.placeholder((3,), name="e"), tl.reduce_axis(3, name="r")
    state = tl.scan(lambda t, z: tl.compute((3,), lambda i: z[i] + a[i], name="n"), a, steps, keep="last", name="s")
    v = tl.compute((1,), lambda y: tl.sum(e[tl.clamp(y + r - 1, 0, 4)], axis=r, where=e[r] != 1), name="v")
    x, y = np.array([[-2.5, 0.25, 0.75], [1, 2, 3]], "float32")
    kernel = tl.build((state, v))
    got = kernel(a=y, e=x)
    np.testing.assert_allclose(got[0], (1 + steps) * y)
    np.testing.assert_allclose(got[1], [x[0] + x[0] + x[1]])
