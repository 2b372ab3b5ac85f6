"""Loops of which a test cuts the iterations in two run in parts: every iteration once and in its order, and no part asks the test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.cuts import cut_where_tested
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Buffer, Compare, Expr, For, If, Load, Nest, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import statements
from tensorlang.semantics.nest_interpreter import run_nest

small = st.integers(-9, 9)
terms = st.builds(lambda c, a: Binary("mul", ir.const(c), Axis(a)), small, st.sampled_from(["y", "x"]))
forms = st.builds(lambda a, b, c: Binary("add", Binary("add", a, b), ir.const(c)), terms, terms, small)
orders = st.builds(Compare, st.sampled_from(["lt", "le", "gt", "ge", "eq"]), forms, forms)
tests = st.one_of(orders, st.builds(lambda a, b: Binary("and", a, b), orders, orders))


def in_turn(test: Expr, other: Expr, ends: list[tuple[int, int]]) -> Nest:
    """Two loops around versions that a test chooses, of which the second has versions again; what they write shows their order."""
    b = Buffer("b", (ir.const(5),), INT64, "argument")

    def written(value: int) -> Stmt:
        at = Binary("mod", Binary("add", Binary("mul", ir.const(2), Axis("y")), Axis("x")), ir.const(5))
        state = Binary("add", Binary("mul", ir.const(3), Load(b, (at,))), ir.const(value))
        return Store("b", (b,), (at,), (Binary("mod", Binary("add", state, Axis("x")), ir.const(10_007)),))

    body: Stmt = If(test, written(1), If(other, written(5), written(11)))
    for name, (first, extent) in zip(("x", "y"), ends, strict=True):
        body = For(name, ir.const(first), ir.const(first + extent), body)
    return Nest("b", (), (b,), (), body)


@given(tests, tests, st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 7)), min_size=2, max_size=2))
def test_every_iteration_runs_once_and_in_its_order(test: Expr, other: Expr, ends: list[tuple[int, int]]) -> None:
    nest = in_turn(test, other, ends)
    results = []
    for body in (nest.body, cut_where_tested(nest.body)):
        arrays = {"b": np.arange(5)}
        run_nest(Nest("b", (), nest.outputs, (), body), arrays, {})
        results.append(arrays["b"])
    np.testing.assert_array_equal(*results)


def loops_that_choose(stmt: Stmt) -> list[str]:
    """The loops whose iterations choose one of two versions."""
    return [part.loop for part in statements(stmt) if isinstance(part, For) and isinstance(part.body, If) and part.body.orelse is not None]


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge"])
def test_an_order_of_two_loops_is_asked_in_neither_part(op: Any) -> None:
    nest = in_turn(Compare(op, Axis("x"), Axis("y")), Compare("eq", Axis("y"), ir.const(3)), [(0, 7), (0, 7)])
    found = cut_where_tested(nest.body)
    assert loops_that_choose(nest.body) == ["x"]
    assert [part for part in statements(found) if isinstance(part, If) and part.cond == Compare(op, Axis("x"), Axis("y"))] == []


def test_loops_that_threads_share_stay_whole() -> None:
    nest = in_turn(Compare("lt", Axis("x"), ir.const(3)), Compare("eq", Axis("y"), ir.const(3)), [(0, 7), (0, 7)])
    assert isinstance(nest.body, For)
    inner = nest.body.body
    assert isinstance(inner, For)
    shared = For(inner.loop, inner.lo, inner.hi, inner.body, "parallel")
    assert cut_where_tested(shared) == shared


def test_whole_vectors_of_a_triangle_ask_nothing() -> None:
    """Of each row the vectors below the diagonal are a loop, and the one that crosses it is asked for once."""
    a = tl.placeholder((64, 64), name="A")
    r = tl.reduce_axis(64, name="r")
    s = tl.Schedule(tl.compute((64,), lambda i: tl.sum(a[i, r] * a[63 - i, r], axis=r, where=r <= i), name="C"))
    s.vectorize(s.split("r", 16)[1])
    whole, rest = [part for part in statements(lower(s.nest, target("znver4")).body) if isinstance(part, For) and part.loop == "C.r_o"]
    assert isinstance(whole.body, For) and whole.body.kind == "vector" and isinstance(whole.body.body, Store)
    assert simplify(Binary("sub", rest.hi, rest.lo)) == ir.const(1)
