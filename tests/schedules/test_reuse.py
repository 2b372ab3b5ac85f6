"""`reuse` reads what another stage has computed, where the two say the same and it is still there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, refused

N, M = 6, 11
A = tl.placeholder((N, M), name="A")
k, q = tl.reduce_axis(M, name="k"), tl.reduce_axis(M, name="q")


def twice(*, result: bool = False, other: Any = None) -> tl.Schedule:
    """Sums of rows, once over `k` and once over `q`, and the difference of their products."""
    one = tl.compute((N,), lambda i: tl.sum(A[i, k] * A[i, k], axis=k), name="S")
    two = tl.compute((N,), other or (lambda i: tl.sum(A[i, q] * A[i, q], axis=q)), name="T")
    y = tl.compute((N, M), lambda i, j: A[i, j] * one[i] - two[i], name="Y")
    return tl.Schedule(y, two) if result else tl.Schedule(y)


def test_what_reads_the_stage_reads_the_other_one() -> None:
    s = twice()
    s.reuse("T", "S")
    assert "T" not in s.stages()
    assert str(s).count("+=") == 1
    check(s)


def test_pointwise_stages_and_reductions_of_several_components_too() -> None:
    exps = [tl.compute((N, M), lambda i, j: tl.exp(A[i, j]), name=name) for name in "SP"]
    places = [tl.compute((N,), lambda i, x=x: tl.argmax(x[i, k], axis=k), name=name) for x, name in zip(exps, "TU", strict=True)]
    y = tl.compute((N,), lambda i: places[0][i] * 100 + places[1][i] + tl.cast(exps[1][i, 0] * 0, "int64"), name="Y")
    s = tl.Schedule(y)
    s.reuse("P", "S")
    s.reuse("U", "T")
    assert s.stages() == ("S", "T.init", "T", "Y")
    check(s)


@pytest.mark.parametrize(("make", "stage", "other", "code", "said"), [
    (lambda: twice(other=lambda i: tl.sum(A[i, q] * 2, axis=q)), "T", "S", "TL-S304", "do not compute the same"),
    (lambda: twice(other=lambda i: tl.max(A[i, q] * A[i, q], axis=q)), "T", "S", "TL-S304", "do not compute the same"),
    (lambda: twice(other=lambda i: tl.sum(A[i, q] * A[i, q], axis=q, where=q > 2)), "T", "S", "TL-S304", "do not compute the same"),
    (lambda: twice(result=True), "T", "S", "TL-S301", "is a result"),
    (twice, "S", "T", "TL-S301", "is computed after 'S'"),
    (twice, "T", "T", "TL-S301", "is itself"),
    (twice, "Y", "S", "TL-S301", "is a result"),
])  # fmt: skip
def test_a_refusal_says_why(make: Any, stage: str, other: str, code: str, said: str) -> None:
    refused(make(), code, said, "reuse", stage, other)


def test_a_result_may_be_reused() -> None:
    s = twice(result=True)
    assert not s.can("reuse", "T", "S")
    one = tl.compute((N,), lambda i: tl.sum(A[i, k], axis=k), name="S")
    two = tl.compute((N,), lambda i: tl.sum(A[i, q], axis=q), name="T")
    s = tl.Schedule(one, tl.compute((N,), lambda i: two[i] * 2, name="Y"))
    s.reuse("T", "S")
    check(s)


def test_a_stage_that_is_scheduled_or_placed_is_not_the_same() -> None:
    s = twice()
    s.split("S.k", 4)
    refused(s, "TL-S304", "do not compute the same", "reuse", "T", "S")
    s = twice()
    s.compute_at("T", "Y.i")
    refused(s, "TL-S301", "is computed in the loops of 'Y'", "reuse", "T", "S")


def test_a_state_that_changes_is_not_read_later() -> None:
    """What the sum of a state was before a step is not what it is after it."""

    def step(_: Any, s: Any) -> Any:
        first = tl.compute((N,), lambda i: tl.sum(s[i, k], axis=k), name="before")
        return tl.compute((N, M), lambda i, j: s[i, j] + first[i], name="next")

    s = tl.Schedule(tl.scan(step, A, 3, keep="last", name="L"))
    assert not s.can("reuse", "before", "next")
    check(s)


def test_the_default_computes_scores_once_that_are_asked_for_twice() -> None:
    """Numerators and denominators of attention, each with a call of the same function."""
    n, d = 20, 8
    u, v = (tl.placeholder((n, d), name=name) for name in "uv")
    f, j, r = tl.reduce_axis(d, name="f"), tl.reduce_axis(n, name="j"), tl.reduce_axis(n, name="r")

    def score(i: Any, at: Any) -> Any:
        return tl.exp(tl.sum(u[i, f] * v[at, f], axis=f))

    y = tl.compute((n, d), lambda i, c: tl.sum(score(i, j) * v[j, c], axis=j) / tl.sum(score(i, r), axis=r), name="y")
    strategy = choose(y, target("znver4"), 1)
    assert str(strategy.schedule(strategy.default)).count("u[i, f]") == 1
    a, b = np.random.default_rng(0).random((2, n, d), dtype="float32")
    weights = np.exp(a @ b.T)
    np.testing.assert_allclose(tl.build(y)(a, b), weights @ b / weights.sum(1, keepdims=True), rtol=1e-5)
