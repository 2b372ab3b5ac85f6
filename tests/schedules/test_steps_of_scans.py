"""Scans whose elements do not look at one another take all steps of a few vectors, and give the same; others go step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES


def bounded(rows: int, columns: int, steps: int, keep: str = "last") -> Any:
    """Steps that each point of a plane stays bounded."""
    X = tl.placeholder((rows, columns), name="X")

    def step(_: Any, state: Any) -> Any:
        z, count = state

        def element(i: Any, j: Any) -> Any:
            inside = z[i, j] * z[i, j] < 4
            return (
                tl.select(inside, z[i, j] * z[i, j] + X[i, j], z[i, j]),
                count[i, j] + tl.select(inside, tl.cast(1, "int32"), tl.cast(0, "int32")),
            )

        return tl.compute((rows, columns), element, name="next")

    start = (
        tl.compute((rows, columns), lambda i, j: X[i, j] * 0.0, name="z"),
        tl.compute((rows, columns), lambda *_: tl.cast(0, "int32"), name="n"),
    )
    return tl.scan(step, start, steps, keep=keep, name="bounded")[1]


def expected(x: Any, steps: int) -> Any:
    z, count = np.zeros_like(x), [np.zeros(x.shape, np.int32)]
    for _ in range(steps):
        inside = z * z < 4
        z = np.where(inside, z * z + x, z)
        count.append(count[-1] + inside)
    return count


def knob_of(strategy: Any) -> str:
    (found,) = (knob for knob in strategy.default if knob.endswith("steps"))
    return str(found)


@pytest.mark.parametrize("machine", MACHINES)
def test_state_that_would_leave_the_near_caches_stays_in_registers(machine: str) -> None:
    strategy = choose(bounded(1000, 1000, 50), target(machine), 1)
    assert strategy.default[knob_of(strategy)] > 0


@pytest.mark.parametrize(("rows", "columns", "steps"), [(3, 50, 7), (1, 33, 2), (5, 16, 12)])
def test_every_point_gives_the_same(rows: int, columns: int, steps: int) -> None:
    outputs = bounded(rows, columns, steps)
    x = np.random.default_rng(0).random((rows, columns), dtype=np.float32) * 2
    strategy = choose(outputs, target(), 2)
    knob = knob_of(strategy)
    prefix = knob.removesuffix("steps")
    for count in (0, 2, *(() if steps < 4 else (4,))):
        for vectors in (1, 2):
            config = {**strategy.default, knob: count, f"{prefix}vectors": vectors, f"{prefix}parallel": "outer"}
            if not strategy.space.contains(config):
                continue
            s = strategy.schedule(config)
            assert not s.faults
            np.testing.assert_array_equal(tl.build(s)(x), expected(x, steps)[-1])


def test_a_history_is_kept_as_well() -> None:
    x = np.random.default_rng(1).random((4, 70), dtype=np.float32) * 2
    outputs = bounded(4, 70, 9, keep="all")
    found = tl.build(outputs)(x)
    np.testing.assert_array_equal(found, np.stack(expected(x, 9))[-found.shape[0] :])


def test_elements_that_look_at_others_go_step_by_step() -> None:
    X = tl.placeholder((64, 64), name="X")

    def step(_: Any, x: Any) -> Any:
        return tl.compute((64, 64), lambda i, j: 0.5 * (x[i, j] + x[i, tl.minimum(j + 1, 63)]), name="next")

    strategy = choose(tl.scan(step, X, 10, keep="last", name="mixed"), target(), 1)
    assert not any(knob.endswith("steps") for knob in strategy.default)
    x = np.random.default_rng(0).random((64, 64), dtype=np.float32)
    wanted = x
    for _ in range(10):
        wanted = 0.5 * (wanted + np.concatenate([wanted[:, 1:], wanted[:, -1:]], axis=1))
    np.testing.assert_allclose(tl.build(tl.scan(step, X, 10, keep="last", name="mixed"))(x), wanted, rtol=1e-5)
