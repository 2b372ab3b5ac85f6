"""Choices by the remainder of the lanes' index: each remainder in vectors of its own, where that saves more than it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.analysis.stages import stages_of
from tensorlang.schedules.strategies.loops.phases import Phases
from tests.schedules.programs import check
from tests.thinned import crossed

Body = Callable[[Any, Any, Any, Any], Any]

BODIES: Final[dict[str, tuple[int, Body]]] = {
    "two functions": (2, lambda a, b, i, j: tl.select(j % 2 == 0, tl.exp(a[i, j]), tl.tanh(b[i, j]))),
    "one of four": (4, lambda a, b, i, j: tl.select(j % 4 == 3, tl.exp(a[i, j]), b[i, j] * 2)),
    "shifted": (2, lambda a, b, i, j: tl.select((j + 1) % 2 == 0, tl.exp(a[i, j]), b[i, j])),
    "nested": (4, lambda a, b, i, j: tl.select(j % 2 == 0, tl.exp(a[i, j]), tl.select(j % 4 == 1, tl.tanh(b[i, j]), a[i, j]))),
    "read by halves": (2, lambda a, b, i, j: tl.select(j % 2 == 0, a[i, j // 2], (a[i, j // 2] + b[i, j // 2]) * 0.5)),
    "by halves": (2, lambda a, b, i, j: a[i, j // 2] + 0.25 * b[i, tl.clamp(j // 2 - 1 + 2 * (j % 2), 0, 69)]),
    "by quarters": (4, lambda a, b, i, j: a[i // 2, j // 4] * 2),
    "by thirds": (1, lambda a, b, i, j: a[i, j // 3] * 2),
    "of both loops": (1, lambda a, b, i, j: tl.select((i + j) % 2 == 0, tl.exp(a[i, j]), b[i, j])),
    "of three": (1, lambda a, b, i, j: tl.select(j % 3 == 0, tl.exp(a[i, j]), b[i, j])),
    "of rows": (1, lambda a, b, i, j: tl.select(i % 2 == 0, tl.exp(a[i, j]), b[i, j])),
}


def chosen(body: str, columns: int = 70) -> tl.Tensor:
    a, b = tl.placeholder((5, columns), name="A"), tl.placeholder((5, columns), name="B")
    result: tl.Tensor = tl.compute((5, columns), lambda i, j: BODIES[body][1](a, b, i, j), name="D")
    return result


def phases(result: tl.Tensor) -> Phases:
    (info,) = stages_of(tl.Schedule(result).nest)
    return Phases.of(info, info.outer[-1], target("znver3").lanes(info.widest))


@pytest.mark.parametrize("body", BODIES)
def test_remainders_count_that_alone_decide(body: str) -> None:
    assert phases(chosen(body)).count == BODIES[body][0]


@crossed({"body": BODIES, "columns": [0, 1, 8, 15, 16, 17, 70], "cpu": ["native"]})
def test_every_point_computes_what_the_definition_means(body: str, columns: int, cpu: str) -> None:
    strategy = choose(chosen(body, columns), target(cpu), 1)
    for config in strategy.space:
        check(strategy.schedule(config), interpret=False)


def test_each_remainder_computes_its_side_alone() -> None:
    strategy = choose(chosen("two functions"), target("znver3"), 1)
    assert strategy.default["phases"]
    text = str(strategy.schedule(strategy.default))
    assert "unroll j_i_i in range(2)" in text
    assert "vector j_i_o in range(8)" in text


def test_cheap_sides_are_computed_together() -> None:
    a, b = tl.placeholder((64,), name="A"), tl.placeholder((64,), name="B")
    cheap = phases(tl.compute((64,), lambda i: tl.select(i % 2 == 0, a[i], b[i]), name="D"))
    assert cheap == Phases(2, pay=False, chosen=True)


@crossed({"dtype": ["uint8", "int16", "float32", "float64"], "columns": [1, 2, 63, 64, 200], "cpu": ["native"]})
def test_planes_are_woven_by_rows_and_columns(dtype: str, columns: int, cpu: str) -> None:
    """A mosaic of four planes, as of a sensor's colours."""
    a, b, c, d = (tl.placeholder((3, -(-columns // 2)), dtype, name=name) for name in "abcd")
    planes = [np.random.default_rng(seed).integers(0, 99, (3, -(-columns // 2))).astype(dtype) for seed in range(4)]

    def element(i: Any, j: Any) -> Any:
        even, odd = (tl.select(j % 2 == 0, left[i // 2, j // 2], right[i // 2, j // 2]) for left, right in ((a, b), (c, d)))
        return tl.select(i % 2 == 0, even, odd)

    strategy = choose(tl.compute((6, columns), element, name="D"), target(cpu), 1)
    want = np.zeros((6, 2 * -(-columns // 2)), dtype)
    want[::2, ::2], want[::2, 1::2], want[1::2, ::2], want[1::2, 1::2] = planes
    assert (np.asarray(tl.build(strategy.schedule(strategy.default))(*planes)) == want[:, :columns]).all()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32"])
def test_what_is_doubled_is_read_side_by_side_and_interleaved(dtype: str) -> None:
    a = tl.placeholder((768, 1280), dtype, name="A")
    strategy = choose(tl.compute((1536, 2560), lambda i, j: a[i // 2, j // 2], name="D"), target("znver4"), 1)
    assert strategy.default["phases"]


def test_lanes_of_one_remainder_that_lie_apart_are_read_together() -> None:
    """Runs of two, half of the row apart: each of four remainders would read every other element."""
    a = tl.placeholder((512,), name="A")
    assert not phases(tl.compute((256,), lambda i: a[i // 4 * 2 + i % 2] - a[i // 4 * 2 + i % 2 + 256], name="D")).pay


def test_a_row_that_is_no_whole_number_of_registers_is_interleaved_too() -> None:
    """56 even columns and 56 odd ones, of two results: three registers and a half of each."""
    a, b = tl.placeholder((4, 56), name="A"), tl.placeholder((4, 56), name="B")
    both = tl.compute((8, 112), lambda i, j: (a[i // 2, j // 2], 2 * b[i // 2, j // 2]), name="D")
    strategy = choose(both, target("znver4"), 1)
    assert strategy.default["phases"]
    code = tl.build(strategy.schedule(strategy.default), target="x86-64-v4").inspect("llvm")
    assert "store float" not in code and "extractelement" not in code
    values, others = (np.random.default_rng(seed).random((4, 56), dtype=np.float32) for seed in (0, 1))
    for have, want in zip(tl.build(strategy.schedule(strategy.default))(values, others), (values, 2 * others), strict=True):
        np.testing.assert_array_equal(have, want.repeat(2, 0).repeat(2, 1))


def test_sums_of_both_columns_of_a_pixel_are_kept_in_registers_and_stored_together() -> None:
    """An image of twice the size: of a loop that is not written out, sums lay in memory and were stored lane by lane."""
    h, w = 30, 80
    x, f = tl.placeholder((h, w), name="X"), tl.placeholder((2, 4), name="F")
    a, b = tl.reduce_axis(4, name="a"), tl.reduce_axis(4, name="b")

    def value(i: Any, j: Any) -> Any:
        near = x[tl.clamp((i + 1) // 2 + a - 2, 0, h - 1), tl.clamp((j + 1) // 2 + b - 2, 0, w - 1)]
        return tl.sum(f[i % 2, a] * f[j % 2, b] * near, axis=(a, b))

    y = tl.compute((2 * h, 2 * w), value, name="Y")
    kernel = tl.build(y, target="x86-64-v3")
    given = np.random.default_rng(0).random((h, w), np.float32), np.random.default_rng(1).random((2, 4), np.float32)
    np.testing.assert_allclose(kernel(*given), tl.evaluate(y, {x: given[0], f: given[1]}), rtol=1e-5)
    assert kernel.inspect("asm").count("extractps") < 8
