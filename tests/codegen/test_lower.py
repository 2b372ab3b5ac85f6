"""Lowering leaves no relation, keeps the meaning, and takes conditions out of the hot loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen import compilation
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes.storage import hoist_allocations
from tensorlang.codegen.target import target
from tensorlang.ir import Alloc, Axis, Buffer, For, If, Load, Nest, Stmt, Store, allocate, block, const
from tensorlang.ir.dtype import FLOAT32
from tensorlang.ir.mentions import allocations
from tensorlang.ir.printer import print_nest
from tensorlang.ir.traverse import axes_of, statements
from tensorlang.ir.verify import verify
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.strategies import choose
from tensorlang.semantics.nest_interpreter import run_nest
from tests.schedules.programs import blur, check, feeds, matmul, scale

NATIVE = target("native")


def scheduled(tail: str) -> tl.Schedule:
    s = tl.Schedule(matmul(7, 19, 5))
    for loop, factor in (("i", 3), ("j", 8), ("k", 2)):
        s.split(loop, factor, tail)  # type: ignore[arg-type]
    s.reorder("j_o", "k_o", "i_o", "k_i", "i_i", "j_i")
    s.pack("B", at="k_o")
    s.accumulate("C", at="i_o")
    s.vectorize("j_i")
    s.unroll("i_i")
    return s


@pytest.mark.parametrize("tail", ["guard", "mask", "peel"])
def test_every_pass_keeps_the_meaning(tail: str) -> None:
    s = scheduled(tail)
    given = feeds(s.outputs, {})
    want = tl.evaluate(s.outputs[0], given)
    seen: list[str] = []

    def watch(name: str, nest: Nest) -> None:
        seen.append(name)
        verify(nest)
        arrays = {buffer.name: array for buffer, array in zip(nest.inputs, given.values(), strict=True)}
        result = np.full((7, 19), np.nan, "f4")
        run_nest(nest, {**arrays, "C": result}, {})
        np.testing.assert_allclose(result, want, rtol=1e-5, err_msg=name)

    lowered = lower(s.nest, NATIVE, watch)
    assert lowered.relations == ()
    assert seen[:2] == ["without_idle", "realise"]
    assert seen[-1] == "share"


def test_versions_that_are_too_much_code_together_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a schedule may be can be built: the budget is asked of by directives, and no pass goes beyond it of its own accord."""
    s, seen = scheduled("guard"), list[str]()
    whole = lower(s.nest, NATIVE, lambda name, _: seen.append(name))
    assert (seen.count("realise"), seen.count("hoist")) == (1, 1)
    monkeypatch.setattr("tensorlang.codegen.lowering.lower.MAX_EMITTED", 0)
    seen.clear()
    least = lower(s.nest, NATIVE, lambda name, _: seen.append(name))
    assert (seen.count("realise"), seen.count("hoist")) == (3, 2)
    assert instructions(least.body) < instructions(whole.body)
    check(s)


def test_a_tail_of_a_serial_loop_is_a_bound() -> None:
    s = tl.Schedule(scale(2, 10))
    s.split("j", 4)
    assert "for j_i in range(minimum(4, -4 * j_o + 10)):" in print_nest(lower(s.nest, NATIVE))


def test_a_triangular_condition_is_a_bound() -> None:
    a, k = tl.placeholder((9, 9), name="A"), tl.reduce_axis(9, name="k")
    s = tl.Schedule(tl.compute((9,), lambda i: tl.sum(a[i, k], axis=k, where=(k <= i) & (2 * k >= i)), name="Y"))
    nest = lower(s.nest, NATIVE)
    assert "for k in range(maximum(0, (i + 1) // 2), minimum(9, i + 1)):" in print_nest(nest)
    assert not any(isinstance(part, If) for part in statements(nest.body))


def test_the_conditions_of_a_partial_tile_stand_outside_the_hot_loop() -> None:
    nest = lower(scheduled("guard").nest, NATIVE)
    loops = [part for part in statements(nest.body) if isinstance(part, For) and part.loop == "C.k_i"]
    free = [loop for loop in loops if not any(isinstance(part, If) for part in statements(loop.body))]
    assert free


