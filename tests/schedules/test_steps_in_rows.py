"""States whose rows do not wait for one another run through all steps a few rows at a time; others step by step."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check

STEPS = 12


def oscillators(many: int, *, neighbours: bool = False, keep: Literal["all", "last"] = "last") -> tuple[tl.Tensor, ...]:
    """Places and speeds of oscillators, each by itself, or pulled by the next one."""
    place, speed, stiff = (tl.placeholder((many,), name=name) for name in ("place", "speed", "stiff"))

    def step(t: Any, state: Any) -> Any:
        x, v = state

        def faster(i: Any) -> Any:
            beside = x[tl.minimum(i + 1, many - 1)] if neighbours else x[i] * 0.5
            return v[i] - 0.01 * (stiff[i] * x[i] + 0.1 * beside)

        later = tl.compute((many,), faster, name="V")
        return tl.compute((many,), lambda i: x[i] + 0.01 * later[i], name="X"), later

    found: tuple[tl.Tensor, ...] = tl.scan(step, (place, speed), STEPS, keep=keep, name="S")
    return found


def moved(x: Any, v: Any, stiff: Any) -> Any:
    """The same in NumPy."""
    x, v = x.astype(float), v.astype(float)
    for _ in range(STEPS):
        v = v - 0.01 * (stiff * x + 0.05 * x)
        x = x + 0.01 * v
    return x, v


def scheduled(outputs: Any, threads: int = 1) -> tl.Schedule:
    strategy = choose(outputs, target("znver4"), threads)
    return strategy.schedule(strategy.default)


def is_turned(s: tl.Schedule) -> bool:
    """Are steps inside of rows?"""
    return "'S.t')" in repr(s)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_state_that_has_left_the_near_caches_goes_through_all_steps_in_blocks(threads: int) -> None:
    many = 1 << 18
    s = scheduled(oscillators(many), threads)
    assert is_turned(s)
    assert ("s.parallel('X.i_o_o')" in repr(s)) == (threads > 1)
    x, v, stiff = np.random.default_rng(1).random((3, many), "float32")
    for got, wanted in zip(tl.build(s)(x, v, stiff), moved(x, v, stiff), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_one_that_is_near_does_not() -> None:
    s = scheduled(oscillators(512))
    assert not is_turned(s)
    check(s)


def test_rows_that_look_at_their_neighbours_wait_for_them() -> None:
    assert not is_turned(scheduled(oscillators(1 << 18, neighbours=True)))


@pytest.mark.parametrize("many", [33, 100])
@pytest.mark.parametrize("size", [1, 8])
def test_blocks_of_any_size_are_the_same(many: int, size: int) -> None:
    s = tl.Schedule(*oscillators(many))
    names = ["V.i", "X.i"]
    if size > 1:
        names = [s.split(name, size, tail="peel")[0] for name in names]
    s.fuse_loops(*names)
    s.reorder(names[-1], "S.t")
    check(s)


def test_rows_of_rows_and_states_of_which_each_step_is_kept() -> None:
    x = tl.placeholder((16, 700), name="x")

    def step(t: Any, z: Any) -> Any:
        return tl.compute((16, 700), lambda i, j: z[i, tl.minimum(j + 1, 699)] * 0.5 + z[i, j] * 0.25 + 0.001, name="Z")

    s = scheduled(tl.scan(step, x, STEPS, keep="last", name="S"))
    check(s)
    check(scheduled(oscillators(700, keep="all")))
