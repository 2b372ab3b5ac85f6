"""What conditions around a statement decide of its indices: sums of axes as well as single ones, and nothing that they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.lowering.passes.guarded import settled_by_guards
from tensorlang.codegen.target import target
from tensorlang.ir import Binary, Compare, Expr, If, Load, Nest
from tensorlang.ir.printer import print_nest
from tests.codegen.nests import arg, index, loop, store

C, J = (64, "c"), "j"


def guarded_read(guard: Expr, place: Expr) -> str:
    """The statement `Y[j] = X[place]` under a condition, in two registers of 64 lanes, after the pass."""
    x, y = arg("X", 256), arg("Y", 256)
    body = If(guard, store(y, (index(C, J),), Load(x, (place,))))
    nest = Nest("f", (x,), (y,), (), loop("c", 2, loop("j", 64, body, "vector"), "unroll"))
    return print_nest(settled_by_guards(nest))


def below(bound: int, *terms: Any) -> Expr:
    return Compare("lt", index(*terms), ir.const(bound))


def of(op: str, left: Expr, right: int) -> Expr:
    return Binary(op, left, ir.const(right))


@pytest.mark.parametrize(
    ("guard", "place", "word"),
    [
        (below(255, C, J, 129), of("mod", index(C, J, 130), 256), "%"),
        (Compare("le", index(C, J), ir.const(125)), of("mod", index(C, J, 130), 256), "%"),
        (Compare("gt", ir.const(126), index(C, J)), of("mod", index(C, J, 130), 256), "%"),
        (Compare("ge", index(C, J), ir.const(6)), of("max", index(C, J, -6), 0), "maximum"),
        (below(100, C, J), of("min", index(C, J, 3), 102), "minimum"),
        (Compare("ge", index(C, J), ir.const(56)), of("mod", index(C, J, 200), 256), "%"),
    ],
)
def test_a_sum_that_a_condition_bounds_decides(guard: Expr, place: Expr, word: str) -> None:
    assert word not in guarded_read(guard, place)


@pytest.mark.parametrize(
    ("guard", "asked"),
    [
        (Compare("lt", index(C, J), index(C, 64)), False),  # 64 c + j < 64 c + 64
        (Compare("lt", index(C, J), index(C, 63)), True),
        (Compare("ge", index(C, J), index(C)), False),
        (Compare("gt", index(C, J), index(C)), True),
    ],
)
def test_a_condition_that_loops_decide_is_gone(guard: Expr, asked: bool) -> None:
    assert ("if" in guarded_read(guard, index(C, J))) == asked


@pytest.mark.parametrize(
    ("guard", "place", "word"),
    [
        (below(256, C, J, 129), of("mod", index(C, J, 130), 256), "%"),
        (below(255, C, J, 129), of("mod", index(C, (2, J), 130), 256), "%"),
        (Compare("ge", index(C, J), ir.const(5)), of("max", index(C, J, -6), 0), "maximum"),
        (Compare("ne", index(C, J), ir.const(126)), of("mod", index(C, J, 130), 256), "%"),
    ],
)
def test_what_a_condition_leaves_open_stays(guard: Expr, place: Expr, word: str) -> None:
    assert word in guarded_read(guard, place)


@given(st.integers(2, 5), st.integers(1, 70), st.integers(0, 3))
def test_tori_of_any_width_are_what_numpy_says(rows: int, width: int, reach: int) -> None:
    X = tl.placeholder((rows, width), "uint8", name="X")
    read = lambda i, j: X[(i + rows - 1) % rows, (j + width - reach % width) % width] + X[i, (j + reach) % width]  # noqa: E731
    x: Any = np.random.default_rng(0).integers(0, 100, (rows, width)).astype(np.uint8)
    wanted = np.roll(np.roll(x, 1, 0), reach, 1) + np.roll(x, -reach, 1)
    assert np.array_equal(tl.build(tl.compute((rows, width), read, name="Y"))(x), wanted)


def test_a_row_around_a_torus_is_read_in_vectors() -> None:
    """The last tile of a row is not whole: what its lanes read one further on is in the row still."""
    X = tl.placeholder((256, 256), "uint8", name="X")
    near = lambda i, j: X[i, (j + 255) % 256] + X[i, j] + X[i, (j + 1) % 256]  # noqa: E731
    kernel = tl.build(tl.compute((256, 256), near, name="Y"), target=target("znver4"))
    assert str(kernel.inspect("asm")).count("vpinsrb") < 8
