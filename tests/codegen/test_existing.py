"""Which loads lanes that are off may make as well: those whose element is there in every iteration, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import For, Load, Nest, Store
from tensorlang.ir.traverse import loads_of, statements
from tests.codegen.nests import Guarded

ROWS, COLUMNS = 6, 64


def lowered(element: Callable[[Any, Any, Any], Any], columns: Any = COLUMNS, dtype: str = "uint16") -> Nest:
    x = tl.placeholder((ROWS, columns), dtype, name="X")
    s = tl.Schedule(tl.compute((ROWS, columns), lambda i, j: element(x, i, j), name="Y"))
    s.vectorize(s.split("j", 16)[1])
    return lower(s.nest, target("x86-64-v3"))


def told(nest: Nest) -> set[bool]:
    """What is told of the loads of X in vector loops."""
    loops = (part for part in statements(nest.body) if isinstance(part, For) and part.kind == "vector")
    stores = (part for loop in loops for part in statements(loop) if isinstance(part, Store))
    return {load.exists for part in stores for value in part.values for load in loads_of(value) if named(load) == "X"}


def named(load: Load) -> str:
    return str(getattr(load.buffer, "name", ""))


def checked(x: Any, i: Any, j: Any) -> Any:
    return tl.select((i + j) % 2 == 0, x[i, j], x[i, COLUMNS - 1 - j] + 1)


def clamped(x: Any, i: Any, j: Any) -> Any:
    return tl.select(x[i, j] > 3, x[tl.maximum(i - 1, 0), j], x[i, tl.minimum(j + 1, COLUMNS - 1)])


def padded(x: Any, i: Any, j: Any) -> Any:
    return tl.select(j + i < COLUMNS, x[i, j + i], 7)


@pytest.mark.parametrize("element", [checked, clamped])
def test_what_loops_keep_inside_is_read_by_all_lanes(element: Callable[[Any, Any, Any], Any]) -> None:
    assert told(lowered(element)) == {True}


def test_what_a_condition_keeps_inside_is_not() -> None:
    assert told(lowered(padded)) == {False}


def test_what_data_tell_is_not() -> None:
    x, at = tl.placeholder((COLUMNS,), name="X"), tl.placeholder((COLUMNS,), "int64", name="at")
    s = tl.Schedule(tl.compute((COLUMNS,), lambda j: tl.select(j % 3 == 0, x[tl.clamp(at[j], 0, COLUMNS - 1)], 0.0), name="Y"))
    s.vectorize(s.split("j", 8)[1])
    assert told(lower(s.nest, target("x86-64-v3"))) == {False}


def test_extents_of_a_call_tell_as_well() -> None:
    n = tl.dim("n")
    assert told(lowered(lambda x, i, j: tl.select((i + j) % 2 == 0, x[i, j], x[tl.minimum(i + 1, ROWS - 1), j]), n)) == {True}


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32"])
@pytest.mark.parametrize("element", [checked, clamped, padded])
def test_nothing_beyond_an_array_is_read(guarded: Guarded, element: Callable[[Any, Any, Any], Any], dtype: str) -> None:
    x = tl.placeholder((ROWS, COLUMNS), dtype, name="X")
    y = tl.compute((ROWS, COLUMNS), lambda i, j: element(x, i, j), name="Y")
    given = np.random.default_rng(0).integers(0, 9, (ROWS, COLUMNS)).astype(dtype)
    wanted = tl.evaluate(y, {x: given})
    for before in (False, True):
        np.testing.assert_array_equal(tl.build(y)(guarded(given, before=before)), wanted)


def test_lanes_of_words_are_no_branches_where_vectors_have_no_masks() -> None:
    """Each lane was one, of every read: mosaics took ten times as long on AVX2."""
    x = tl.placeholder((ROWS, COLUMNS), "uint16", name="X")
    y = tl.compute((ROWS, COLUMNS), lambda i, j: checked(x, i, j), name="Y")
    text = tl.build(y, target="x86-64-v3").inspect("asm")
    assert text.count("\tj") < 30


def test_a_condition_of_all_lanes_may_be_joined_with_one_that_no_lane_meets() -> None:
    """Found by fuzzing where vectors have no masks: lanes that are alike were one number."""
    x = tl.placeholder((2, 2), "int16", name="X")
    chosen = tl.compute((2, 2), lambda j, i: tl.select((i >= 1) & ((j >= 1) & (j < 1)), x[i, j], 0), name="S")
    s = tl.Schedule(chosen)
    s.vectorize(s.split("j", 2)[1])
    tl.build(s, target="x86-64-v3")
    np.testing.assert_array_equal(tl.build(s)(np.ones((2, 2), "int16")), np.zeros((2, 2)))
