"""The past of a recurrence is in registers, choices on data are no branches, and every value stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.carried import carried
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Block, Buffer, Compare, Expr, For, Load, Nest, Select, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import expressions, loads_of, statements, walk
from tensorlang.semantics.nest_interpreter import run_nest

EXTENT = 16
reads = st.lists(st.tuples(st.sampled_from(["s", "x"]), st.integers(-5, 5), st.sampled_from([0, 0, 1]), st.booleans()), max_size=4)


def _value(found: list[tuple[str, int, int, bool]], buffers: dict[str, Buffer]) -> Expr:
    total: Expr = Axis("j")
    for name, apart, row, chosen in found:
        at = Binary("min", Binary("max", Binary("add", Axis("j"), ir.const(apart)), ir.const(0)), ir.const(EXTENT - 1))
        exact = Binary("add", Axis("j"), ir.const(apart))
        load = Load(buffers[name], (Binary("sub", Axis("i"), ir.const(row)), exact if -5 <= apart <= 2 else at))
        sign = Compare("lt", Load(buffers["x"], (Axis("i"), Axis("j"))), ir.const(0))
        total = Binary("add", Binary("mul", ir.const(2), total), Select(sign, load, Binary("sub", ir.const(3), load)) if chosen else load)
    return total


@given(reads, reads, st.integers(5, 12), st.integers(0, 13), st.booleans())
def test_every_element_is_what_it_was(first: Any, second: Any, lo: int, extent: int, twice: bool) -> None:
    shape = (ir.const(4), ir.const(EXTENT))
    buffers = {name: Buffer(name, shape, INT64, "argument") for name in "sxz"}
    hi = min(lo + extent, EXTENT - 2)
    stores = [Store("s", (buffers["s"],), (Axis("i"), Axis("j")), (_value(first, buffers),))]
    stores.append(Store("z", (buffers["s" if twice else "z"],), (Axis("i"), Axis("j")), (_value(second, buffers),)))
    body: Stmt = For("j", ir.const(lo), ir.const(hi), Block(tuple(stores)))
    nest = Nest("s", (buffers["x"],), (buffers["s"], buffers["z"]), (), For("i", ir.const(1), ir.const(4), body))
    results = []
    for program in (nest, carried(nest, lambda _: 4)):
        rng = np.random.default_rng(3)
        arrays = {name: rng.integers(-50, 50, (4, EXTENT)) for name in "sxz"}
        run_nest(program, arrays, {})
        results.append(arrays)
    for name in "sxz":
        np.testing.assert_array_equal(results[0][name], results[1][name])


@given(reads, reads, st.integers(1, 3), st.integers(0, 9), st.sampled_from([(4, 4), (16,), (2, 8)]), st.booleans())
def test_every_element_of_rows_in_lanes_is_what_it_was(first: Any, second: Any, lo: int, extent: int, lanes: Any, both: bool) -> None:
    """Two states of one statement or of two, whose rows run in few vectors."""
    shape = (ir.const(16), ir.const(16))
    buffers = {name: Buffer(name, shape, INT64, "argument") for name in "sxz"}
    names = ("c", "j")[-len(lanes) :]
    column = Axis("j") if len(lanes) == 1 else Binary("add", Binary("mul", ir.const(lanes[1]), Axis("c")), Axis("j"))

    def value(found: Any, other: str) -> Expr:
        total: Expr = column
        for name, apart, _, chosen in found:
            row = Binary("max", Binary("sub", Axis("i"), ir.const(abs(apart))), ir.const(0))
            exact = Binary("sub", Axis("i"), ir.const(min(abs(apart), lo)))
            load = Load(buffers[other if name == "s" and chosen else name], (row if abs(apart) == 5 else exact, column))
            total = Binary("add", Binary("mul", ir.const(2), total), load)
        return total

    index, values = (Axis("i"), column), (value(first, "z"), value(second, "s"))
    each = [Store(name, (buffers[name],), index, (own,)) for name, own in zip("sz", values, strict=True)]
    stores = [Store("s", (buffers["s"], buffers["z"]), index, values)] if both else each
    body: Stmt = Block(tuple(stores)) if len(stores) > 1 else stores[0]
    for name, count in reversed(list(zip(names, lanes, strict=True))):
        body = For(name, ir.const(0), ir.const(count), body, "vector" if name == "j" else "unroll")
    loop = For("i", ir.const(lo), ir.const(min(lo + extent, 16)), body)
    nest = Nest("s", (buffers["x"],), (buffers["s"], buffers["z"]), (), loop)
    results = []
    for program in (nest, carried(nest, lambda _: 4)):
        rng = np.random.default_rng(3)
        arrays = {name: rng.integers(-50, 50, (16, 16)) for name in "sxz"}
        run_nest(program, arrays, {})
        results.append(arrays)
    for name in "sxz":
        np.testing.assert_array_equal(results[0][name], results[1][name])


def test_the_main_loop_of_a_recurrence_reads_nothing_that_it_wrote() -> None:
    a = tl.placeholder((300,), name="a")
    sums = tl.recurrence((300,), lambda i, s: 2 * s[i - 1] - s[i - 3] + a[i], dtype="float32", name="r")
    loops = [part for part in statements(lower(tl.Schedule(sums).nest, target()).body) if isinstance(part, For)]
    read = {load.buffer.name for part in statements(loops[-1]) for expr in expressions(part) for load in loads_of(expr)}  # type: ignore[attr-defined]
    assert "a" in read
    assert "r" not in read


def test_few_vectors_of_a_row_stay_in_registers_and_many_do_not() -> None:
    """Down the columns, a row in lanes: of one vector each step would wait for the store of the one before."""
    for columns, kept in ((16, True), (512, False)):
        x = tl.placeholder((300, columns), name="x")
        down = tl.recurrence((300, columns), lambda i, j, y, x=x: tl.select(i == 0, x[0, j], 0.1 * x[i, j] + 0.9 * y[i - 1, j]), name="d")
        s = tl.Schedule(down)
        s.vectorize(s.split("j", 16)[1])
        stores = [part for part in statements(lower(s.nest, target("znver4")).body) if isinstance(part, Store)]
        assert any(part.stage == "d.past" for part in stores) == kept
        given = np.random.default_rng(0).random((300, columns), "float32")
        wanted = given.astype("float64")
        for i in range(1, 300):
            wanted[i] = 0.1 * wanted[i] + 0.9 * wanted[i - 1]
        np.testing.assert_allclose(tl.build(s)(given), wanted, rtol=1e-5)


def run_lengths(values: Any) -> Any:
    found, last = [], 0
    for value in values:
        last = last + 1 if value > 0 else 0
        found.append(last)
    return found


@pytest.mark.parametrize("extent", [1, 2, 3, 4, 5, 100])
@pytest.mark.parametrize("unknown", [False, True])
def test_choices_on_data_in_a_recurrence(extent: int, unknown: bool) -> None:
    n = tl.dim("n") if unknown else extent
    a = tl.placeholder((n,), "int32", name="a")
    lengths = tl.recurrence((n,), lambda i, s: tl.select(a[i] > 0, s[i - 1] + 1, 0), dtype="int32", name="r")
    values = np.random.default_rng(extent).integers(-1, 3, extent).astype("i4")
    assert tl.build(lengths)(values).tolist() == run_lengths(values)


def test_a_choice_on_data_between_reads_that_exist_is_no_branch() -> None:
    a = tl.placeholder((1000,), "int32", name="a")
    lengths = tl.recurrence((1000,), lambda i, s: tl.select(a[i] > 0, s[i - 1] + 1, 0), dtype="int32", name="r")
    text = tl.build(lengths, "znver3").inspect("llvm")
    assert "!unpredictable" in text
    assert "chosen" not in text


def test_a_read_that_only_its_condition_keeps_inside_stays_under_it() -> None:
    a, p = tl.placeholder((10,), name="a"), tl.placeholder((64,), "int64", name="p")
    found = tl.recurrence((64,), lambda i, s: s[i - 1] + tl.select((p[i] >= 0) & (p[i] < 10), a[p[i]], 1.0), dtype="float32", name="r")
    where = np.random.default_rng(0).integers(-(10**9), 10**9, 64)
    where[::7] = 3
    values = np.arange(10, dtype="f4")
    inside = (where >= 0) & (where < 10)
    expected = np.cumsum(np.where(inside, values[np.where(inside, where, 0)], 1.0), dtype="f4")
    np.testing.assert_allclose(tl.build(found)(a=values, p=where), expected)


def test_copies_of_a_choice_on_data_are_no_branches() -> None:
    """A longest common subsequence in tiles of 4 x 4: what a side reads is there whatever is chosen, in every copy."""
    n = 64
    a, b = tl.placeholder((n,), dtype="int32", name="a"), tl.placeholder((n,), dtype="int32", name="b")

    def element(i: Any, j: Any, found: Any) -> Any:
        return tl.select(a[i] == b[j], found[i - 1, j - 1] + 1, tl.maximum(found[i - 1, j], found[i, j - 1]))

    longest = tl.recurrence((n, n), element, name="L", dtype="int32")
    s = tl.Schedule(longest)
    (i_o, i_i), (j_o, j_i) = s.split("i", 4), s.split("j", 4)
    s.reorder(i_o, j_o, j_i, i_i)
    s.unroll(j_i)
    s.unroll(i_i)
    interior = [part for part in statements(lower(s.nest, target()).body) if isinstance(part, Store) and part.stage == "L"][-1]
    choices = [node for node in walk(interior.values[0]) if isinstance(node, Select)]
    sides = [load for choice in choices for side in (choice.yes, choice.no) for load in loads_of(side)]
    assert sides and all(load.buffer.memory == "register" for load in sides if isinstance(load.buffer, Buffer))
    kernel = tl.build(s)
    x, y = (np.random.default_rng(seed).integers(0, 4, n, dtype=np.int32) for seed in (0, 1))
    wanted = np.zeros((n + 1, n + 1), np.int32)
    for i, j in np.ndindex(n, n):
        wanted[i + 1, j + 1] = wanted[i, j] + 1 if x[i] == y[j] else max(wanted[i, j + 1], wanted[i + 1, j])
    np.testing.assert_array_equal(kernel(x, y), wanted[1:, 1:])
