"""Integer operators on Python's integers are those of the evaluator, and extents have the values of their dims."""

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.errors import InternalError
from tensorlang.ir import Axis, Binary, Dim, Expr, Unary
from tensorlang.ir.dtype import DType
from tensorlang.ir.integers import ARITHMETIC, COMPARE, known_value, value_of
from tensorlang.ir.linear import quotient, solve
from tensorlang.semantics import arithmetic
from tensorlang.semantics.scalars import wrapper

N, M = Dim("n"), Dim("m")


def extent(part: Any) -> Expr:
    (found,) = tl.placeholder((part,)).extents
    return found


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARE])
def test_wrapped_to_a_type_every_row_is_that_of_the_evaluator(op: str, dtype: str) -> None:
    of = DType(dtype)
    low, high = int(of.lowest), int(of.highest)
    ends = [value for value in {low, low + 1, -8, -2, -1, 0, 1, 2, 3, 7, 8, 63, 64, high - 1, high} if low <= value <= high]
    wrap, row = wrapper(of), {**ARITHMETIC, **COMPARE}[op]
    act = arithmetic.compare if op in COMPARE else arithmetic.binary
    with arithmetic.quiet():
        for a in ends:
            for b in ends:
                want = act(op, np.asarray(a, of.numpy), np.asarray(b, of.numpy), of)
                assert (row(a, b) if op in COMPARE else wrap(row(a, b))) == want, (a, b)


def test_an_extent_has_a_value_where_all_its_dims_are_known() -> None:
    size = extent((tl.dim("n") * 2 - tl.dim("m")) // 3)
    assert known_value(size, {"n": 10, "m": 4}) == value_of(size, {"n": 10, "m": 4}) == 5
    assert known_value(size, {"n": 10}) is None
    assert value_of(Unary("neg", Binary("mod", N, ir.const(0))), {"n": 7}) == 0
    with pytest.raises(InternalError, match="has no value where n is known"):
        value_of(size, {"n": 10})


def test_an_axis_of_the_name_of_a_dim_has_not_its_value() -> None:
    assert known_value(Binary("add", N, Axis("n")), {"n": 3}) is None


def test_an_extent_is_solved_for_its_one_unknown_dim() -> None:
    assert solve(extent(2 * tl.dim("n") + 1), 11, {}) == ("n", 5)
    assert solve(extent(2 * tl.dim("n")), 9, {}) is None
    assert solve(extent(tl.dim("n") // 2), 4, {}) is None
    assert solve(extent(tl.dim("n") + tl.dim("m")), 9, {}) is None
    assert solve(extent(tl.dim("n") * tl.dim("m") + tl.dim("m") // 2), 22, {"m": 4}) == ("n", 5)
    assert quotient(Binary("mul", N, M)) is None