def test_the_rows_of_a_partial_tile_are_counted_once() -> None:
    """Columns have edges of their own within: each version of the rows has one, which does not ask again how many rows there are."""
    m, n, k = tl.dim("m"), tl.dim("n"), tl.reduce_axis(5, name="k")
    a, b = tl.placeholder((m, 5), name="A"), tl.placeholder((5, n), name="B")
    s = tl.Schedule(tl.compute((m, n), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C"))
    i_i, j_i = s.split("i", 4, "mask")[1], s.split("j", 8, "mask")[1]
    s.reorder("i_o", "j_o", "k", i_i, j_i)
    s.vectorize(j_i)
    s.unroll(i_i)
    counted = [part.cond for part in statements(lower(s.nest, target("x86-64-v3")).body) if isinstance(part, If)]
    of_rows = [str(cond) for cond in counted if "C.i_o" in axes_of(cond) and "C.j_o" not in axes_of(cond)]
    assert len(of_rows) == 2 + 1 + 1, (
        of_rows
    )  # whole ones are a loop of their own; 3 and 2 rows; the one row of the last, in its two versions of columns
    check(s, dims={"m": 7, "n": 9})


def _safely(s: tl.Schedule, **given: list[int]) -> list[int]:
    """What the lowered nest computes of these operands, interpreted: an element that is not there is an error."""
    arrays = {name: np.array(values, np.int64) for name, values in given.items()}
    arrays["Y"] = np.full(tuple(int(extent) for extent in s.outputs[0].shape), -1, np.int64)
    run_nest(lower(s.nest, NATIVE), arrays, {})
    return [int(value) for value in arrays["Y"]]


def storage_in_loops(nest: Nest) -> list[str]:
    """The storage that is taken in every iteration of some loop."""
    return [buffer.name for part in statements(nest.body) if isinstance(part, For) for buffer in allocations(part.body)]


def test_storage_of_each_row_is_taken_once() -> None:
    """That of a stage behind another one, too: with a row of exponentials for each, eight rows of 300 took 1.7 times as long."""
    s = tl.Schedule(tl.ops.softmax(tl.placeholder((8, tl.dim("m")), name="X")))
    for stage in ("softmax_sum", "softmax_exp", "softmax_max"):
        s.compute_at(stage, "softmax.i")
    assert len(storage_in_loops(s.nest)) == 3
    assert storage_in_loops(lower(s.nest, NATIVE)) == []
    check(s, dims={"m": 37})


def test_storage_of_one_name_is_taken_once_where_it_is_the_same_and_stays_where_it_is_not() -> None:
    x, y = Buffer("X", (const(8),), FLOAT32), Buffer("Y", (const(8),), FLOAT32)
    small, large = Buffer("T", (const(4),), FLOAT32), Buffer("T", (const(8),), FLOAT32)

    def copied(through: Buffer) -> Stmt:
        there = Store("t", (through,), (const(0),), (Load(x, (Axis("i"),)),))
        return allocate((through,), block(there, Store("y", (y,), (Axis("i"),), (Load(through, (const(0),)),))))

    for second, inside in ((small, 0), (large, 2)):
        loop = For("i", const(0), const(8), block(copied(small), copied(second)))
        found = hoist_allocations(loop)
        verify(Nest("y", (x,), (y,), (), found, ()))
        assert sum(len(part.buffers) for part in statements(found) if isinstance(part, Alloc)) == (inside or 1)


def test_a_condition_stays_behind_the_one_that_protects_what_it_reads() -> None:
    """Of an empty row, `L[i]` is 8 and `T[L[i]]` is not there: the range that bounds the loop keeps it from being read."""
    L, T, lo, X = (tl.placeholder((n,), "int64", name=name) for name, n in (("L", 2), ("T", 8), ("lo", 2), ("X", 8)))

    def row(i: tl.Expr) -> tl.Expr:
        j = tl.reduce_axis((L[i], 8), name="j", within=8)
        return tl.sum(X[j], axis=j, where=(T[tl.maximum(L[i], 0)] > 0) & (j >= lo[i]))

    s = tl.Schedule(tl.compute((2,), row, name="Y"))
    assert _safely(s, L=[7, 8], T=[1] * 8, lo=[0, 0], X=[1] * 8) == [1, 0]


@pytest.mark.parametrize("order", [("m", "j", "k"), ("k", "m", "j"), ("m", "k", "j")])
def test_a_bound_is_not_read_outside_of_what_protects_it_through_others(order: tuple[str, ...]) -> None:
    """`T[P[i]]` is there because of P <= k <= L <= j < 8: the bound of `m` is evaluated inside those, wherever they stand."""
    wide = 1 << 6
    L, P, T, X = (tl.placeholder((n,), "int64", name=name) for name, n in (("L", 2), ("P", 2), ("T", 8), ("X", 8)))

    def cell(i: tl.Expr) -> tl.Expr:
        j = tl.reduce_axis((L[i], 8), name="j", within=8)
        k = tl.reduce_axis((P[i], tl.clamp(L[i], -5, wide - 1) + 1), name="k", within=wide)
        m = tl.reduce_axis((T[tl.clamp(P[i], 0, wide)], 8), name="m", within=8)
        return tl.sum(X[j] + X[m], axis=(j, k, m))

    s = tl.Schedule(tl.compute((2,), cell, name="Y"))
    s.reorder(*order)
    assert _safely(s, L=[3, 40], P=[2, 40], T=[0] * 8, X=[1] * 8) == [2 * 5 * 2 * 8, 0]


def test_a_peeled_tail_leaves_no_condition_on_literal_extents() -> None:
    s = tl.Schedule(scale(3, 11))
    s.unroll(s.split("j", 4, "peel")[1])
    assert not any(isinstance(part, If) for part in statements(lower(s.nest, NATIVE).body))


def test_vector_loops_stand_at_stores_and_fit_a_register() -> None:
    narrow = target("x86-64-v3")
    for program in (matmul(9, 40, 6), blur(), scale(3, 100)):
        strategy = choose(program, narrow, 1)
        nest = lower(strategy.schedule(strategy.default).nest, narrow)
        for part in statements(nest.body):
            if isinstance(part, For) and part.kind == "vector":
                assert part.hi.value - part.lo.value <= 8  # type: ignore[union-attr]
                assert not any(isinstance(inner, For) for inner in statements(part.body))


def test_what_is_lowered_to_see_whether_it_stays_small_is_not_lowered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Nest] = []

    def counted(nest: Nest, of: object) -> Nest:
        seen.append(nest)
        return lower(nest, of)  # type: ignore[arg-type]

    monkeypatch.setattr(compilation, "lower", counted)
    monkeypatch.setattr(compilation, "MAX_EMITTED", 16)
    outputs = matmul(7, 19, 5)
    nest = compilation.default_schedule(outputs, NATIVE).nest
    (first,) = seen
    again = compilation._lowered(replace(first, name="other"), NATIVE)
    assert seen == [first]
    assert again == replace(lower(first, NATIVE), name="other")
    assert compilation._lowered(nest, NATIVE) == lower(nest, NATIVE)  # once
    assert seen == [first, nest]


def test_the_lanes_of_a_sum_beside_another_statement_are_combined_once() -> None:
    """Exponentials and their sum in one loop: its lanes are added up behind the loop, not in each of its steps."""
    s = tl.Schedule(tl.ops.softmax(tl.placeholder((5, 70), name="x")))
    for stage in ("sum", "exp", "max"):
        s.compute_at(f"softmax_{stage}", "softmax.i")
    s.fuse_loops("softmax_exp.i", "softmax_sum.i")
    s.fuse_loops("softmax_exp.j", "softmax_sum.k")
    s.split("softmax_sum.k", 16, tail="peel")
    s.vectorize("softmax_sum.k_i")
    check(s)
    steps = [part for part in statements(lower(s.nest, NATIVE).body) if isinstance(part, For) and part.loop == "softmax_sum.k_o"]
    assert steps
    assert not any(isinstance(part, For) and ".sum" in part.loop for step in steps for part in statements(step.body))
