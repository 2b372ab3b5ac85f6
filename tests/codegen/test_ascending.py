"""Ties of positions are decided by the order of iterations where that is theirs, and nowhere else; values stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Compare, Param, Store
from tensorlang.ir.traverse import statements, walk
from tests.draws import examples

ROWS, COLUMNS = 37, 21
VALUES = {"float32": (0.0, 1.0, -1.0, np.inf, -np.inf, np.nan), "int32": (0, 1, -(1 << 31), (1 << 31) - 1)}


def positions(name: str, kind: str) -> Any:
    X, k = tl.placeholder((ROWS, COLUMNS), kind, name="X"), tl.reduce_axis(ROWS, name="k")
    return tl.compute((COLUMNS,), lambda j: getattr(tl, name)(X[k, j], axis=k), name="P")


def drawn(kind: str, few: int, seed: int) -> Any:
    """Values of which many are equal."""
    rng = np.random.default_rng(seed)
    return rng.choice(np.array(VALUES[kind][:few], kind), (ROWS, COLUMNS))


def ties(s: tl.Schedule) -> list[bool]:
    """Of each statement that combines: does it still compare two positions?"""
    found = []
    for part in statements(lower(s.nest, target()).body):
        if isinstance(part, Store) and part.reducer is not None:
            nodes = [node for result in part.reducer.results for node in walk(result) if isinstance(node, Compare)]
            found.append(any({node.left, node.right} == {Param("a1", "int64"), Param("b1", "int64")} for node in nodes))
    return found


def test_rows_in_their_order_have_no_ties() -> None:
    s = tl.Schedule(positions("argmax", "float32"))
    assert ties(s) == [False]
    _, j = s.split("j", 8)
    s.reorder("j_o", "k", j)
    s.accumulate("P", "j_o")
    s.vectorize(j)
    assert not any(ties(s))


def test_rows_in_another_order_keep_them() -> None:
    s = tl.Schedule(positions("argmax", "float32"))
    outer, inner = s.split("k", 4)
    assert ties(s) == [False]
    s.reorder(inner, outer)
    assert ties(s) == [True]


@examples(12)
@given(
    st.sampled_from(["argmax", "argmin"]),
    st.sampled_from(["float32", "int32"]),
    st.integers(1, 6),
    st.integers(0, 1 << 30),
    st.sampled_from(["default", "plain", "split", "turned", "lanes", "peeled"]),
)
def test_every_order_finds_the_first_of_equals(name: str, kind: str, few: int, seed: int, how: str) -> None:
    outputs = positions(name, kind)
    s = tl.Schedule(outputs)
    if how in ("split", "turned"):
        outer, inner = s.split("k", 4)
        if how == "turned":
            s.reorder(inner, outer)
    elif how == "lanes":
        s.split("j", 8)
        s.reorder("j_o", "k", "j_i")
        s.vectorize("j_i")
    elif how == "peeled":
        s.peel("k", first=3, last=2)
    x = drawn(kind, few, seed)
    wanted = getattr(np, name)(x, axis=0)
    kernel = tl.build(outputs if how == "default" else s)
    np.testing.assert_array_equal(kernel(x), wanted)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_where_nothing_counts_there_is_no_position(name: str) -> None:
    X, M, k = tl.placeholder((ROWS, COLUMNS), name="X"), tl.placeholder((ROWS,), "bool", name="M"), tl.reduce_axis(ROWS, name="k")
    P = tl.compute((COLUMNS,), lambda j: getattr(tl, name)(X[k, j], axis=k, where=M[k]), name="P")
    x = drawn("float32", 6, 1)
    for mask in (np.zeros(ROWS, bool), np.arange(ROWS) % 3 == 2):
        wanted = np.full(COLUMNS, -1)
        if mask.any():
            wanted = np.flatnonzero(mask)[getattr(np, name)(x[mask], axis=0)]
        np.testing.assert_array_equal(tl.build(P)(x, mask), wanted)


def test_positions_over_two_axes_count_row_by_row() -> None:
    X, i, k = tl.placeholder((6, 5, COLUMNS), name="X"), tl.reduce_axis(6, name="i"), tl.reduce_axis(5, name="k")
    P = tl.compute((COLUMNS,), lambda j: tl.argmax(X[i, k, j], axis=(i, k)), name="P")
    x = np.random.default_rng(0).integers(0, 3, (6, 5, COLUMNS)).astype(np.float32)
    s = tl.Schedule(P)
    assert ties(s) == [False]
    s.reorder("k", "i")
    assert ties(s) == [True]
    for kernel in (tl.build(P), tl.build(s)):
        np.testing.assert_array_equal(kernel(x), x.reshape(30, COLUMNS).argmax(axis=0))
