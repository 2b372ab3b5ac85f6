"""Register tiles under masks: lanes that nothing reads need not keep what they held, and the others hold what was written last."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.emission.idle_lanes import without_idle_readers
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Alloc, Axis, Binary, Block, Buffer, Compare, Dim, Expr, For, If, Load, Nest, Stmt, const
from tensorlang.ir.dtype import FLOAT32
from tensorlang.ir.traverse import statements
from tests.codegen.nests import SUM, ZERO, Run, arg, index, loop, store

LANES = 8
ACC = Buffer("acc", (const(2 * LANES),), FLOAT32, "register")
X, Y = arg("X", 64), arg("Y", 2 * LANES)
N, STEP = Dim("n"), Axis("k")


def below(name: str, limit: Expr, body: Callable[[Expr], Stmt], start: int = 0) -> Stmt:
    """Lanes of elements from `start` on, those below a limit."""
    place = index(start, name)
    return loop(name, LANES, If(Compare("lt", place, limit), body(place)), "vector")


def cleared(place: Expr) -> Stmt:
    return store(ACC, (place,), ZERO)


def summed(place: Expr) -> Stmt:
    return store(ACC, (place,), Load(X, (place,)), SUM)


def given_back(place: Expr) -> Stmt:
    return store(Y, (place,), Load(ACC, (place,)))


def alike(limit: Expr) -> Alloc:
    """A tile that is cleared, summed in a loop and given back under one limit."""
    return Alloc((ACC,), Block((below("a", limit, cleared), loop("k", 4, below("b", limit, summed)), below("c", limit, given_back))))


OTHERS = {
    "another limit": Block((below("a", N, cleared), below("b", const(5), given_back))),
    "no limit": Block((below("a", N, cleared), loop("b", LANES, given_back(Axis("b")), "vector"))),
    "one element": Block((below("a", N, cleared), store(Y, (const(0),), Load(ACC, (const(7),))))),
    "another place": Block((below("a", N, cleared), below("b", N, lambda place: given_back(index(place, 1))))),
    "a limit that changes": loop("k", 4, below("a", STEP, summed)),
    "what a limit leaves": loop("a", LANES, If(Compare("lt", Axis("a"), N), cleared(Axis("a")), summed(Axis("a"))), "vector"),
    "twice the lane": below("a", N, lambda place: cleared(Binary("mul", place, const(2)))),
    "no mask": loop("a", LANES, cleared(Axis("a")), "vector"),
    "a limit that data tell": below("a", Load(arg("L", 1, dtype="int64"), (const(0),)), cleared),
}


@pytest.mark.parametrize("limit", [const(5), N, Binary("sub", N, Axis("i"))])
def test_a_tile_under_one_mask_has_no_idle_readers(limit: Expr) -> None:
    assert without_idle_readers(alike(limit)) == {"acc"}
    chunk = Alloc((ACC,), Block((below("a", limit, cleared, LANES), below("b", limit, given_back, LANES), below("c", limit, summed))))
    assert without_idle_readers(chunk) == {"acc"}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_a_tile_whose_masks_differ_keeps_what_lanes_held(body: Stmt) -> None:
    assert not without_idle_readers(Alloc((ACC,), body))


@pytest.mark.parametrize("on", ["native", "x86-64-v3", "x86-64"])
def test_lanes_that_are_off_are_written_nowhere(run: Run, on: str) -> None:
    x = np.arange(64, dtype=np.float32)
    for limit in range(LANES + 1):
        found = np.full(2 * LANES, -1, np.float32)
        run(Nest("f", (X,), (Y,), ("n",), alike(N)), x, found, dims=(limit,), on=on)
        assert np.array_equal(found, np.where(np.arange(2 * LANES) < limit, 4 * x[: 2 * LANES], -1))


def sums(rows: int, columns: int, depth: int) -> tl.Schedule:
    """A product in one tile, a part of whose last vector is wanted."""
    A, B = tl.placeholder((rows, depth), name="A"), tl.placeholder((depth, columns), name="B")
    k = tl.reduce_axis(depth, name="k")
    s = tl.Schedule(tl.compute((rows, columns), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C"))
    i_o, i_i = s.split("i", rows)
    j_o, j_i = s.split("j", 16, "peel")
    s.reorder(j_o, i_o, "k", i_i, j_i)
    s.accumulate("C", at=i_o)
    s.vectorize(j_i)
    s.unroll(i_i)
    return s


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "znver4"])
@pytest.mark.parametrize("columns", [3, 5, 7, 13, 21])
def test_the_sums_of_a_part_of_a_vector_are_plain_multiply_adds(cpu: str, columns: int) -> None:
    text = tl.build(sums(4, columns, 100), target=cpu).inspect("asm")
    assert "vfmadd" in text and "vblend" not in text and not re.search(r"vfmadd.*{%k", text)


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 9))
def test_tiles_of_any_width_are_what_numpy_says(rows: int, columns: int, depth: int) -> None:
    rng = np.random.default_rng(rows + 10 * columns + 500 * depth)
    a, b = rng.integers(-8, 8, (rows, depth)).astype(np.float32), rng.integers(-8, 8, (depth, columns)).astype(np.float32)
    a[0, 0] = np.inf  # lanes that are off have zeros, and inf times them is no number
    with np.errstate(invalid="ignore"):
        assert np.array_equal(tl.build(sums(rows, columns, depth))(a, b), a @ b, equal_nan=True)


@pytest.mark.parametrize(("columns", "lanes"), [(1, 1), (2, 2), (3, 4), (7, 8), (8, 8), (9, 16), (16, 16)])
def test_a_vector_is_as_wide_as_the_lanes_that_are_on(columns: int, lanes: int) -> None:
    nest = lower(sums(2, columns, 3).nest, target("znver4"))
    found = [part for part in statements(nest.body) if isinstance(part, For) and part.kind == "vector"]
    assert found and {part.hi for part in found} == {const(lanes)}


@pytest.mark.parametrize("otherwise", [0.0, -0.0, 1.0])
def test_a_masked_load_is_what_it_is_where_its_condition_does_not_hold(otherwise: float) -> None:
    X = tl.placeholder((64,), name="X")
    s = tl.Schedule(tl.compute((16,), lambda i: tl.select((i >= 3) & (i < 11), X[i], otherwise), name="Y"))
    s.vectorize("Y.i")
    data, where = np.arange(1, 65, dtype=np.float32), np.arange(16)
    want = np.where((where >= 3) & (where < 11), data[:16], np.float32(otherwise))
    found = tl.build(s)(data)
    assert np.array_equal(found, want) and np.array_equal(np.signbit(found), np.signbit(want))


@pytest.mark.parametrize("cpu", ["znver4", "skylake-avx512"])
@pytest.mark.parametrize("extent", [7, 14])
def test_padded_loads_are_masked_once(cpu: str, extent: int) -> None:
    """The zeros around an image are those of lanes that are off: nothing chooses them once more."""
    x, w = tl.placeholder((1, 8, extent, extent), name="X"), tl.placeholder((8, 1, 3, 3), name="W")
    text = tl.build(tl.ops.depthwise_conv2d(x, w, padding=1), target=cpu).inspect("asm")
    assert re.search(r"vmovups.*{%k\d}.*{z}", text) and not re.search(r"vand[np]|vexpand|vblendm|vpand", text)
