"""Chains through several statements of a loop: what an iteration stores last, and the next one wants first."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose

ZEN4 = machine_of(target("znver4"))


def solved(rows: int, wide: int) -> Any:
    """A triangular system with a band below its diagonal, in each of many rows: an element is made of those before it in its row."""
    B, T, k = tl.placeholder((rows, wide), name="B"), tl.placeholder((wide, wide), name="T"), tl.reduce_axis(wide, name="k")
    return tl.recurrence((rows, wide), lambda i, j, X: (B[i, j] - tl.sum(X[i, k] * T[j, k], axis=k, where=k < j)) / T[j, j], name="X")


def seconds(s: tl.Schedule) -> float:
    return estimate(s.nest, ZEN4).shares["arithmetic"]


def in_lanes(s: tl.Schedule, lanes: int) -> tl.Schedule:
    s.vectorize(s.split("X.1.k", lanes)[1])
    return s


def test_a_sum_whose_last_element_was_just_written_waits_longer_in_lanes():
    """A vector that lies on several stores is not there until they are in the cache; a single element has it from its store."""
    plain = tl.Schedule(solved(64, 16))
    assert seconds(in_lanes(plain.copy(), 16)) > 1.5 * seconds(plain)


def test_rows_that_take_turns_do_not_wait_for_one_another():
    alone, turned = (in_lanes(tl.Schedule(solved(64, 64)), 16) for _ in range(2))
    outer, inner = turned.split("X.i", 16)
    turned.reorder(outer, "X.j", inner)
    assert seconds(turned) < 0.6 * seconds(alone)


def cycles(back: int) -> float:
    """Those of a step of a filter that reads what it made some steps ago, by way of a sum and a division."""
    W, k = tl.placeholder((8,), name="W"), tl.reduce_axis(8, name="k")
    X = tl.recurrence((4096,), lambda t, X: tl.select(t < back, 1.0, tl.sum(W[k] * X[t - back], axis=k) / W[0]), name="X")
    return seconds(tl.Schedule(X)) * ZEN4.hertz / 4096


def test_a_chain_is_as_long_as_its_steps_are_apart():
    """From the store to the load, through the sum and the division; of eight steps that begin apart it hides the most."""
    assert cycles(1) >= ZEN4.ports.latency * 4 + 2 * ZEN4.caches[0].latency
    assert cycles(8) < 0.7 * cycles(1)


@pytest.mark.parametrize("machine", ["znver3", "znver4", "cascadelake", "haswell"])
def test_defaults_sum_single_elements_where_lanes_would_wait(machine: str):
    """Rows of a band need one another, so that none takes turns."""
    n, wide = 400, 12
    A, e = tl.placeholder((n, wide + 1), name="A"), tl.reduce_axis(wide, name="e")

    def factor(i: Any, d: Any, L: Any) -> Any:
        j = i - wide + d
        rest = A[i, d] - tl.sum(L[i, e] * L[j, e + wide - d], axis=e, where=e < d)
        return tl.select(j < 0, 0.0, tl.select(d == wide, tl.sqrt(rest), rest / L[j, wide]))

    strategy = choose(tl.recurrence((n, wide + 1), factor, name="L"), target(machine), 1)
    assert "vectorize" not in repr(strategy.schedule(strategy.default))
