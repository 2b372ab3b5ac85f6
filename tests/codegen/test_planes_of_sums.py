"""Sums of a few planes at once: each has partial results of its own, and what their conditions share is computed and loaded once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.emission.emit import emitted
from tensorlang.codegen.llvm import binding
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir.mentions import allocations
from tensorlang.ir.traverse import statements
from tensorlang.schedules.rewriting.edit import loops, stores_within

ATOMS: Final = 37
LANES: Final = 8


def forces(planes: int, dtype: str) -> Any:
    """What pulls an atom along some axes: neighbours of a ragged list, those that are near."""
    ptr, col = tl.placeholder((ATOMS + 1,), "int32", name="ptr"), tl.placeholder((400,), "int32", name="col")
    x = tl.placeholder((planes, ATOMS), dtype, name="x")

    def force(c: Any, i: Any) -> Any:
        k = tl.reduce_axis((ptr[i], ptr[i + 1]), name="k", within=400)
        j = tl.clamp(col[k], 0, ATOMS - 1)
        apart = sum((x[axis, i] - x[axis, j]) * (x[axis, i] - x[axis, j]) for axis in range(planes))
        return tl.sum(tl.select(apart < 2, (x[c, i] - x[c, j]) * (1 / (1 + apart)), 0), axis=k)

    return tl.compute((planes, ATOMS), force, name="F")


def beside(out: Any, tail: str = "mask") -> tl.Schedule:
    """Planes around the lanes, inside the blocks of neighbours."""
    s = tl.Schedule(out)
    s.split("F.k", LANES, tail=tail)
    s.reorder("F.i", "F.k_o", "F.c", "F.k_i")
    s.unroll("F.c")
    s.vectorize("F.k_i")
    return s


def given(planes: int, dtype: str, per_row: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(per_row)
    ptr = np.concatenate([[0], np.cumsum(rng.integers(0, per_row + 1, ATOMS))]).astype("int32")
    return ptr, rng.integers(0, ATOMS, 400).astype("int32"), rng.random((planes, ATOMS)).astype(dtype) * 2


def pulled(ptr: np.ndarray, col: np.ndarray, x: np.ndarray) -> np.ndarray:
    out = np.zeros(x.shape)
    for i in range(ATOMS):
        away = x[:, i : i + 1].astype(float) - x[:, col[ptr[i] : ptr[i + 1]]]
        apart = (away**2).sum(axis=0)
        out[:, i] = np.where(apart < 2, away / (1 + apart), 0).sum(axis=1)
    return out


@pytest.mark.parametrize("tail", ["mask", "guard"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("planes", "per_row"), [(3, 10), (2, 3), (1, 10), (4, 0)])
def test_they_are_those_of_numpy(planes: int, per_row: int, dtype: str, tail: str) -> None:
    data = given(planes, dtype, per_row)
    kernel = tl.build(beside(forces(planes, dtype), tail))
    np.testing.assert_allclose(kernel(*data), pulled(*data), rtol=1e-4, atol=1e-5)


def test_each_plane_has_partial_results_across_all_blocks() -> None:
    nest = lower(beside(forces(3, "float32")).nest, target("znver4"))
    (part,) = [buffer for buffer in allocations(nest.body) if buffer.name.endswith("_part")]
    assert part.shape == (ir.const(3), ir.const(LANES))
    (block,) = [loop for loop in loops(nest.body) if loop.loop == "F.k_o"]
    assert {store.buffers[0].name for store, _, _ in stores_within(block)} == {"F_part"}


def test_planes_that_data_move_have_partial_results_where_lanes_ran() -> None:
    """A row that data name may lie outside of the result: then no lane runs, and nothing is added there."""
    rows, x = tl.placeholder((50,), "int32", name="rows"), tl.placeholder((50, 2, 24), name="x")
    k, n = tl.reduce_axis(24, "k"), tl.reduce_axis(50, "n")
    total = tl.compute((10, 2), lambda r, c: tl.sum(tl.select(rows[n] == r, x[n, c, k], 0.0), axis=(n, k)), name="total")
    s = tl.Schedule(total)
    s.split("total.k", LANES)
    s.reorder("total.r", "total.n", "total.k_o", "total.c", "total.k_i")
    s.unroll("total.c")
    s.vectorize("total.k_i")
    rng = np.random.default_rng(0)
    at, values = rng.integers(-3, 13, 50).astype("int32"), rng.random((50, 2, 24)).astype("float32")
    wanted = np.stack([values[at == r].sum(axis=(0, 2)) for r in range(10)])
    np.testing.assert_allclose(tl.build(s)(at, values), wanted, rtol=1e-5)


def test_what_a_condition_asked_of_is_loaded_once() -> None:
    at, table = tl.placeholder((64,), "int32", name="at"), tl.placeholder((50,), name="table")
    found = tl.compute(
        (64,),
        lambda i: tl.select(table[tl.clamp(at[i], 0, 49)] > 0, 2 / table[tl.clamp(at[i], 0, 49)], table[tl.clamp(at[i], 0, 49)] - 1),
        name="found",
    )
    s = tl.Schedule(found)
    s.split("i", 16)
    s.vectorize("i_i")
    text = emitted(lower(s.nest, target("znver4")), target("znver4"), name="found").text
    assert text.count('call <16 x float> @"llvm.masked.gather') == 1
    values, places = np.linspace(-1, 1, 50, dtype="f4"), np.arange(64, dtype="i4") % 50
    read = values[places]
    np.testing.assert_allclose(tl.build(s)(places, values), np.where(read > 0, 2 / read, read - 1), rtol=1e-6)


def test_what_copies_that_choose_alike_share_is_computed_once() -> None:
    """One reciprocal of all planes in full blocks, and two in others: behind branches each copy would have its own."""
    isa = target("znver4")
    text = emitted(lower(beside(forces(4, "float32")).nest, isa), isa, name="forces").text
    assert text.count("fdiv") == 8
    assert binding.render(text, isa.machine, "llvm").count("fdiv") <= 3


@pytest.mark.parametrize("wanted", ["none", "some", "all"])
def test_rows_that_a_condition_leaves_out_have_nothing_to_combine(wanted: str) -> None:
    """They took as long as others where one vector was the whole of a row."""
    own, x = tl.placeholder((9,), "int32", name="own"), tl.placeholder((9, 128), name="x")
    k = tl.reduce_axis(128, "k")
    first = tl.compute((9,), lambda i: tl.cast(tl.argmax(x[i, k], axis=k, where=own[i] < 0), "int32"), name="first")
    s = tl.Schedule(first)
    s.vectorize("first.1.k")
    nest = lower(s.nest, target("znver4"))
    (test,) = [part for part in statements(nest.body) if isinstance(part, ir.If)]
    assert any(store.stage == "first.1.part" for store, _, _ in stores_within(test))
    rng = np.random.default_rng(3)
    mine = {"none": np.ones(9), "all": -np.ones(9), "some": rng.choice([-1, 1], 9)}[wanted].astype("int32")
    values = rng.random((9, 128)).astype("float32")
    np.testing.assert_array_equal(tl.build(s)(mine, values), np.where(mine < 0, values.argmax(axis=1), -1))
