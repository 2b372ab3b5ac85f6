"""Windows that read the same are one window of several results where the model says so, and what takes both comes from its tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.directives.reverse_compute_inline import ReverseComputeInline
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.model.parts import statements
from tensorlang.schedules.model.program import program
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose
from tests.machines import MACHINES
from tests.schedules.programs import check, refused

CPUS = ["haswell", "znver3", "znver4", "cascadelake"]
SHAPES = [(1, 4), (5, 7), (33, 70)]


def weighted(rows: int, columns: int) -> tl.Tensor:
    """A mean of 3 x 3 neighbours by how alike they are, as a sum over the sum of weights."""
    x, a, b = tl.placeholder((rows + 2, columns + 2), name="X"), tl.reduce_axis(3), tl.reduce_axis(3)

    def weight(i: Any, j: Any) -> Any:
        return tl.exp(-2.0 * (x[i + a, j + b] - x[i + 1, j + 1]) ** 2)

    total = tl.compute((rows, columns), lambda i, j: tl.sum(weight(i, j) * x[i + a, j + b], axis=(a, b)), name="total")
    weights = tl.compute((rows, columns), lambda i, j: tl.sum(weight(i, j), axis=(a, b)), name="weights")
    mean: tl.Tensor = tl.compute((rows, columns), lambda i, j: total[i, j] / weights[i, j], name="mean")
    return mean


def _weighted(x: Any) -> Any:
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    taps = np.array([x[a : a + rows, b : b + columns] for a in range(3) for b in range(3)], "float64")
    weight = np.exp(-2.0 * (taps - x[1:-1, 1:-1]) ** 2)
    return (weight * taps).sum(0) / weight.sum(0)


def joined(s: Schedule) -> bool:
    return any(isinstance(step, JoinReductions) for step in s.directives)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_weighted_mean_is_what_numpy_says(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).random([extent + 2 for extent in shape], dtype="float32")
    np.testing.assert_allclose(tl.build(weighted(*shape))(x), _weighted(x), rtol=1e-5)


@pytest.mark.parametrize("cpu", CPUS)
def test_the_default_computes_shared_weights_once_and_divides_in_registers(cpu: str) -> None:
    strategy = choose(weighted(96, 160), target(cpu), 1)
    s = strategy.schedule(strategy.default)
    assert joined(s)
    assert any(isinstance(step, ReverseComputeInline) for step in s.directives)
    assert not s.faults
    assert "total:" not in str(s) and "weights:" not in str(s)


@pytest.mark.parametrize("seed", range(4))
def test_every_point_computes_the_same(seed: int) -> None:
    outputs, x = weighted(9, 21), np.random.default_rng(1).random((11, 23), dtype="float32")
    strategy = choose(outputs, target("native"), 1)
    for config in strategy.space.sample(np.random.default_rng(seed), 3):
        s = strategy.schedule(config)
        assert not unforeseen(s.faults)
        np.testing.assert_allclose(tl.build(s)(x), _weighted(x), rtol=1e-5, err_msg=repr(s))


def moments(rows: int, columns: int, *, apart: bool = False) -> list[tl.Tensor]:
    """Windows of the products of two tensors, which one stage takes, or each one of its own."""
    p, q = (tl.placeholder((rows + 2, columns + 2), name=name) for name in "PQ")
    a, b = tl.reduce_axis(3), tl.reduce_axis(3)

    def window(one: Any, other: Any, name: str) -> Any:
        return tl.compute((rows, columns), lambda i, j: tl.sum(one[i + a, j + b] * other[i + a, j + b], axis=(a, b)), name=name)

    pp, pq = window(p, p, "pp"), window(p, q, "pq")
    if apart:
        return [tl.compute((rows, columns), lambda i, j, of=of: of[i, j] * 2, name=f"R{of.name}") for of in (pp, pq)]
    return [tl.compute((rows, columns), lambda i, j: pp[i, j] - pq[i, j] * pq[i, j], name="R")]


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_of_products_are_what_numpy_says(shape: tuple[int, int]) -> None:
    rows, columns = shape
    p, q = np.random.default_rng(2).random((2, rows + 2, columns + 2), dtype="float32")
    wide = [slice(at, at + rows) for at in range(3)], [slice(at, at + columns) for at in range(3)]
    pp, pq = (sum((p[y, x] * other[y, x]).astype("float64") for y in wide[0] for x in wide[1]) for other in (p, q))
    np.testing.assert_allclose(tl.build(moments(rows, columns))(p, q), pp - pq * pq, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(tl.build(moments(rows, columns, apart=True))(p, q)[1], 2 * pq, rtol=1e-5)


def test_windows_that_different_stages_take_stay_apart() -> None:
    outputs = moments(64, 160, apart=True)
    strategy = choose(outputs, target("znver4"), 1)
    assert not joined(strategy.schedule(strategy.default))


# Directives -------------------------------------------------------------------------------------------------------------------


def tiled(outputs: Any) -> tl.Schedule:
    """Two sums of rows in one, each element in registers."""
    s = tl.Schedule(outputs)
    s.join_reductions("S", "Q")
    s.accumulate("S", at="Q.i")
    return s


def sums(*, other: bool = False, shifted: bool = False) -> Any:
    """A sum and one of squares, and what is made of both; and of one of them alone."""
    x, k = tl.placeholder((9, 12), name="X"), tl.reduce_axis(12, name="k")
    s = tl.compute((9,), lambda i: tl.sum(x[i, k], axis=k), name="S")
    q = tl.compute((9,), lambda i: tl.sum(x[i, k] * x[i, k], axis=k), name="Q")
    r = tl.compute((9,), lambda i: s[i] + 2 * q[8 - i if shifted else i], name="R")
    return [r, tl.compute((9,), lambda i: q[i] * 3, name="T")] if other else [r]


def test_a_stage_that_takes_all_results_of_a_reduction_is_computed_from_its_registers() -> None:
    s = tiled(sums())
    s.reverse_compute_inline("R")
    assert "S: " not in str(s) and "Q: " not in str(s)
    check(s)


def test_one_that_takes_a_part_of_them_or_other_elements_is_refused() -> None:
    refused(
        tiled(sums(other=True)), "TL-S301", "'R': 'S' is computed together with 'Q', which has other readers", "reverse_compute_inline", "R"
    )
    refused(tiled(sums(shifted=True)), "TL-S301", "'R': ", "reverse_compute_inline", "R")


# The model --------------------------------------------------------------------------------------------------------------------


def test_what_results_share_counts_once_and_each_has_registers() -> None:
    apart, s = tl.Schedule(weighted(64, 64)), tl.Schedule(weighted(64, 64))
    s.join_reductions("total", "weights")
    found = {part.stage: part for part in statements(program(apart.nest))}
    (both,) = (part for part in statements(program(s.nest)) if part.stage == "weights")
    assert (both.results, found["weights"].results) == (2, 1)
    assert found["weights"].operations < both.operations < found["weights"].operations + 2
    assert both.longest == found["weights"].longest == 1.0


@pytest.mark.parametrize("cpu", MACHINES)
def test_results_of_one_tile_are_no_more_than_registers(cpu: str) -> None:
    strategy = choose(moments(64, 160), target(cpu), 1)
    s, machine = strategy.schedule(strategy.default), machine_of(target(cpu))
    if joined(s):
        config = strategy.default
        assert 2 * config.get("rows", 1) * config["vectors"] < machine.registers
