"""Quotients and remainders that loops decide go, and every value stays."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.quotients import decide_quotients
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Buffer, For, Nest, Store
from tensorlang.ir.dtype import dtype
from tensorlang.ir.printer import print_nest, text
from tensorlang.semantics.nest_interpreter import run_nest

EXTENTS = (3, 8)


def nest(op: str, factors: tuple[int, int], offset: int, by: int) -> Nest:
    """out[i, j] = (a i + b j + offset) // by, or % by."""
    value: ir.Expr = ir.const(offset)
    for name, factor in zip(("i", "j"), factors, strict=True):
        value = Binary("add", value, Binary("mul", ir.const(factor), Axis(name)))
    out = Buffer("out", tuple(ir.const(extent) for extent in EXTENTS), dtype("int64"), "argument")
    body: ir.Stmt = Store("out", (out,), (Axis("i"), Axis("j")), (Binary(op, value, ir.const(by)),))
    for name, extent in reversed(list(zip(("i", "j"), EXTENTS, strict=True))):
        body = For(name, ir.const(0), ir.const(extent), body)
    return Nest("out", (), (out,), (), body)


@pytest.mark.parametrize("op", ["floordiv", "mod"])
@pytest.mark.parametrize("by", [1, 4, 8, 9])
def test_every_rewritten_index_has_the_value_that_it_had(op: str, by: int) -> None:
    for factors in itertools.product((-8, -1, 0, 1, 3, 8), repeat=2):
        for offset in (-9, 0, 5):
            before = nest(op, factors, offset, by)
            results = []
            for body in (before.body, decide_quotients(before.body)):
                out = np.zeros(EXTENTS, "int64")
                run_nest(Nest("out", (), before.outputs, (), body), {"out": out}, {})
                results.append(out)
            np.testing.assert_array_equal(*results)


def test_the_digits_of_a_split_come_back() -> None:
    for op, expected in (("floordiv", "i"), ("mod", "j")):
        (store,) = (part for part in ir_stores(decide_quotients(nest(op, (8, 1), 0, 8).body)))
        assert text(store.values[0]) == expected


@pytest.mark.parametrize("steps", range(7))
def test_the_places_of_unrolled_steps_are_their_own(steps: int) -> None:
    """The state of step t + 1 lies where that of step t does not: their quotients look alike from one copy of the loop to the next."""
    n = tl.dim("n")
    x = tl.placeholder((2,), name="X")
    state = tl.scan(lambda t, h: tl.compute((2,), lambda j: h[j] * 2 + 1, name="N"), x, n, keep="last", name="S")
    s = tl.Schedule(state)
    s.split("S.t", 5)
    s.unroll("S.t_i")
    start = np.arange(2, dtype="float32")
    np.testing.assert_array_equal(tl.build(s)(start, n=steps), (start + 1) * 2**steps - 1)


def ir_stores(stmt: ir.Stmt) -> list[Store]:
    """The stores of a nest of loops."""
    while isinstance(stmt, For):
        stmt = stmt.body
    assert isinstance(stmt, Store)
    return [stmt]


def test_a_vector_over_one_block_of_a_layout_is_one_access() -> None:
    x = tl.placeholder((32, 5), name="X")
    h = tl.compute((32, 5), lambda c, y: x[c, y] * 2, name="h")
    s = tl.Schedule(tl.compute((5, 32), lambda y, c: h[c, y] + 1, name="v"))
    s.transform_layout("h", lambda c, y: (c // 8, y, c % 8))
    s.vectorize(s.split("v.c", 8)[1])
    assert "v[y, 8 * c_o + c_i] = h[c_o, y, c_i] + 1.0" in print_nest(lower(s.nest, target()))
