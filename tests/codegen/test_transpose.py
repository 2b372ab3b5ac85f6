"""Strided vector stores side by side are turned in registers: the values stay, the scattered stores go."""

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from bench.programs.fields import cloth
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tests.thinned import crossed

TYPES = ("bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "int64", "float64")


def turned(n: Any, m: Any, dtype: str, rows: int, columns: int, tail: str = "peel", target: str | None = None) -> tl.Kernel:
    a = tl.placeholder((n, m), dtype, name="A")
    s = tl.Schedule(tl.compute((m, n), lambda i, j: a[j, i], name="B"))
    io, jo, ii, ji = s.tile("i", "j", rows, columns, tail)
    s.reorder(io, jo, ji, ii)
    s.unroll(ji)
    s.vectorize(ii)
    return tl.build(s, target=target)


@crossed({"dtype": TYPES, "rows, columns": [(16, 16), (8, 3), (4, 13), (16, 20), (32, 2), (6, 4)]})
def test_a_transposition_in_registers_is_numpys(dtype: str, rows: int, columns: int) -> None:
    a = (np.random.default_rng(0).random((37, 53)) * 100).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    np.testing.assert_array_equal(turned(37, 53, dtype, rows, columns)(a), a.T)


@crossed({"tail": ["guard", "mask", "peel", "shift"], "n, m": [(0, 5), (1, 1), (5, 40), (40, 5), (33, 47)]})
def test_every_tail_and_extent_gives_the_same(tail: str, n: int, m: int) -> None:
    a = np.random.default_rng(1).random((n, m)).astype(np.float32)
    np.testing.assert_array_equal(turned(n, m, "float32", 16, 8, tail)(a), a.T)


@crossed({"dtype": ["uint8", "bfloat16", "int32"], "extent": [1, 5, 16, 37, 58, 64]})
def test_rows_that_fill_what_lies_between_lanes_are_interleaved(dtype: str, extent: int) -> None:
    """Channels of an image, four of them side by side; the last one lacks a row."""
    a = tl.placeholder((7, extent), dtype, name="A")
    x = tl.compute((7, extent), lambda c, y: a[c, y], name="X")
    s = tl.Schedule(tl.compute((7, extent), lambda c, y: x[c, y], name="B"))
    s.transform_layout("X", "lambda c, y: (c // 4, y, c % 4)")
    block, part = s.split("X.c", 4, "peel")
    tile, lane = s.split("X.y", 16, "peel")
    s.reorder(block, tile, part, lane)
    s.unroll(part)
    s.vectorize(lane)
    values = (np.random.default_rng(0).random((7, extent)) * 100).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    kernel = tl.build(s, target="x86-64-v4")
    assert extent == 1 or "scatter" not in kernel.inspect("llvm")
    np.testing.assert_array_equal(tl.build(s)(values), values)


@pytest.mark.parametrize("target", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_no_lane_is_stored_by_itself(target: str) -> None:
    """A tile of 4 x 4 doubles takes four rows of stores where sixteen lanes were."""
    code = turned(64, 64, "float64", 4, 4, target=target).inspect("llvm")
    assert "extractelement" not in code
    assert code.count("shufflevector") >= 4


@crossed(
    {
        "tail": ["guard", "mask"],
        "n, m": [(0, 5), (1, 1), (5, 40), (40, 5), (33, 47)],
        "known": ["n", "m", ""],
        "target": [None, "x86-64-v3", "x86-64"],
    }
)
def test_rows_whose_length_a_call_tells_are_turned_too(tail: str, n: int, m: int, known: str, target: str | None) -> None:
    """A transposition of 500 x 400 took three and a half times as long as that of literals."""
    shape = (n if known == "n" else tl.dim("n"), m if known == "m" else tl.dim("m"))
    kernel = turned(*shape, "float32", 16, 8, tail, target)
    a = np.random.default_rng(1).random((n, m)).astype(np.float32)
    np.testing.assert_array_equal(kernel(a), a.T)


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_whole_tiles_of_any_rows_store_along_memory(target: str) -> None:
    code = turned(tl.dim("n"), tl.dim("m"), "float32", 8, 8, "mask", target).inspect("llvm")
    assert len(re.findall(r"store <8 x float> [^,]+, ptr [^,]+, align 4", code)) >= 8


@pytest.mark.parametrize("m", [1, 2, 3, 8, 9])
def test_places_that_a_dim_in_an_index_tells_may_be_the_same(m: int) -> None:
    """Of elements that are written twice the last one stays."""
    a, width = tl.placeholder((8, 8), "int32", name="A"), tl.dim("m", least=1)
    p, q = tl.reduce_axis(8, name="p"), tl.reduce_axis(8, name="q")
    size = 7 * width + 8
    s = tl.Schedule(tl.scatter(tl.compute((size,), lambda i: 0), (p, q), lambda p, q: width * p + q, lambda p, q: a[p, q], "set", name="S"))
    values, want = np.arange(64, dtype=np.int32).reshape(8, 8), np.zeros(7 * m + 8, np.int32)
    for row in range(8):
        for column in range(8):
            want[m * row + column] = values[row, column]
    s.unroll("S.q")
    np.testing.assert_array_equal(tl.build(s)(values, m=m), want)
    s = tl.Schedule(s.outputs)
    if s.can("vectorize", "S.p"):
        s.reorder("S.q", "S.p")
        s.unroll("S.q")
        s.vectorize("S.p")
    np.testing.assert_array_equal(tl.build(s)(values, m=m), want)


def test_elements_that_overlap_are_stored_in_order() -> None:
    """Lanes of a neighbouring iteration may be the same elements where the stride is short: the last one stays."""
    a = tl.placeholder((8, 8), "int32", name="A")
    p, q = tl.reduce_axis(8, name="p"), tl.reduce_axis(8, name="q")
    s = tl.Schedule(tl.scatter(tl.compute((24,), lambda i: 0), (p, q), lambda p, q: 2 * p + q, lambda p, q: a[p, q], "set", name="S"))
    values = np.arange(64, dtype=np.int32).reshape(8, 8)
    want = np.zeros(24, np.int32)
    for row in range(8):
        for column in range(8):
            want[2 * row + column] = values[row, column]
    np.testing.assert_array_equal(tl.build(s)(values), want)
    for loop in ("S.p", "S.q"):
        s.unroll(loop)
    np.testing.assert_array_equal(tl.build(s)(values), want)


def test_values_computed_in_a_register_tile_are_stored_across_it() -> None:
    """A product whose lanes are rows of the result writes its tile along memory."""
    a, b = tl.placeholder((30, 40), name="A"), tl.placeholder((40, 50), name="B")
    k = tl.reduce_axis(40, name="k")
    c = tl.compute((30, 50), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = tl.Schedule(c)
    io, jo, ii, ji = s.tile("i", "j", 16, 5, "peel")
    s.reorder(io, jo, "k", ji, ii)
    s.accumulate("C", at=jo)
    s.vectorize(ii)
    s.unroll(ji)
    x, y = np.random.default_rng(2).random((30, 40), np.float32), np.random.default_rng(3).random((40, 50), np.float32)
    np.testing.assert_allclose(tl.build(s)(x, y), x @ y, rtol=1e-5)


@pytest.mark.parametrize("columns", [9, 10, 12, 13])
def test_rows_that_are_constant_are_turned_with_those_that_are_loaded(columns: int) -> None:
    """A padded transposition: the first row of a tile that is cut has as many lanes as are wanted, the next as many as are computed."""
    a = tl.placeholder((4, 2, columns - 2), "float32", name="A")
    padded = tl.pad(a, [(1, 2), (2, 1), (1, 1)])
    s = tl.Schedule(tl.compute((5, columns, 7), lambda i, j, k: padded[k, i, j], name="B"))
    s.compute_inline(padded.name)
    jo, ji = s.split("B.j", 8, "peel")
    ko, ki = s.split("B.k", 4, "peel")
    s.reorder("B.i", jo, ko, ki, ji)
    s.vectorize(ji)
    s.unroll(ki)
    values = np.random.default_rng(3).random((4, 2, columns - 2)).astype(np.float32)
    np.testing.assert_array_equal(tl.build(s)(values), np.pad(values, [(1, 2), (2, 1), (1, 1)]).transpose(1, 2, 0))


@crossed({"dtype": ["bool", "uint8", "bfloat16", "int32", "float64"], "channels": [2, 3, 5, 6, 7], "columns": [1, 5, 37, 64]})
def test_channels_that_are_no_power_of_two_are_woven_into_pixels(dtype: str, channels: int, columns: int) -> None:
    a = tl.placeholder((channels, 3, columns), dtype, name="A")
    s = tl.Schedule(tl.compute((3, columns, channels), lambda i, j, c: a[c, i, j], name="B"))
    outer, inner = s.split("j", 16, "peel")
    s.reorder(outer, "c", inner)
    s.unroll("c")
    s.vectorize(inner)
    values = (np.random.default_rng(0).random((channels, 3, columns)) * 100).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    np.testing.assert_array_equal(tl.build(s)(values), values.transpose(1, 2, 0))


@pytest.mark.parametrize("channels", [3, 5, 6])
def test_woven_pixels_are_stored_in_whole_vectors(channels: int) -> None:
    a = tl.placeholder((channels, 64), "uint8", name="A")
    s = tl.Schedule(tl.compute((64, channels), lambda j, c: a[c, j], name="B"))
    outer, inner = s.split("j", 64)
    s.reorder(outer, "c", inner)
    s.unroll("c")
    s.vectorize(inner)
    code = tl.build(s, target="x86-64-v4").inspect("llvm")
    assert code.count("store <64 x i8>") == channels
    assert "masked.store" not in code and "extractelement" not in code


def of_pixels(steps: tl.Tensor) -> tl.Schedule:
    """Lanes along a row of pixels, the channels of each copied inside."""
    s = tl.Schedule(steps)
    outer, inner = s.split("j", 16, "peel")
    s.reorder("t", outer, "c", inner)
    s.vectorize(inner)
    s.unroll("c")
    return s


@pytest.mark.parametrize("columns", [16, 37, 64])
def test_pixels_are_woven_though_lanes_choose_what_is_read_of_them(columns: int) -> None:
    """A pixel reads its own channel of a step before, not at an edge: of what the other channels store it reads nothing."""
    x = tl.placeholder((columns, 3), name="x")
    steps = tl.recurrence(
        (5, columns, 3),
        lambda t, j, c, own: x[j, c] + tl.select(j == 0, 0.5, 2.0 * own[t - 1, j, c] - own[t - 1, j, (c + 1) % 3]),
        name="S",
    )
    s = of_pixels(steps)
    given = np.random.default_rng(0).integers(0, 9, (columns, 3)).astype(np.float32)
    want = np.zeros((6, columns, 3), np.float32)
    for t in range(5):
        want[t + 1] = given + np.where(np.arange(columns)[:, None] == 0, 0.5, 2 * want[t] - np.roll(want[t], -1, 1))
    np.testing.assert_array_equal(tl.build(s)(given), want[1:])
    if columns % 16 == 0:
        assert not re.search(r"scatter|store float ", tl.build(s, target="x86-64-v4").inspect("llvm"))


@pytest.mark.parametrize("columns", [16, 37])
@pytest.mark.parametrize("asks", [lambda c: c == 2, lambda c: (c == 0) | (c == 2), lambda c: c % 2 == 0, lambda c: tl.minimum(c, 1) == 0])
def test_pixels_are_woven_though_their_channels_are_computed_otherwise(asks: Callable[[tl.Expr], tl.Expr], columns: int) -> None:
    """Which channel it is each copy knows, so that no branch stands between stores that wait for one another."""
    x = tl.placeholder((columns, 3), name="x")

    def pixel(t: tl.Expr, j: tl.Expr, c: tl.Expr, own: tl.Tensor) -> tl.Expr:
        found = x[j, c] + tl.select(asks(c), 2.0 * own[t - 1, j, (c + 1) % 3], own[t - 1, j, c])
        return tl.select(j == 0, 0.5, found)

    steps = tl.recurrence((4, columns, 3), pixel, name="S")
    s = of_pixels(steps)
    given = np.random.default_rng(0).integers(0, 9, (columns, 3)).astype(np.float32)
    np.testing.assert_array_equal(tl.build(s)(given), tl.evaluate(steps, {x: given}))


def test_no_pixel_of_a_state_is_stored_by_itself() -> None:
    """Of a cloth of springs, whose height alone gravity changes, on one thread: 48 such stores were in its loop."""
    strategy = choose(cloth()[0], target("znver4"), 1)
    code = tl.build(strategy.schedule(strategy.default), target="x86-64-v4").inspect("llvm")
    assert not re.search(r"store float ", code)
