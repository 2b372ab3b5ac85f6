"""Questions that only edges ask leave the interior; every value stays, and every iteration runs once and in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.lowering.passes import interiors as passes
from tensorlang.codegen.lowering.passes.interiors import interiors
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Block, Buffer, Compare, Const, Expr, For, If, Load, Nest, Select, Stmt, Store
from tensorlang.ir.dtype import FLOAT32, INT64
from tensorlang.ir.traverse import expressions, statements, walk
from tensorlang.semantics.nest_interpreter import run_nest
from tests.thinned import crossed

EXTENTS = (1, 2, 7, 8, 9, 17, 33, 100)

small = st.integers(-9, 9)
axes = st.sampled_from(["y", "x", "u", "l"])
leaves = st.one_of(axes.map(Axis), small.map(ir.const), st.builds(lambda c, a: Binary("mul", ir.const(c), Axis(a)), small, axes))


def _grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    ops = st.sampled_from(["add", "sub", "min", "max", "min", "max", "floordiv", "mod"])
    comparisons = st.builds(Compare, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), inner, inner)
    return st.one_of(st.builds(Binary, ops, inner, inner), st.builds(Select, comparisons, inner, inner))


indices = st.recursive(leaves, _grown, max_leaves=8)
bounds = st.tuples(st.integers(-3, 3), st.integers(0, 5))


@given(indices, indices, st.lists(bounds, min_size=3, max_size=3), st.integers(1, 4), st.sampled_from(["serial", "parallel"]))
def test_every_element_is_what_it_was(where: Expr, value: Expr, ends: list[tuple[int, int]], lanes: int, kind: Any) -> None:
    a, b = Buffer("a", (ir.const(24),), INT64, "argument"), Buffer("b", (ir.const(24),), INT64, "argument")
    at = Binary("mod", where, ir.const(24))
    chosen = Select(Compare("lt", value, ir.const(7)), Load(a, (at,)), Binary("add", value, Load(b, (at,))))
    mixed = Binary("add", Binary("mul", ir.const(3), Load(b, (at,))), chosen)  # the order of iterations shows
    body: Stmt = Store("b", (b,), (at,), (mixed,))
    body = For("l", ir.const(0), ir.const(lanes), body, "vector")
    for name, (first, extent), how in reversed(list(zip(("y", "x", "u"), ends, (kind, "serial", "unroll"), strict=True))):
        body = For(name, ir.const(first), ir.const(first + extent), body, how)
    nest = Nest("b", (a,), (b,), (), body)
    results = []
    for program in (nest, interiors(nest)):
        arrays = {"a": np.arange(24) ** 2, "b": np.arange(24)}
        run_nest(program, arrays, {})
        results.append(arrays["b"])
    np.testing.assert_array_equal(*results)


def _vectors(nest: Nest) -> list[Stmt]:
    return [part for part in statements(lower(nest, target("znver3")).body) if isinstance(part, For) and part.kind == "vector"]


def _asks(stmt: Stmt) -> bool:
    nodes = (node for part in statements(stmt) for expr in expressions(part) for node in walk(expr))
    return any(isinstance(node, Select) or (isinstance(node, Binary) and node.op in ("min", "max", "mod")) for node in nodes)


@pytest.mark.parametrize("border", ["clamp", "zero", "mirror", "wrap"])
def test_the_lanes_of_an_interior_ask_nothing(border: str) -> None:
    a = tl.placeholder((512,), name="a")

    def read(at: Any) -> Any:
        if border == "zero":
            return tl.select((at >= 0) & (at < 512), a[at], 0.0)
        if border == "wrap":
            return a[at % 512]
        return a[tl.clamp(at, 0, 511)] if border == "clamp" else a[tl.select(at < 0, -at, tl.select(at >= 512, 1022 - at, at))]

    s = tl.Schedule(tl.compute((512,), lambda i: sum(read(i + d) for d in (-2, 0, 3)), name="b"))
    s.vectorize(s.split("i", 16)[1])
    vectors = _vectors(s.nest)
    assert vectors
    assert not all(map(_asks, vectors))
    assert "gather" not in tl.build(s, "znver3").inspect("llvm")


def padded(values: Any, mode: Any, width: int = 2) -> Any:
    return np.pad(values, width, mode=mode)


@crossed({"height": [1, 33], "width": EXTENTS, "unknown": [False, True]})
def test_stencils_with_borders_are_those_of_numpy(height: int, width: int, unknown: bool) -> None:
    h, w = (tl.dim("h"), tl.dim("w")) if unknown else (height, width)
    a = tl.placeholder((h, w), name="a")
    values = np.random.default_rng(width).integers(-99, 99, (height, width)).astype("f4")
    near = [(dy, dx) for dy in (-1, 0, 2) for dx in (-2, 1)]

    def zero(y: Any, x: Any) -> Any:
        return tl.select((y >= 0) & (y < h) & (x >= 0) & (x < w), a[y, x], 0.0)

    clamped = tl.compute((h, w), lambda y, x: sum(a[tl.clamp(y + dy, 0, h - 1), tl.clamp(x + dx, 0, w - 1)] for dy, dx in near), name="c")
    zeroed = tl.compute((h, w), lambda y, x: sum(zero(y + dy, x + dx) for dy, dx in near), name="z")
    wrapped = tl.compute((h, w), lambda y, x: sum(a[(y + dy) % h, (x + dx) % w] for dy, dx in near), name="w")
    for defined, mode in ((clamped, "edge"), (zeroed, "constant"), (wrapped, "wrap")):
        around = padded(values, mode)
        expected = sum(around[2 + dy : 2 + dy + height, 2 + dx : 2 + dx + width] for dy, dx in near)
        np.testing.assert_array_equal(tl.build(defined)(values), expected)


@pytest.mark.parametrize("unknown", [False, True])
def test_neighbours_around_the_end_of_a_row_are_read_side_by_side(unknown: bool) -> None:
    n = tl.dim("n") if unknown else 1000
    a = tl.placeholder((n,), name="a")
    near = tl.build(tl.compute((n,), lambda i: a[(i + 1) % n] - a[(i - 1 + n) % n], name="d"), "znver3").inspect("llvm")
    assert "gather" not in near and "load <8 x float>" in near


def test_a_recurrence_does_not_ask_for_its_past_in_every_step() -> None:
    a = tl.placeholder((300,), name="a")
    sums = tl.recurrence((300,), lambda i, s: 2 * s[i - 1] - s[i - 3] + a[i], dtype="float32", name="r")
    lowered = lower(tl.Schedule(sums).nest, target())
    first, main = [part for part in statements(lowered.body) if isinstance(part, For)]
    assert (first.hi, main.lo, main.hi) == (ir.const(3), ir.const(3), ir.const(300))
    assert not any(isinstance(node, Select) for part in statements(main) for expr in expressions(part) for node in walk(expr))


def test_a_body_that_is_too_much_code_for_two_versions_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    a = tl.placeholder((512,), name="a")
    s = tl.Schedule(tl.compute((512,), lambda i: a[tl.clamp(i + 1, 0, 511)], name="b"))
    s.vectorize(s.split("i", 8)[1])
    assert len(_vectors(s.nest)) > 0
    for limit in ("MAX_VERSIONED", "MAX_PARTED", "MAX_BEGUN"):
        monkeypatch.setattr(passes, limit, 1)
    assert len(_vectors(s.nest)) == 1
    assert all(map(_asks, _vectors(s.nest)))


def test_a_large_body_that_asks_at_one_end_alone_is_cut_there(monkeypatch: pytest.MonkeyPatch) -> None:
    a = tl.placeholder((300,), name="a")
    sums = tl.recurrence((300,), lambda i, s: 2 * s[i - 1] + a[i], dtype="float32", name="r")
    for limit in ("MAX_VERSIONED", "MAX_PARTED"):
        monkeypatch.setattr(passes, limit, 1)
    first, main = [part for part in statements(lower(tl.Schedule(sums).nest, target()).body) if isinstance(part, For)]
    assert (first.hi, main.lo, main.hi) == (ir.const(1), ir.const(1), ir.const(300))


def _windows(rows: int, size: int) -> Nest:
    """A window over a padded image of 24 rows, `rows` of a tile and all taps unrolled."""
    x, w = tl.placeholder((24, 64), name="x"), tl.placeholder((size, size), name="w")
    r, s = tl.reduce_axis(size, name="r"), tl.reduce_axis(size, name="s")

    def read(y: Any, j: Any) -> Any:
        return tl.select((y >= 0) & (y < 24) & (j >= 0) & (j < 64), x[y, j], 0.0)

    half = size // 2
    sums = tl.compute((24, 64), lambda y, j: tl.sum(read(y + r - half, j + s - half) * w[r, s], axis=(r, s)), name="t")
    schedule = tl.Schedule(sums)
    outer, inner = schedule.split("y", rows)
    lanes_o, lanes_i = schedule.split("j", 16)
    schedule.reorder(outer, lanes_o, "r", "s", inner, lanes_i)
    for loop in ("r", "s", inner):
        schedule.unroll(loop)
    schedule.vectorize(lanes_i)
    return schedule.nest


def _parted(nest: Nest) -> Nest:
    """The nest after the pass, as it comes to it."""
    found: dict[str, Nest] = {}
    lower(nest, target("znver4"), lambda name, made: found.update({name: made}))
    return found["interiors"]


def _asked_of(stmt: Stmt, loop: str) -> int:
    nodes = (node for part in statements(stmt) for expr in expressions(part) for node in walk(expr))
    return sum(isinstance(node, Compare) and Axis(loop) in walk(node) for node in nodes)


@pytest.mark.parametrize(("rows", "size"), [(2, 3), (4, 5), (2, 5), (3, 7)])
def test_edges_of_single_iterations_stand_beside_an_interior_that_asks_nothing(rows: int, size: int) -> None:
    """Also where the body is too much code to be emitted with a test in each iteration."""
    tiles = 24 // rows
    loops = [part for part in statements(_parted(_windows(rows, size)).body) if isinstance(part, For) and part.loop.endswith("y_o")]
    assert [(part.lo, part.hi) for part in loops] == [(ir.const(a), ir.const(b)) for a, b in ((0, 1), (1, tiles - 1), (tiles - 1, tiles))]
    first, middle, last = (_asked_of(part, loops[0].loop) for part in loops)
    assert middle == 0 < min(first, last)


@pytest.mark.parametrize(("rows", "size"), [(1, 5), (1, 3), (2, 7), (4, 5)])
def test_a_window_in_parts_is_that_of_numpy(rows: int, size: int) -> None:
    """Whether edges are single iterations or several."""
    rng = np.random.default_rng(rows)
    x, w = rng.integers(-9, 9, (24, 64)).astype("f4"), rng.integers(-9, 9, (size, size)).astype("f4")
    around = np.pad(x, size // 2)
    want = sum(w[r, s] * around[r : r + 24, s : s + 64] for r in range(size) for s in range(size))
    arrays = {"x": x, "w": w, "t": np.zeros((24, 64), "f4")}
    run_nest(_parted(_windows(rows, size)), arrays, {})
    np.testing.assert_array_equal(arrays["t"], want)


def test_a_question_under_two_loops_of_one_name_is_answered_for_both() -> None:
    """The copies of a peeled loop share its name: what holds in one of them may not in the other."""
    b = Buffer("b", (ir.const(40),), FLOAT32, "argument")
    at = Binary("add", Binary("mul", ir.const(8), Axis("o")), Axis("l"))

    def lanes(first: int, last: int) -> Stmt:
        value = Select(Compare("lt", at, ir.const(20)), Const(1.0, FLOAT32), Const(2.0, FLOAT32))
        return For("l", ir.const(first), ir.const(last), Store("b", (b,), (at,), (value,)), "vector")

    body = For("o", ir.const(0), ir.const(5), Block((lanes(0, 3), If(Compare("lt", Axis("o"), ir.const(4)), lanes(3, 8)), lanes(3, 8))))
    nest = Nest("b", (), (b,), (), body)
    results = []
    for program in (nest, interiors(nest)):
        out = {"b": np.zeros(40, "f4")}
        run_nest(program, out, {})
        results.append(out["b"])
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(results[0], np.where(np.arange(40) < 20, 1, 2))
