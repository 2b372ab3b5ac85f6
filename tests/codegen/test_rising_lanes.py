"""Clamped reads stay lanes at the ends of rows: one load, and lanes that are moved within a register, of any type and at any width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.codegen.target import Target, target, why_foreign
from tensorlang.ir import Axis, Binary
from tensorlang.schedules.rewriting.rising import moves_lanes, rises
from tests.codegen.nests import Guarded
from tests.draws import examples
from tests.thinned import crossed

TYPES = ("uint8", "int16", "float16", "int32", "float32", "float64", "int64", "bool")
HERE = [found for found in map(target, ("native", "x86-64-v4", "x86-64-v3", "x86-64-v2")) if why_foreign(found) is None]
I, J, N = Axis("i"), Axis("j"), ir.Dim("n")


def between(index: Any, lo: Any, hi: Any) -> Any:
    return Binary("max", Binary("min", index, hi), lo)


@pytest.mark.parametrize(
    ("index", "found"),
    [
        ((I, between(Binary("add", J, ir.const(3)), ir.const(0), Binary("sub", N, ir.const(1)))), True),
        ((I, Binary("sub", between(Binary("add", J, I), I, N), ir.const(2))), True),
        ((I, between(Binary("min", J, Binary("add", J, ir.const(1))), ir.const(0), N)), True),
        ((I, between(Binary("mul", J, ir.const(2)), ir.const(0), N)), False),
        ((I, between(Binary("sub", ir.const(9), J), ir.const(0), N)), False),
        ((I, between(J, Binary("mul", J, ir.const(3)), N)), False),
        ((J, between(J, ir.const(0), N)), False),
        ((I, I), False),
        ((), False),
    ],
)
def test_places_that_rise_by_one_at_most_are_told_apart(index: tuple[Any, ...], found: bool) -> None:
    assert rises(index, "j") == found


def smoothed(rows: int, columns: int, shift: int, dtype: str, *, both: bool) -> Any:
    """The neighbours of an element, kept inside at one end of its row or at both."""
    X = tl.placeholder((rows, columns), dtype, name="X")

    def at(i: Any, j: Any) -> Any:
        j = tl.minimum(j, columns - 1) if shift > 0 and not both else tl.clamp(j, 0, columns - 1)
        return X[tl.clamp(i, 0, rows - 1), j]

    def element(i: Any, j: Any) -> Any:
        left, right = at(i - 1, j + shift), at(i, tl.maximum(j - 1, 0) if shift > 0 and not both else j - shift)
        return tl.select(left > right, left, right) if dtype != "bool" else left & right

    return tl.compute((rows, columns), element, name="Y")


def expected(x: Any, shift: int, *, both: bool) -> Any:
    rows, columns = x.shape
    i, j = np.arange(rows)[:, None], np.arange(columns)[None, :]
    left = x[np.clip(i - 1, 0, rows - 1), np.clip(j + shift, 0, columns - 1)]
    back = np.clip(j - 1, 0, columns - 1) if shift > 0 and not both else np.clip(j - shift, 0, columns - 1)
    right = x[i, back]
    return left & right if x.dtype == bool else np.where(left > right, left, right)


@examples(12)
@given(
    st.integers(1, 5), st.integers(1, 140), st.integers(-5, 5), st.sampled_from(TYPES), st.sampled_from([3, 8, 16, 32, 64]), st.booleans(),
    st.sampled_from(HERE),
)  # fmt: skip
def test_ends_of_rows_are_numpys(rows: int, columns: int, shift: int, dtype: str, lanes: int, both: bool, machine: Target) -> None:
    s = tl.Schedule(smoothed(rows, columns, shift, dtype, both=both))
    s.vectorize(s.split("Y.j", lanes, tail="mask" if shift % 2 else "peel")[1])
    x = (np.random.default_rng(columns).random((rows, columns)) * 100 - (0 if dtype in ("uint8", "bool") else 50)).astype(dtype)
    np.testing.assert_array_equal(tl.build(s, target=machine)(x), expected(x, shift, both=both))


@pytest.mark.parametrize("machine", HERE, ids=str)
def test_lanes_are_moved_where_the_processor_can(machine: Target) -> None:
    s = tl.Schedule(smoothed(4, 100, 1, "float32", both=True))
    s.vectorize(s.split("Y.j", machine.lanes(tl.placeholder((1,)).dtype), tail="peel")[1])
    moved = "vperm" in tl.build(s, target=machine).inspect("asm")
    assert moved == moves_lanes(32, machine.isa)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("machine", HERE, ids=str)
@crossed({"dtype": ["uint8", "float32", "float64"], "columns": [1, 7, 16, 33], "shift": [-3, 2]})
def test_nothing_beyond_a_row_is_touched(guarded: Guarded, machine: Target, dtype: str, columns: int, shift: int, *, before: bool) -> None:
    s = tl.Schedule(smoothed(1, columns, shift, dtype, both=True))
    s.vectorize(s.split("Y.j", 16, tail="peel")[1])
    x = (np.random.default_rng(columns).random((1, columns)) * 100).astype(dtype)
    np.testing.assert_array_equal(tl.build(s, target=machine)(guarded(x, before=before)), expected(x, shift, both=True))
