"""Stages of one row have the loops along it joined where the model says so; with as many elements in flight, so that they may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.joined_rows import MOST_ASKED, join_rows
from tests.machines import MACHINES


def residual_norm(rows: Any, width: int) -> tl.Tensor:
    """A sum of two rows, normalised by its mean square."""
    x, r = (tl.placeholder((rows, width), name=name) for name in ("x", "r"))
    k = tl.reduce_axis(width, name="k")
    s = tl.compute((rows, width), lambda i, j: x[i, j] + r[i, j], name="s")
    square = tl.compute((rows,), lambda i: tl.sum(s[i, k] * s[i, k], axis=k) / width, name="square")
    y: tl.Tensor = tl.compute((rows, width), lambda i, j: s[i, j] * tl.rsqrt(square[i] + 1e-6), name="y")
    return y


def normed(x: Any, r: Any) -> Any:
    """The same by NumPy."""
    s = x.astype("float64") + r
    return s / np.sqrt((s**2).mean(-1, keepdims=True) + 1e-6)


def joins(s: tl.Schedule) -> list[FuseLoops]:
    return [step for step in s.directives if isinstance(step, FuseLoops)]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_sum_takes_what_the_stage_before_has_in_registers(machine: str) -> None:
    strategy = choose(residual_norm(500, 768), target(machine), 1)
    assert strategy.default["together"]
    s = strategy.schedule(strategy.default)
    assert FuseLoops("s.j_o", "square.1.k_o") in joins(s)
    apart = strategy.schedule({**strategy.default, "together": False})
    assert s.estimate(target(machine)).seconds < apart.estimate(target(machine)).seconds


def test_what_needs_the_whole_row_stays_apart() -> None:
    strategy = choose(residual_norm(500, 768), target("znver4"), 1)
    assert all("y." not in step.second for step in joins(strategy.schedule(strategy.default)))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (40, 64), (5, 193)])
def test_every_choice_is_the_norm_of_numpy(shape: tuple[int, int], threads: int) -> None:
    rng = np.random.default_rng(shape[1])
    x, r = rng.random((2, *shape), "float32")
    strategy = choose(residual_norm(*shape), target(), threads)
    for config in (strategy.default, *strategy.space.sample(rng, 6)):
        np.testing.assert_allclose(tl.build(strategy.schedule(config))(x, r), normed(x, r), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_extents_that_a_call_tells_are_no_hindrance(rows: int) -> None:
    x, r = np.random.default_rng(rows).random((2, rows, 100), "float32")
    np.testing.assert_allclose(tl.build(residual_norm(tl.dim("rows"), 100))(x, r), normed(x, r), rtol=1e-4, atol=1e-5)


def test_many_stages_are_asked_so_often_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tl.placeholder((64, 512), name="x")
    stages = [x]
    for place in range(MOST_ASKED + 12):
        stages.append(tl.compute(x.shape, lambda i, j, last=stages[-1]: last[i, j] + x[i, 511 - j], name=f"s{place}"))
    s = tl.Schedule(stages[1:])
    for place in range(1, len(stages) - 1):
        s.fuse_loops(f"s{place - 1}.i", f"s{place}.i")
    asked: list[Any] = []
    machine = choose(stages[1:], target("znver4"), 1).machine  # type: ignore[attr-defined]
    attempt = tl.Schedule.attempt
    monkeypatch.setattr(tl.Schedule, "attempt", lambda self, step: asked.append(step) or attempt(self, step))
    join_rows(s, machine)
    assert len(asked) == MOST_ASKED
