"""Rows that lanes read side by side are loaded along memory and turned once for all copies: the same for any tile, type and past."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import Target, target, why_foreign
from tensorlang.ir.dtype import DType
from tests.codegen.nests import Guarded
from tests.draws import examples

HERE = [found for found in map(target, ("native", "x86-64-v3", "x86-64-v2")) if why_foreign(found) is None]
TYPES = ("uint8", "int16", "int32", "float32", "float64")


def along(rows: int, columns: int, dtype: str, back: int, above: int) -> Any:
    """Each element of what is read of two tensors, and of what was computed so far before and above."""
    X, Z = tl.placeholder((rows, columns), dtype, name="X"), tl.placeholder((rows, columns + 3), dtype, name="Z")
    third = tl.cast(3, dtype)

    def element(i: Any, j: Any, y: Any) -> Any:
        found = tl.maximum(X[i, j], Z[i, j + 3]) + Z[i, j]
        found = found + y[i, j - back] * third if back else found
        return found + y[i - above, j - 1] if above else found

    return tl.recurrence((rows, columns), element, name="Y", dtype=dtype)


@examples(20)
@given(
    st.integers(1, 40), st.integers(1, 50), st.sampled_from(TYPES), st.sampled_from([0, 1, 2, 5]), st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([2, 4, 8, 16, 12]), st.sampled_from(["peel", "mask"]), st.sampled_from(HERE), st.integers(0, 1 << 20), st.booleans(),
)  # fmt: skip
def test_tiles_of_rows_are_what_plain_loops_make(
    rows: int, columns: int, dtype: str, back: int, lanes: int, copies: int, tail: Any, machine: Target, seed: int, unknown: bool
) -> None:
    """Also of rows whose number, and length, a call tells."""
    Y = along(tl.dim("r"), tl.dim("c", 1), dtype, back, 0) if unknown else along(rows, columns, dtype, back, 0)
    s = tl.Schedule(Y)
    (i_o, i_i), (j_o, j_i) = (
        s.split("Y.i", lanes, tail="mask" if unknown else tail),
        s.split("Y.j", copies, tail="mask" if unknown else "peel"),
    )
    s.reorder(i_o, j_o, j_i, i_i)
    s.unroll(j_i)
    s.vectorize(i_i)
    rng = np.random.default_rng(seed)
    x, z = ((rng.random((rows, columns + more)) * 4).astype(dtype) for more in (0, 3))
    np.testing.assert_array_equal(tl.build(s, target=machine)(x, z), tl.build(tl.Schedule(Y), target=machine)(x, z))


@pytest.mark.parametrize("machine", HERE, ids=str)
@pytest.mark.parametrize(("lanes", "copies"), [(8, 16), (8, 8)])
def test_rows_of_any_length_are_loaded_along_memory(machine: Target, lanes: int, copies: int) -> None:
    X = tl.placeholder((tl.dim("r"), tl.dim("c")), name="X")
    s = tl.Schedule(tl.recurrence(X.shape, lambda i, j, y: y[i, j - 1] + X[i, j], dtype="float32", name="Y"))
    (i_o, i_i), (j_o, j_i) = s.split("Y.i", lanes, tail="mask"), s.split("Y.j", copies, tail="mask")
    s.reorder(i_o, j_o, j_i, i_i)
    s.unroll(j_i)
    s.vectorize(i_i)
    kernel = tl.build(s, target=machine)
    assert machine.lanes(DType("float32")) < lanes or f"load <{copies} x float>" in kernel.inspect("llvm")
    for shape in ((0, 3), (1, 1), (lanes, copies), (lanes + 1, 2 * copies + 1), (3 * lanes, 40)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
        np.testing.assert_array_equal(kernel(x), x.cumsum(1))


@pytest.mark.parametrize("machine", HERE, ids=str)
@pytest.mark.parametrize(("lanes", "copies"), [(8, 16), (16, 4), (4, 4)])
def test_rows_above_are_read_as_they_were_left(lanes: int, copies: int, machine: Target) -> None:
    """Lanes are rows of a batch; what an element reads of the row before is in memory by then."""
    X = tl.placeholder((19, 6, 37), name="X")
    Y = tl.recurrence((19, 6, 37), lambda p, i, j, y: X[p, i, j] + 0.5 * (y[p, i - 1, j - 1] + y[p, i - 1, j]) - y[p, i, j - 1], name="Y")
    s = tl.Schedule(Y)
    (p_o, p_i), (j_o, j_i) = s.split("Y.p", lanes, tail="peel"), s.split("Y.j", copies, tail="peel")
    s.reorder("Y.i", p_o, j_o, j_i, p_i)
    s.unroll(j_i)
    s.vectorize(p_i)
    x = np.random.default_rng(0).random((19, 6, 37), dtype=np.float32)
    np.testing.assert_allclose(tl.build(s, target=machine)(x), tl.build(tl.Schedule(Y), target=machine)(x), rtol=1e-4, atol=1e-5)


def test_no_element_of_a_whole_tile_is_picked_by_itself() -> None:
    s = tl.Schedule(along(16, 64, "float32", 1, 0))
    (i_o, i_i), (j_o, j_i) = s.split("Y.i", 8), s.split("Y.j", 16)
    s.reorder(i_o, j_o, j_i, i_i)
    s.unroll(j_i)
    s.vectorize(i_i)
    ir = tl.build(s, target="x86-64-v3").inspect("llvm")
    picked = sum("insertelement" in line for line in ir.splitlines())
    assert picked < 2 * 8 + 2 * 64, picked  # of 16 x 64 elements of three reads those of the first tile, which asks for its past


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("tail", ["peel", "mask", "guard"])
@pytest.mark.parametrize("columns", [16, 21, 37])
def test_nothing_beyond_what_is_read_is_touched(guarded: Guarded, columns: int, tail: Any, *, before: bool) -> None:
    """Copies that choose not to read, and those that are beyond the end, keep the others from loading for them."""
    X, Z = tl.placeholder((16, columns), name="X"), tl.placeholder((16, columns), name="Z")

    def element(i: Any, j: Any) -> Any:
        past, later = tl.select(j >= 3, X[i, j - 3], 0.0), tl.select(j + 5 < columns, Z[i, j + 5], 0.0)
        return past + later * X[i, j]

    s = tl.Schedule(tl.compute((16, columns), element, name="Y"))
    (i_o, i_i), (j_o, j_i) = s.split("Y.i", 8), s.split("Y.j", 8, tail=tail)
    s.reorder(i_o, j_o, j_i, i_i)
    s.unroll(j_i)
    s.vectorize(i_i)
    x, z = np.random.default_rng(columns).random((2, 16, columns), dtype=np.float32)
    wanted = np.zeros_like(x)
    wanted[:, 3:] += x[:, :-3]
    wanted[:, :-5] += z[:, 5:] * x[:, :-5]
    np.testing.assert_array_equal(tl.build(s)(guarded(x, before=before), guarded(z, before=before)), wanted)
