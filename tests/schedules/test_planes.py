"""Planes that share what they read stand side by side, where the model says so, and compute what they did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose

PLANES, ROWS, COLUMNS = 3, 700, 1200


def weighted(rows: int = ROWS, columns: int = COLUMNS, dtype: str = "float32") -> Any:
    """Colours, each divided by one weight a pixel."""
    x, a = tl.placeholder((PLANES, rows, columns), name="X"), tl.placeholder((rows, columns), name="A")
    return tl.compute((PLANES, rows, columns), lambda c, i, j: tl.cast(x[c, i, j] / (a[i, j] + 1), dtype), name="Y")


def given(rows: int, columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return 100 * rng.random((PLANES, rows, columns), "float32"), rng.random((rows, columns), "float32")


@pytest.mark.parametrize("on", ["znver3", "znver4"])
def test_what_planes_share_is_read_once(on: str) -> None:
    s = choose(weighted(), target(on), threads=1)
    steps = [repr(step) for step in s.schedule(s.default).directives]
    assert "Reorder(loops=('Y.i', 'Y.j_o', 'Y.c', 'Y.j_i'))" in steps
    assert "Unroll(loop='Y.c')" in steps


@pytest.mark.parametrize("planes", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [64, 77])
def test_either_way_is_that_of_numpy(planes: bool, threads: int, columns: int) -> None:
    strategy = choose(weighted(20, columns), target("native"), threads=threads)
    x, a = given(20, columns)
    point = {**strategy.default, "planes": planes}
    assert point in strategy.space
    s = strategy.schedule(point)
    assert not s.faults
    np.testing.assert_allclose(tl.build(s)(x, a), x / (a + 1), rtol=1e-6)


def test_parts_of_lines_do_not_take_turns() -> None:
    """Stores past the caches to three planes, half a line each, took 1.3 of the time on a Zen 3."""
    strategy = choose(weighted(2000, 4000, "uint16"), target("znver3"), threads=1)
    assert strategy.default.get("stream")
    assert "planes" not in strategy.default


def test_many_planes_and_planes_that_share_nothing_stay_apart() -> None:
    x, y = tl.placeholder((3, ROWS, COLUMNS), name="X"), tl.placeholder((24, ROWS, COLUMNS), name="Y")
    alone = tl.compute((3, ROWS, COLUMNS), lambda c, i, j: x[c, i, j] * 2, name="alone")
    many = tl.compute((24, ROWS, COLUMNS), lambda c, i, j: y[c, i, j] * x[0, i, j], name="many")
    assert all("planes" not in choose(out, target("znver4"), threads=1).default for out in (alone, many))


def test_axes_of_a_sum_share_what_data_name() -> None:
    """Forces along three axes ask for the same neighbours: their sums stand side by side around the lanes of one."""
    x, other = tl.placeholder((300, 3), name="x"), tl.placeholder((300, 32), "int32", name="other")
    many = tl.placeholder((300,), "int32", name="many")

    def force(i: Any, c: Any) -> Any:
        e = tl.reduce_axis((0, many[i]), name="e", within=32)
        j = tl.clamp(other[i, e], 0, 299)
        square = 1.0 + sum((x[i, d] - x[j, d]) * (x[i, d] - x[j, d]) for d in range(3))
        return tl.sum((x[i, c] - x[j, c]) / square, axis=e)

    strategy = choose(tl.compute((300, 3), force, name="F"), target("znver4"), threads=1)
    assert strategy.default["planes"]
    rng = np.random.default_rng(0)
    at, named = rng.random((300, 3), "float32"), rng.integers(0, 300, (300, 32), "int32")
    taken = rng.integers(0, 33, 300, "int32")
    apart = at[:, None] - at[named]
    parts = apart / (1 + (apart * apart).sum(-1, keepdims=True))
    want = np.where((np.arange(32) < taken[:, None])[..., None], parts, 0).sum(1)
    for planes in (True, False):
        s = strategy.schedule({**strategy.default, "planes": planes})
        assert not s.faults
        np.testing.assert_allclose(
            tl.build(s, "x86-64-v3" if tl.target("native").is_x86 else "native")(at, named, taken), want, rtol=2e-5, atol=1e-5
        )
