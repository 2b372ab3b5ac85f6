"""Quotients and remainders that loops decide go, and every value stays."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.algebra.bounds import interval
from tensorlang.algebra.quotients import taken_apart
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.quotients import decide_quotients
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Buffer, For, Nest, Store
from tensorlang.ir.dtype import dtype
from tensorlang.ir.linear import Linear, expression
from tensorlang.ir.printer import print_nest, text
from tensorlang.ir.traverse import substitute
from tensorlang.semantics.nest_interpreter import run_nest
from tests.thinned import crossed

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


@crossed({"op": ["floordiv", "mod"], "by": [1, 4, 8, 9, 12, 16, 24]})
def test_every_rewritten_index_has_the_value_that_it_had(op: str, by: int) -> None:
    for factors in itertools.product((-8, -1, 0, 1, 3, 8, 12), repeat=2):
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


small = st.integers(-40, 40)


@given(st.sampled_from(["floordiv", "mod"]), st.lists(st.tuples(small, st.integers(-9, 9), st.integers(0, 12)), max_size=3), small, small)
def test_what_is_taken_apart_has_its_value_over_all_ranges(op: str, terms: list[tuple[int, int, int]], constant: int, by: int) -> None:
    form = Linear(constant, {Axis(f"x{n}"): factor for n, (factor, _, _) in enumerate(terms) if factor})
    ranges = {f"x{n}": (first, first + extent) for n, (_, first, extent) in enumerate(terms)}
    divisor = abs(by) + 1
    found = taken_apart(op, form, divisor, lambda rest: interval(expression(rest), {Axis(name): at for name, at in ranges.items()}))
    if found is None:
        return
    for point in itertools.islice(itertools.product(*(range(first, last + 1) for first, last in ranges.values())), 200):
        at = {name: ir.const(number) for name, number in zip(ranges, point, strict=True)}
        whole = Binary(op, expression(form), ir.const(divisor))
        assert simplify(substitute(found, at)) == simplify(substitute(whole, at))


def test_a_vector_within_a_block_of_the_divisor_leaves_the_quotient() -> None:
    form = Linear(0, {Axis("o"): 16, Axis("l"): 1})

    def span(rest: Linear) -> tuple[int, int] | None:
        return (0, 15) if rest.terms.keys() == {Axis("l")} else None

    found = {op: taken_apart(op, form, 64, span) for op in ("floordiv", "mod")}
    assert {op: text(expr) for op, expr in found.items() if expr is not None} == {"floordiv": "o // 4", "mod": "l + 16 * (o % 4)"}


INDICES: Any = {
    "remainders of a row of vectors": (lambda i: i % 64, 64),
    "quotients of a row of vectors": (lambda i: i // 64, 16),
    "remainders of rows that are no vectors": (lambda i: i % 100, 100),
    "quotients of rows that are no vectors": (lambda i: i // 100, 11),
    "remainders within a vector": (lambda i: i % 3, 3),
    "quotients within a vector": (lambda i: i // 5, 205),
    "one half of each butterfly": (lambda i: i // 256 * 256 + i % 128, 1024),
}


@crossed({"which": INDICES, "machine": ["znver3", "znver4"]})
def test_lanes_find_what_digits_index_without_gathers(which: str, machine: str) -> None:
    index, extent = INDICES[which]
    x, y = tl.placeholder((1024,), name="x"), tl.placeholder((extent,), name="y")
    defined = tl.compute((1024,), lambda i: x[i] * y[index(i)], name="z")
    assert "gather" not in tl.build(defined, machine).inspect("llvm")
    values = np.arange(1024, dtype="f4"), np.random.default_rng(7).random(extent, "f4")
    found = tl.build(defined)(x=values[0], y=values[1])
    np.testing.assert_array_equal(found, values[0] * values[1][index(np.arange(1024))])
