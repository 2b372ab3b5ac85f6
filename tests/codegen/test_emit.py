"""Hand-made lowered nests through the emitter to machine code: loops, reductions, conditions, storage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.errors import InternalError
from tensorlang.ir import (
    Alloc,
    Axis,
    Binary,
    Block,
    Buffer,
    Cast,
    Compare,
    Const,
    Dim,
    If,
    Load,
    LoopKind,
    Memory,
    Nest,
    Param,
    Reducer,
    Select,
    Store,
    const,
)
from tensorlang.ir.dtype import FLOAT32, FLOAT64, INT64
from tests.codegen.nests import SUM, ZERO, Array, Guarded, Run, arg, index, loop, matmul_nest, operands, store, tile_nest, unary


def close(found: Array, a: Array, b: Array) -> bool:
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = a.shape[1] * np.finfo(np.float32).eps * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    return bool(np.all(np.abs(found - exact) <= bound))


# Loops and reductions ------------------------------------------------------------------------------------------------------------


def test_a_serial_matmul_computes_the_product(run: Run) -> None:
    a, b = operands((7, 11), (11, 5))
    c = np.full((7, 5), np.nan, np.float32)
    assert run(matmul_nest(7, 5, 11), a, b, c) == 0
    assert close(c, a, b)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("on", ["native", "x86-64-v3", "x86-64"])
def test_a_register_tile_gives_the_bits_of_the_serial_loop(run: Run, guarded: Guarded, on: str, mask: bool) -> None:
    n = 39 if mask else 64
    a, b = map(guarded, operands((12, 9), (9, n)))
    plain, tiled = np.empty((12, n), np.float32), guarded(np.empty((12, n), np.float32))
    run(matmul_nest(12, n, 9), a, b, plain, on=on)
    run(tile_nest(12, n, 9, rows=6, lanes=32, mask=mask), a, b, tiled, on=on)
    assert plain.tobytes() == tiled.tobytes()
    assert close(tiled, a, b)


@pytest.mark.parametrize(("on", "lanes", "register"), [("znver4", 16, "zmm"), ("x86-64-v3", 8, "ymm")])
def test_the_inner_loop_of_a_register_tile_touches_no_stack(on: str, lanes: int, register: str) -> None:
    machine = target(on)
    for vectors, width in ((2, lanes), (1, 2 * lanes)):
        nest = tile_nest(12, 4 * lanes, 64, rows=6, lanes=width, vectors=vectors)
        text = binding.render(emit(nest, machine, name="f"), machine.machine, "asm")
        hot = hottest(text)
        assert sum("vfmadd" in line and register in line for line in hot) == 12
        assert not [line for line in hot if "rsp" in line or "rbp" in line]
        assert sum("vmov" in line for line in hot) == 2  # the two vectors of B


def hottest(text: str) -> list[str]:
    """The lines of the innermost loop of an assembly text: the shortest span from a label to a backward jump to it that has an fma."""
    lines = text.splitlines()
    labels = {line.split(":")[0]: n for n, line in enumerate(lines) if re.match(r"\.?\w+:", line)}
    spans = []
    for n, line in enumerate(lines):
        jump = re.match(r"\s+j\w+\s+(\S+)", line)
        if jump and labels.get(jump[1], n) < n:
            spans.append(lines[labels[jump[1]] : n + 1])
    return min((span for span in spans if any("vfmadd" in line for line in span)), key=len)


def test_masked_register_tiles_stay_in_registers() -> None:
    machine = target("znver4")
    text = binding.render(emit(tile_nest(12, 39, 64, rows=6, lanes=32, mask=True), machine, name="f"), machine.machine, "asm")
    assert not [line for line in hottest(text) if "rsp" in line]


def test_every_component_of_a_tuple_reduction_sees_the_old_state(run: Run) -> None:
    n = 50
    x, value, place = arg("X", n), arg("V", 1), arg("P", 1, dtype=INT64)
    a0, b0, a1, b1 = Param("a0", FLOAT32), Param("b0", FLOAT32), Param("a1", INT64), Param("b1", INT64)
    better = Compare("gt", b0, a0)
    argmax = Reducer("argmax", (Const(float("-inf"), FLOAT32), Const(0)), (Select(better, b0, a0), Select(better, b1, a1)))
    i = Axis("i")
    start = Store("s", (value, place), (const(0),), (Const(float("-inf"), FLOAT32), const(-1)))
    step = Store("s", (value, place), (const(0),), (Load(x, (i,)), i), argmax)
    (data,) = operands((n,))
    found, where = np.empty(1, np.float32), np.empty(1, np.int64)
    assert run(Nest("argmax", (x,), (value, place), (), Block((start, loop("i", n, step)))), data, found, where) == 0
    assert (found[0], where[0]) == (data.max(), data.argmax())


def test_values_are_computed_before_the_first_store(run: Run) -> None:
    a, b = arg("A", 4), arg("B", 4)
    i = (Axis("i"),)
    swap = Store("swap", (a, b), i, (Load(b, i), Load(a, i)))
    for kind in ("serial", "unroll", "vector"):
        x, y = operands((4,), (4,))
        before = x.copy(), y.copy()
        run(Nest("swap", (), (a, b), (), loop("i", 4, swap, kind)), x, y)
        assert np.array_equal(x, before[1])
        assert np.array_equal(y, before[0])


def test_extents_may_be_known_at_run_time_only(run: Run) -> None:
    n, m = Dim("n"), Dim("m")
    x, y = arg("X", n, m), arg("Y", m, n)
    i, j = Axis("i"), Axis("j")
    nest = Nest("transpose", (x,), (y,), ("n", "m"), loop("i", n, loop("j", m, store(y, (j, i), Load(x, (i, j))))))
    for shape in ((3, 5), (1, 4), (0, 4), (4, 0)):
        (data,) = operands(shape)
        found = np.empty(shape[::-1], np.float32)
        assert run(nest, data, found, dims=shape) == 0
        assert np.array_equal(found, data.T)


@pytest.mark.parametrize("lanes", [2, 3, 5, 7, 8, 16, 24, 33, 256])
def test_any_number_of_lanes_is_possible(run: Run, guarded: Guarded, lanes: int) -> None:
    n = 300
    x, y = arg("X", n), arg("Y", n)
    place = index((lanes, "o"), "l")
    body = If(Compare("lt", place, const(n)), store(y, (place,), Binary("add", Load(x, (place,)), Cast(place, FLOAT32))))
    nest = Nest("f", (x,), (y,), (), loop("o", -(-n // lanes), loop("l", lanes, body, "vector")))
    data, found = map(guarded, (*operands((n,)), np.zeros(n, np.float32)))
    assert run(nest, data, found) == 0
    assert np.array_equal(found, data + np.arange(n, dtype=np.float32))


# Conditions ----------------------------------------------------------------------------------------------------------------------


def test_only_the_chosen_side_of_a_select_is_read(run: Run, guarded: Guarded) -> None:
    n = 37
    x, y = arg("X", n), arg("Y", n)
    for kind in ("serial", "vector", "unroll"):
        for before in (False, True):
            shift = -1 if before else 1
            source = index("i", shift)
            inside = Compare("ge" if before else "lt", source, const(0 if before else n))
            value = Select(inside, Load(x, (source,)), Const(9.0, FLOAT32))
            (data,) = operands((n,))
            found = guarded(np.zeros(n, np.float32), before=before)
            assert run(unary(store(y, (Axis("i"),), value), x, y, kind), guarded(data, before=before), found) == 0
            padded = np.pad(data, 1, constant_values=9)
            assert np.array_equal(found, padded[:n] if before else padded[2:])


def test_a_uniform_read_happens_only_if_some_lane_wants_it(run: Run) -> None:
    x, flag, y = arg("X", 0), arg("F", 16, dtype="bool"), arg("Y", 16)
    i = Axis("i")
    chosen = Select(Load(flag, (i,)), Load(x, (const(1 << 40),)), ZERO)
    branch = If(Load(flag, (i,)), store(y, (i,), Load(x, (const(1 << 40),))), store(y, (i,), ZERO))
    for body in (store(y, (i,), chosen), branch):
        found = np.ones(16, np.float32)
        nest = Nest("f", (x, flag), (y,), (), loop("i", 16, body, "vector"))
        assert run(nest, np.zeros(0, np.float32), np.zeros(16, bool), found) == 0
        assert not found.any()


def test_both_sides_of_a_condition_run_in_their_lanes(run: Run) -> None:
    n = 20
    x, y = arg("X", n), arg("Y", n)
    i = Axis("i")
    nested = If(
        Compare("gt", Load(x, (i,)), ZERO),
        If(Compare("lt", i, const(13)), store(y, (i,), Const(1.0, FLOAT32)), store(y, (i,), Const(2.0, FLOAT32))),
        store(y, (i,), Const(3.0, FLOAT32)),
    )
    (data,) = operands((n,))
    expected = np.where(data > 0, np.where(np.arange(n) < 13, 1, 2), 3)
    for kind in ("serial", "vector", "unroll"):
        found = np.zeros(n, np.float32)
        assert run(Nest("f", (x,), (y,), (), loop("i", n, nested, kind)), data, found) == 0
        assert np.array_equal(found, expected)


def test_a_full_vector_needs_no_mask() -> None:
    x, y = arg("X", 32), arg("Y", 32)
    place = index((16, "o"), "l")
    body = If(Compare("lt", place, const(32)), store(y, (place,), Load(x, (place,))))
    text = emit(Nest("f", (x,), (y,), (), loop("o", 2, loop("l", 16, body, "vector"), "unroll")), target("native"), name="f")
    assert "masked" not in text
    assert "icmp" not in text


def test_serial_loops_and_conditions_stand_inside_vector_loops(run: Run) -> None:
    n, k = 24, 7
    x, y = arg("X", k, n), arg("Y", n)
    i, l = Axis("i"), Axis("k")
    add = store(y, (i,), Load(x, (l, i)), SUM)
    body = Block(
        (
            store(y, (i,), ZERO),
            loop("k", k, If(Compare("ne", l, const(3)), If(Compare("lt", i, const(21)), add))),
        )
    )
    (data,) = operands((k, n))
    found = [np.empty(n, np.float32) for _ in range(2)]
    kinds: list[LoopKind] = ["serial", "vector"]
    for out, kind in zip(found, kinds, strict=True):
        assert run(Nest("f", (x,), (y,), (), loop("i", n, body, kind)), data, out) == 0
    assert found[0].tobytes() == found[1].tobytes()
    assert np.allclose(found[1][:21], np.delete(data, 3, axis=0).sum(0)[:21], atol=1e-5)
    assert not found[1][21:].any()


# Memory --------------------------------------------------------------------------------------------------------------------------


def test_conditions_known_lane_by_lane_mask_without_comparing(run: Run, guarded: Guarded) -> None:
    y = arg("Y", 6, dtype=INT64)
    l = Axis("l")
    nest = Nest("f", (), (y,), (), loop("l", 8, If(Compare("lt", l, const(6)), store(y, (l,), l)), "vector"))
    found = guarded(np.zeros(6, np.int64))
    assert run(nest, found) == 0
    assert found.tolist() == list(range(6))
    assert "icmp" not in emit(nest, target("native"), name="f")


@pytest.mark.parametrize("memory", ["auto", "stack", "heap"])
@pytest.mark.parametrize("n", [17, 9000])
def test_storage_lives_where_it_is_told(run: Run, memory: Memory, n: int) -> None:
    x, y, temporary = arg("X", n), arg("Y", n), Buffer("T", (const(n),), FLOAT32, memory)
    twice = loop("a", n, store(temporary, (Axis("a"),), Binary("add", Load(x, (Axis("a"),)), Load(x, (Axis("a"),)))))
    back = loop("b", n, store(y, (Axis("b"),), Load(temporary, (index((-1, "b"), n - 1),))))
    nest = Nest("f", (x,), (y,), (), Alloc((temporary,), Block((twice, back))))
    (data,) = operands((n,))
    found = np.empty_like(data)
    assert run(nest, data, found) == 0
    assert np.array_equal(found, 2 * data[::-1])
    on_heap = memory == "heap" or (memory == "auto" and n == 9000)
    assert ("tensorlang_take" in emit(nest, target("native"), name="f")) == on_heap


# What is refused, and what stays the same ----------------------------------------------------------------------------------------


def test_broken_promises_of_the_lowering_are_named() -> None:
    x, y = arg("X", 8), arg("Y", 8)
    i, zero = Axis("i"), const(0)
    split = ir.SplitRelation("i", "o", "l", 4, zero, const(8))
    bad = {
        "derived axes": Nest("f", (x,), (y,), (), Block(()), (split,)),
        "inside the vector loop i": Nest("f", (x,), (y,), (), loop("i", 4, loop("j", 2, store(y, (i,), ZERO), "vector"), "vector")),
        "no constant extent": Nest("f", (x,), (y,), ("n",), loop("i", Dim("n"), store(y, (i,), ZERO), "unroll")),
        "no constant shape": Nest(
            "f", (x,), (y,), ("n",), Alloc((Buffer("T", (Dim("n"),), FLOAT64, "register"),), store(y, (zero,), ZERO))
        ),
        "differ between the lanes": Nest("f", (x,), (y,), (), loop("i", 4, loop("j", i, store(y, (i,), ZERO)), "vector")),
        "at most 256": Nest("f", (x,), (y,), (), loop("i", 257, store(y, (i,), ZERO), "vector")),
    }
    for message, nest in bad.items():
        with pytest.raises(InternalError, match=message):
            emit(nest, target("native"), name="f")


def test_lanes_that_all_write_one_element_do_so_in_turn(run: Run) -> None:
    x, y, z = arg("X", 8), arg("Y", 1), arg("Z", 1)
    value = Load(x, (Axis("i"),))
    body = Block((store(y, (const(0),), value), store(z, (const(0),), value, SUM)))
    numbers = np.arange(1, 9, dtype=np.float32)
    last, total = np.zeros(1, np.float32), np.zeros(1, np.float32)
    assert run(Nest("f", (x,), (y, z), (), loop("i", 8, body, "vector")), numbers, last, total) == 0
    assert (last[0], total[0]) == (8, 36)


def test_a_uniform_value_is_broadcast(run: Run) -> None:
    x, y, one = arg("X", 1), arg("Y", 8), arg("Z", 1)
    body = Block((store(y, (Axis("i"),), Load(x, (const(0),))), store(one, (const(0),), Load(x, (const(0),)))))
    found, single = np.zeros(8, np.float32), np.zeros(1, np.float32)
    assert run(Nest("f", (x,), (y, one), (), loop("i", 8, body, "vector")), np.array([4.5], np.float32), found, single) == 0
    assert (found == 4.5).all()
    assert single[0] == 4.5


DIGEST = """
import hashlib
from tests.codegen.nests import tile_nest
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.target import target
text = emit(tile_nest(12, 39, 8, rows=6, lanes=32, mask=True, parallel=True), target("x86-64-v3"), name="f")
print(hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_same_nest_gives_the_same_text_in_every_process() -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    command = [sys.executable, "-c", DIGEST]
    digests = {
        subprocess.run(command, env={"PYTHONHASHSEED": seed, "PYTHONPATH": path}, capture_output=True, text=True, check=True).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1


def test_lanes_that_are_off_put_nothing_back_into_elements_that_lanes_share() -> None:
    A = tl.placeholder((9,), "uint8", name="A")

    def step(t, state):
        h = tl.compute((9,), lambda i: state[i] + A[i], name="h")
        return tl.compute((9,), lambda i: tl.minimum(h[i], h[8 - i]), name="n")

    Y = tl.scan(step, A, 1, keep="last", name="Y")
    s = tl.Schedule(Y)
    s.split("h.i", 64, "peel")
    s.vectorize("h.i_i")
    s.fold_storage("h", 0, 9)
    a = np.arange(9, dtype="u1") + 5
    np.testing.assert_array_equal(tl.build(s)(a), np.minimum(2 * a, 2 * a[::-1]))


def test_lanes_that_are_off_are_not_carried_from_tile_to_tile() -> None:
    """What they hold is added to with the others: where that was denormal, the tile took ten times as long."""
    x = tl.placeholder((3, 200), name="X")
    k = tl.reduce_axis(3, name="k")
    s = tl.Schedule(tl.compute((20, 14), lambda i, j: tl.sum(x[k, i * 7 + j] * 2.0, axis=k), name="Y"))
    s.split("Y.j", 16, tail="mask")
    s.reorder("Y.i", "Y.j_o", "Y.k", "Y.j_i")
    s.accumulate("Y", at="Y.j_o")
    s.vectorize("Y.j_i")
    s.unroll("Y.k")
    assert re.search(r"Y_acc: float32\[16\] in registers", str(s))
    text = emit(lower(s.nest, target("icelake-server")), target("icelake-server"), name="f")
    assert len(re.findall(r"call void @.?llvm\.memset", text)) == 1
    optimised = tl.build(s, target="icelake-server").inspect("llvm")
    assert not re.search(r"Y_acc\S* = phi", optimised) and not re.search(r"call .*memset", optimised)
