"""Rows that are read round by a shift that data tell: vectors that do not go round are loads, and the others are what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Binary, If, Nest
from tensorlang.ir.traverse import nodes, reads_data, statements
from tensorlang.ops.convolution import conv2d
from tensorlang.schedules.strategies import choose


def rolled(rows: int, columns: int, *, back: bool = False) -> Any:
    """Each row of a picture rolled by a shift of its own, or turned round as well."""
    X, S = tl.placeholder((rows, columns), name="X"), tl.placeholder((rows,), "int32", name="S")
    return tl.compute((rows, columns), lambda i, j: X[i, ((S[i] - j) if back else (j + S[i])) % columns], name="R")


def asked(nest: Nest) -> bool:
    """Does a vector ask whether it goes round?"""
    return any(isinstance(part, If) and part.orelse is not None and reads_data(part.cond) for part in statements(nest.body))


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("columns", [37, 64, 100, 1000])
@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_rows_are_rolled_as_numpy_does(columns: int, lanes: int, back: bool) -> None:
    """By shifts either way, further than a row is long."""
    rows = 12
    s = tl.Schedule(rolled(rows, columns, back=back))
    s.vectorize(s.split("j", lanes)[1])
    rng = np.random.default_rng(columns)
    x, shift = rng.random((rows, columns), "float32"), rng.integers(-3 * columns, 3 * columns, rows, "int32")
    place = shift[:, None] - np.arange(columns) if back else np.arange(columns) + shift[:, None]
    np.testing.assert_array_equal(tl.build(s)(x, shift), np.take_along_axis(x, place % columns, 1))


def test_a_vector_asks_once_whether_it_goes_round() -> None:
    s = tl.Schedule(rolled(4, 512))
    s.vectorize(s.split("j", 16)[1])
    assert asked(lower(s.nest, target("znver4")))


@pytest.mark.parametrize("columns", [16, 24])
def test_rows_of_hardly_a_vector_do_not_ask(columns: int) -> None:
    s = tl.Schedule(rolled(4, columns))
    s.vectorize(s.split("j", 16)[1])
    assert not asked(lower(s.nest, target("znver4")))


def asks(nest: Nest) -> bool:
    """Does anything ask for lanes one way and another?"""
    return any(isinstance(part, If) and part.orelse is not None for part in statements(nest.body))


@pytest.mark.parametrize("columns", [56, 100])
def test_digits_of_a_fused_loop_are_one_number_in_memory(columns: int) -> None:
    """Rows of 56 in vectors of 16 asked whether one begins anew, which took a convolution by 1 x 1 twenty times as long."""
    X = tl.placeholder((8, 33, columns), name="X")
    s = tl.Schedule(tl.compute(X.shape, lambda c, i, j: 2 * X[c, i, j], name="Y"))
    s.vectorize(s.split(s.fuse("i", "j"), 16)[1])
    assert not asks(lower(s.nest, target("znver4")))


def test_a_number_that_all_lanes_read_has_no_digits() -> None:
    X, S = tl.placeholder((61,), name="X"), tl.placeholder((), name="S")
    x = np.random.default_rng(0).random(61, "float32")
    scaled = tl.build(tl.compute((61,), lambda i: X[i] * S[()] + 0.25))
    np.testing.assert_allclose(scaled(x, np.array(3, np.float32)), x * 3 + 0.25, rtol=1e-6)


def test_digits_that_other_rows_are_read_by_do_ask() -> None:
    """Rows of 56 of a picture that has 58 columns are apart in memory."""
    X = tl.placeholder((35, 58), name="X")
    s = tl.Schedule(tl.compute((33, 56), lambda i, j: 2 * X[i + 1, j + 1], name="Y"))
    s.vectorize(s.split(s.fuse("i", "j"), 16)[1])
    assert asks(lower(s.nest, target("znver4")))
    x = np.random.default_rng(0).random((35, 58), "float32")
    np.testing.assert_array_equal(tl.build(s)(x), 2 * x[1:34, 1:57])


@pytest.mark.parametrize("name", ["znver4", "cascadelake", "x86-64-v3"])
@pytest.mark.parametrize(("channels", "side"), [(64, 56), (256, 28), (32, 112)])
def test_a_convolution_by_1x1_has_no_tiles_that_ask(name: str, channels: int, side: int) -> None:
    x, w = tl.placeholder((1, channels, side, side), name="x"), tl.placeholder((64, channels, 1, 1), name="w")
    machine = target(name)
    strategy = choose(conv2d(x, w), machine, threads=1)
    nest = lower(strategy.schedule(strategy.default).nest, machine)
    conditions = (part.cond for part in statements(nest.body) if isinstance(part, If))
    assert not [cond for cond in conditions if any(isinstance(node, Binary) and node.op == "mod" for node in nodes(cond))]


def test_what_is_written_round_is_what_numpy_writes() -> None:
    """A row that is put down further along, and begins anew at the end of the other one."""
    n = 200
    X, S, r = tl.placeholder((n,), name="X"), tl.placeholder((), "int32", name="S"), tl.reduce_axis(n)
    start = tl.compute((n,), lambda _: tl.cast(0, "float32"), name="start")
    R = tl.scatter(start, r, lambda r: (r + S[()]) % n, lambda r: X[r], name="R")
    x = np.random.default_rng(0).random(n, "float32")
    for shift in (0, 3, 199, -77):
        np.testing.assert_array_equal(tl.build(R)(x, np.array(shift, np.int32)), np.roll(x, shift))


def test_the_model_has_lanes_of_a_rolled_row_as_neighbours() -> None:
    X, I = tl.placeholder((64, 4096), name="X"), tl.placeholder((64, 4096), "int32", name="I")
    rolls = tl.Schedule(rolled(64, 4096))
    picked = tl.Schedule(tl.compute((64, 4096), lambda i, j: X[i, tl.clamp(I[i, j], 0, 4095)], name="P"))
    seconds = []
    for s in (rolls, picked):
        s.vectorize(s.split("j", 16)[1])
        seconds.append(s.estimate(target("znver4")).shares["L1"])
    assert seconds[0] < 0.3 * seconds[1]
