"""Sums inside of sums over ranges that axes tell, as of local attention: computed as tiles, once, where somebody reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.target import target
from tests.schedules.programs import check

N, WIDTH, SEEN = 96, 16, 20
MACHINE = target("x86-64-v4")
RANGES = {
    "behind": (lambda i: (tl.maximum(i - SEEN + 1, 0), i + 1), lambda i, j: (j <= i) & (j > i - SEEN)),
    "before": (lambda i: (0, i + 1), lambda i, j: j <= i),
    "around": (lambda i: (tl.maximum(i - SEEN, 0), tl.minimum(i + SEEN, N)), lambda i, j: (j >= i - SEEN) & (j < i + SEEN)),
}


def attention(name: str) -> tl.Tensor:
    """Attention over a range, each part of which asks for the scores anew."""
    q, k, v = (tl.placeholder((N, WIDTH), name=name) for name in "qkv")
    d = tl.reduce_axis(WIDTH, name="d")

    def score(i: Any, j: Any) -> Any:
        return tl.sum(q[i, d] * k[j, d], axis=d) / 4

    def seen(i: Any) -> Any:
        return tl.reduce_axis(RANGES[name][0](i), name="j")

    def top(i: Any) -> Any:
        j = seen(i)
        return tl.max(score(i, j), axis=j)

    m = tl.compute((N,), top, name="m")

    def all_of_it(i: Any) -> Any:
        j = seen(i)
        return tl.sum(tl.exp(score(i, j) - m[i]), axis=j)

    z = tl.compute((N,), all_of_it, name="z")

    def mean(i: Any, c: Any) -> Any:
        j = seen(i)
        return tl.sum(tl.exp(score(i, j) - m[i]) * v[j, c], axis=j) / z[i]

    result: tl.Tensor = tl.compute((N, WIDTH), mean, name="o")
    return result


@pytest.mark.parametrize("name", list(RANGES))
def test_scores_are_computed_once_where_they_are_read(name: str) -> None:
    y = attention(name)
    said = repr(default_schedule(y, MACHINE, threads=1))
    assert said.count("s.reuse(") == 2
    assert "s.trim('m.1" in said
    assert "keeps its plain loops" not in said
    q, k, v = np.random.default_rng(3).standard_normal((3, N, WIDTH)).astype("float32")
    i, j = np.indices((N, N))
    scores = np.where(RANGES[name][1](i, j), q.astype(float) @ k.T.astype(float) / 4, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(tl.build(y)(q, k, v), weights @ v / weights.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(RANGES))
def test_a_sum_that_is_computed_before_asks_once(name: str) -> None:
    s = tl.Schedule(attention(name))
    s.compute_root("m.1")
    s.reorder("m.1.d", "m.1.j")  # nothing stands between
    check(s)


def test_an_end_that_all_keep_to_is_not_asked_for() -> None:
    assert "maximum" not in str(tl.Schedule(attention("behind")))
    assert "minimum" not in str(tl.Schedule(attention("around")))


def test_what_was_computed_for_one_reader_is_kept_for_the_next() -> None:
    s = tl.Schedule(attention("before"))
    for stage in ("m.1", "z.1"):
        s.compute_root(stage)
    s.reuse("z.1", "m.1")
    assert "z.1" not in s.stages()
    check(s)


@pytest.mark.parametrize("long", [5, 64])
def test_sums_in_expressions_that_read_the_same_are_one(long: int) -> None:
    """Forces along two axes share a distance; sums that are short are part of their expressions."""
    places = [tl.placeholder((N,), name=name) for name in "xy"]

    def pull(axis: Any) -> Any:
        def element(i: Any) -> Any:
            j = tl.reduce_axis(long, name="j")
            apart = [p[i] - p[j] for p in places]
            return 0.5 * tl.sum((axis[i] - axis[j]) / tl.sqrt(apart[0] * apart[0] + apart[1] * apart[1] + 0.01), axis=j)

        return element

    forces = [tl.compute((N,), pull(axis), name=f"f{axis.name}") for axis in places]
    s = default_schedule(tuple(forces), MACHINE, threads=1)
    assert ("join_reductions" in repr(s)) == (long > 5)
    x, y = np.random.default_rng(4).random((2, N)).astype("float32")
    dx, dy = x[:, None] - x[None, :long], y[:, None] - y[None, :long]
    far = np.sqrt(dx * dx + dy * dy + 0.01)
    for got, axis in zip(tl.build(tuple(forces))(x, y), (dx, dy), strict=True):
        np.testing.assert_allclose(got, 0.5 * (axis / far).sum(1), rtol=1e-4, atol=1e-5)
