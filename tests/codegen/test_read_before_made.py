"""Stores that wait for their neighbours and are read before they are made: rows of a recurrence abreast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import tensorlang as tl
from tests.draws import examples

TYPES = ("int8", "int32", "float32", "float64", "bool", "bfloat16")


def recurrence(rows: int, columns: int, back: tuple[int, ...], dtype: str = "int32", *, above: int = 0) -> tl.Tensor:
    X = tl.placeholder((rows, columns), dtype, name="X")

    def element(i: Any, j: Any, s: Any) -> Any:
        found = X[i, j]
        for apart in back:
            found = (found ^ s[i, j - apart]) if dtype == "bool" else found + s[i, j - apart]
        return found + s[i - above, j] if above else found

    found: tl.Tensor = tl.recurrence((rows, columns), element, name="S", dtype=dtype)
    return found


def expected(x: Any, back: tuple[int, ...], above: int = 0) -> Any:
    found = np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        value = x[i, j]
        for apart in back:
            past = found[i, j - apart] if j >= apart else x.dtype.type(0)
            value = value ^ past if x.dtype == bool else x.dtype.type(value + past)
        if above and i >= above:
            value = x.dtype.type(value + found[i - above, j])
        found[i, j] = value
    return found


def abreast(S: tl.Tensor, lanes: int, tile: int, tail: str, *, within: bool = False) -> tl.Schedule:
    s = tl.Schedule(S)
    i_o, i_i = s.split("S.i", lanes, tail=tail)
    j_o, j_i = s.split("S.j", tile, tail=tail)
    s.reorder(i_o, j_o, j_i, i_i)
    s.vectorize(i_i)
    s.unroll(j_i)
    if within:
        s.unroll(j_o)
    return s


@examples(40)
@given(
    st.tuples(st.integers(1, 19), st.integers(1, 23)),
    st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).map(tuple),
    st.sampled_from(TYPES),
    st.sampled_from((2, 3, 4, 8, 16)),
    st.sampled_from((2, 3, 4, 8)),
    st.sampled_from(("peel", "mask", "guard")),
    st.booleans(),
)
@example((17, 21), (1, 2), "float32", 8, 8, "peel", False)
@example((16, 16), (3,), "int8", 16, 4, "guard", True)
def test_rows_abreast_are_rows(
    shape: tuple[int, int], back: tuple[int, ...], dtype: str, lanes: int, tile: int, tail: str, within: bool
) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = np.random.default_rng(sum(shape)).integers(0, 3, shape).astype(kind)
    kernel = tl.build(abreast(recurrence(*shape, back, dtype), lanes, tile, tail, within=within))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(kernel(x), expected(x, back))


@pytest.mark.parametrize("above", [16, 20])
def test_rows_that_read_far_above_are_made_in_time(above: int) -> None:
    x = np.random.default_rng(above).integers(0, 9, (40, 24), dtype="int32")
    kernel = tl.build(abreast(recurrence(40, 24, (1,), above=above), 8, 8, "peel"))
    np.testing.assert_array_equal(kernel(x), expected(x, (1,), above))


def test_what_lanes_choose_of_the_past_is_in_memory_when_it_is_read() -> None:
    X = tl.placeholder((16, 16), "int32", name="X")
    S = tl.recurrence((16, 16), lambda i, j, s: X[i, j] + tl.select(X[i, 0] > 4, s[i, j - 1], 2), name="S", dtype="int32")
    x = np.random.default_rng(3).integers(0, 9, (16, 16), dtype="int32")
    wanted = x.copy()
    for j in range(16):
        past = wanted[:, j - 1] if j else np.zeros(16, "int32")
        wanted[:, j] = x[:, j] + np.where(x[:, 0] > 4, past, 2)
    np.testing.assert_array_equal(tl.build(abreast(S, 8, 8, "peel"))(x), wanted)


def test_rows_are_turned_in_registers() -> None:
    code = tl.build(abreast(recurrence(64, 64, (1, 2), "float32"), 8, 8, "peel"), target=tl.codegen.target.target("x86-64-v3"))
    text = code.inspect("asm")
    assert "vextractps" not in text
    assert "vunpcklps" in text or "vshufps" in text
