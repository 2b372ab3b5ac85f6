"""Where a sketch left out much of what the best point takes, it is compared with whole stages as the schedule that it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.placements.as_made import TRUSTED, best_as_made
from tensorlang.schedules.strategies.program import ProgramStrategy


def swept(n: int, sweeps: int) -> tl.Tensor:
    """Red and black sweeps: which elements are computed the parity of row and column says, which lanes decide where rows are whole."""
    b = tl.placeholder((n, n), name="b")
    x: tl.Tensor = tl.compute((n, n), lambda i, j: b[i, j] * 0.5, name="x")
    for sweep in range(sweeps):
        for colour in range(2):
            x = tl.compute((n, n), lambda i, j, x=x, colour=colour: _element(b, x, i, j, n, colour), name=f"x{sweep}_{colour}")
    return x


def _element(b: Any, x: Any, i: Any, j: Any, n: int, colour: int) -> Any:
    rows = tl.select(i > 0, x[tl.maximum(i - 1, 0), j], 0.0) + tl.select(i < n - 1, x[tl.minimum(i + 1, n - 1), j], 0.0)
    around = rows + tl.select(j > 0, x[i, tl.maximum(j - 1, 0)], 0.0) + tl.select(j < n - 1, x[i, tl.minimum(j + 1, n - 1)], 0.0)
    return tl.select((i + j) % 2 == colour, 0.25 * (b[i, j] + around), x[i, j])


def relaxed(b: Any, sweeps: int) -> Any:
    """The same by NumPy."""
    x, parity = b * np.float32(0.5), np.add.outer(*2 * [np.arange(len(b))]) % 2
    for _ in range(sweeps):
        for colour in range(2):
            p = np.pad(x, 1)
            x = np.where(parity == colour, np.float32(0.25) * (b + p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]), x)
    return x


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "znver4"])
def test_the_default_is_not_clearly_slower_than_whole_stages(cpu: str) -> None:
    strategy = choose(swept(256, 3), target(cpu), 1)
    assert isinstance(strategy, ProgramStrategy)
    whole = {
        **strategy.default,
        "strip": 1,
        "slides": False,
        **{f"x{k}_{c}.at": "whole" for k in range(3) for c in range(2) if (k, c) < (2, 1)},
    }
    kept, other = (estimate(strategy.schedule(config).nest, strategy.machine.core).seconds for config in (strategy.default, whole))
    assert kept < TRUSTED * other


def test_what_a_sketch_tells_is_trusted_and_else_the_faster_schedule_is_taken() -> None:
    x = tl.placeholder((64, 64), name="x")
    y = tl.compute((64, 64), lambda i, j: tl.exp(x[i, j]), name="y")
    plain, lanes = tl.Schedule(y), tl.Schedule(y)
    lanes.vectorize(lanes.split("j", 16)[1])
    machine = choose(y, target("znver4"), 1).machine  # type: ignore[attr-defined]
    known, made = {0: plain, 1: lanes}, list[int]()

    def making(config: Any) -> tl.Schedule:
        made.append(config["point"])
        return known[config["point"]]

    truly = estimate(plain.nest, machine.core).seconds
    assert best_as_made({"point": 0}, [{"point": 1}], lambda _: truly, making, machine)[1] is plain
    assert made == [0], "where the sketch is near, nothing else is made"
    assert best_as_made({"point": 0}, [{"point": 1}], lambda _: truly / 2, making, machine) == ({"point": 1}, lanes)
    assert best_as_made({"point": 1}, [{"point": 0}], lambda _: 0.0, making, machine) == ({"point": 1}, lanes)
    assert best_as_made({"point": 0}, [{"point": 0}, {"point": 1}], lambda _: 0.0, making, machine) == ({"point": 1}, lanes)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_sweeps_are_those_of_numpy(n: int) -> None:
    b = np.random.default_rng(n).random((n, n), "float32")
    np.testing.assert_allclose(tl.build(swept(n, 2))(b), relaxed(b, 2), rtol=1e-5, atol=1e-6)
