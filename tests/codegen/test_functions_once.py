"""Functions of what copies of a statement, or sides of a choice, have in common are computed once, and the cost model knows how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl

ROWS = 160
SLOW = "quarter_turns"
"""A part of what follows a sine or a cosine of a large angle, once for each that is computed."""


def angles(rows: int = ROWS) -> Any:
    return tl.placeholder((rows,), name="q")


def computed(y: Any) -> int:
    """How many sines and cosines stand in the code."""
    return sum("call" in line and SLOW in line for line in tl.build(y).inspect("asm").splitlines())


def right(y: Any, *operands: Any) -> None:
    given = [np.random.default_rng(0).random(part.shape, np.float32) * 6 - 3 for part in operands]
    np.testing.assert_allclose(tl.build(y)(*given), tl.evaluate(y, dict(zip(operands, given, strict=True))), rtol=1e-4, atol=1e-5)


def test_copies_share_a_function_of_what_they_all_read() -> None:
    q, w = angles(), tl.placeholder((16,), name="w")
    y = tl.compute((ROWS, 16), lambda b, c: tl.cos(q[b]) * w[c], name="Y")
    s = tl.Schedule(y)
    b_i = s.split("b", 16)[1]
    s.reorder("b_o", "c", b_i)
    s.unroll("c")
    s.vectorize(b_i)
    assert computed(s) == 1
    right(y, q, w)


def test_copies_share_nothing_of_what_the_nest_writes() -> None:
    """What a stage beside the copies makes is not what it was before."""
    q = angles(8)
    y = tl.compute((8,), lambda b: tl.cos(q[b]), name="Y")
    z = tl.compute((8, 4), lambda b, c: tl.sin(y[b]) + tl.cast(c, "float32"), name="Z")
    s = tl.Schedule(z)
    s.compute_at("Y", "Z.b")
    s.unroll("Z.c")
    given = np.linspace(-3, 3, 8, dtype=np.float32)
    np.testing.assert_allclose(tl.build(s)(given), tl.evaluate(z, {q: given}), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("columns", [4, 16])
def test_sides_of_a_choice_share_what_both_compute(columns: int) -> None:
    """A row of a matrix that turns by an angle: each element is one of its cosine and its sine, of which several have the same."""
    q = angles()

    def element(b: Any, c: Any) -> Any:
        ct, st = tl.cos(q[b]), tl.sin(q[b])
        return tl.select(c == 0, ct, tl.select(c == 1, -st, tl.select(c == 2, st * 2, tl.select(c == 3, ct * st, 1.0))))

    y = tl.compute((ROWS, columns), element, name="Y")
    assert computed(y) <= 4  # of each lane or each row, in the vectors and behind the last of them
    right(y, q)


def test_the_model_counts_functions_on_the_sides_of_a_digit() -> None:
    """Of four columns in the lanes of a vector each vector has all: none is seldom, and both functions are computed."""
    q = angles(4096)
    y = tl.compute((4096, 4), lambda b, c: tl.select(c == 0, tl.cos(q[b]), tl.select(c == 1, tl.sin(q[b]), 1.0)), name="Y")
    plain = tl.compute((4096, 4), lambda b, c: tl.select(c == 0, q[b], tl.select(c == 1, -q[b], 1.0)), name="Y")
    seconds = []
    for part in (y, plain):
        s = tl.Schedule(part)
        s.vectorize(s.split(s.fuse("b", "c"), 32)[1])
        seconds.append(s.estimate(tl.target("znver4")).seconds)
    assert seconds[0] > 3 * seconds[1]


def test_each_mask_has_its_own_function_of_what_it_reads() -> None:
    """Of elements that data tell only the lanes of a side are read: the other side computes of its own."""
    x, at = tl.placeholder((64,), name="x"), tl.placeholder((16,), "int64", name="at")

    def element(c: Any, b: Any) -> Any:
        turned = tl.sin(x[tl.clamp(at[b], 0, 63)])
        return tl.select(b < 5, turned, tl.select(b < 11, 2 * turned, 3 * turned + tl.cast(c, "float32")))

    y = tl.compute((4, 16), element, name="Y")
    s = tl.Schedule(y)
    s.unroll("c")
    s.vectorize("b")
    given = np.random.default_rng(0).random(64, np.float32), np.random.default_rng(1).integers(0, 64, 16)
    np.testing.assert_allclose(tl.build(s)(*given), tl.evaluate(y, {x: given[0], at: given[1]}), rtol=1e-5, atol=1e-6)
