"""Vectors that are read again a few elements on: taken out of registers, with the same results, and nothing more is read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.lowering.lower import lower
from tests.codegen.nests import Guarded, Run

WIDE = "znver4"


def taps(places: list[int], extent: int, vectors: int, dtype: str = "float32") -> tl.Schedule:
    """Sums of elements so far from each element, in vectors of so many registers of 512 bits."""
    first = min(places)
    X = tl.placeholder((extent + max(places) - first,), dtype, name="X")
    s = tl.Schedule(
        tl.compute((extent,), lambda i: sum((X[i + at - first] for at in places[1:]), start=X[i + places[0] - first]), name="Y")
    )
    s.vectorize(s.split("i", vectors * 64 // np.dtype(dtype).itemsize)[1])
    return s


def counted(s: tl.Schedule, cpu: str = WIDE) -> tuple[int, int]:
    """Loads of registers, and shuffles of two of them, in the loop over vectors."""
    text = str(tl.build(s, target=cpu).inspect("llvm"))
    loads = re.findall(r"load <(?:16 x (?:float|i32)|8 x (?:double|i64))>", text)
    return len(loads), len(re.findall(r"shufflevector <(?:16 x (?:float|i32)|8 x (?:double|i64))>", text))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", [2, 4])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_one_vector_is_loaded_and_the_ends_of_the_others(dtype: str, vectors: int, count: int) -> None:
    extent = 64 * vectors * 64
    loads, shuffles = counted(taps(list(range(count)), extent, vectors, dtype))
    assert loads == vectors + (count - 1) and shuffles == (count - 1) * (vectors - 1)


def test_what_lies_further_apart_than_a_register_is_loaded_by_itself() -> None:
    assert counted(taps([0, 40], 1 << 14, 2)) == (4, 0)


def test_narrow_elements_and_registers_shorter_than_a_line_are_loaded_each() -> None:
    assert counted(taps([0, 1, 2], 1 << 14, 2), "znver3")[1] == 0
    narrow = taps([0, 1], 1 << 14, 2, "uint8")
    assert "shufflevector <64 x i8>" not in str(tl.build(narrow, target=WIDE).inspect("llvm"))


def test_words_two_apart_are_taken_from_one_another() -> None:
    """By multiples of 4 bytes: the words at 2 and 4 from those at 0, those at 3 from those at 1."""
    text = str(tl.build(taps([0, 1, 2, 3, 4], 1 << 14, 2, "uint16"), target=WIDE).inspect("llvm"))
    assert len(re.findall(r"load <32 x i16>", text)) == 7 and len(re.findall(r"shufflevector <32 x i16>", text)) == 3


def test_each_row_of_a_window_has_a_register_that_others_are_taken_from() -> None:
    X = tl.placeholder((40, 1024), name="X")
    s = tl.Schedule(tl.compute((38, 992), lambda i, j: sum(X[i + a, j + b] for a in range(3) for b in range(3)), name="Y"))
    s.vectorize(s.split("j", 32, "peel")[1])
    assert counted(s) == (3 * (2 + 2), 3 * 2)


def test_words_that_are_widened_come_wide_out_of_memory() -> None:
    X = tl.placeholder((1 << 14,), "uint16", name="X")
    s = tl.Schedule(tl.compute(((1 << 14) - 64,), lambda i: tl.cast(X[i], "uint32") + tl.cast(X[i + 2], "uint32"), name="Y"))
    s.vectorize(s.split("i", 64, "peel")[1])
    assert "shufflevector <32 x i16>" not in str(tl.build(s, target=WIDE).inspect("llvm"))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float16"])
@pytest.mark.parametrize("places", [[0, 2, 4], [0, 1, 2, 3, 4], [-5, 0, 7, 8, 12]])
def test_taps_of_narrow_elements_are_what_numpy_says(places: list[int], dtype: str) -> None:
    extent, first = 700, min(places)
    x = np.random.default_rng(0).integers(0, 20, extent + max(places) - first).astype(dtype)
    wanted = sum(x[at - first : at - first + extent] for at in places)
    for vectors in (1, 2, 4) if x.itemsize > 1 else (1, 2):
        np.testing.assert_array_equal(tl.build(taps(places, extent, vectors, dtype))(x), wanted)


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=6, unique=True), st.integers(1, 8), st.integers(70, 400))
def test_any_taps_are_what_numpy_says(places: list[int], vectors: int, extent: int) -> None:
    first = min(places)
    x = np.random.default_rng(0).integers(0, 100, extent + max(places) - first).astype(np.float32)
    wanted = sum(x[at - first : at - first + extent] for at in places)
    assert np.array_equal(tl.build(taps(places, extent, vectors))(x), wanted)


@pytest.mark.parametrize("places", [(0, 1), (0, 1, 2), (3, 0)])
def test_nothing_beyond_what_is_read_is_touched(run: Run, guarded: Guarded, places: tuple[int, ...]) -> None:
    """The first and the last element that is read stand beside pages that may not be touched."""
    lanes = 64
    length = lanes + max(places)
    X = tl.placeholder((length,), name="X")
    s = tl.Schedule(tl.compute((lanes,), lambda i: sum((X[i + at] for at in places[1:]), start=X[i + places[0]]), name="Y"))
    s.vectorize("i")
    data, found = np.arange(length, dtype=np.float32), np.zeros(lanes, np.float32)
    for before in (False, True):
        run(lower(s.nest, tl.target()), guarded(data, before=before), found)
        assert np.array_equal(found, sum(data[at : at + lanes] for at in places))


def test_a_state_is_read_before_any_of_its_vector_is_written() -> None:
    """In place: lanes read what the whole vector was, whichever of its registers is stored first."""
    X = tl.placeholder((4, 64), name="X")
    step = lambda _, x: tl.compute((4, 64), lambda i, j: x[i, tl.minimum(j + 1, 63)] + x[i, j], name="next")  # noqa: E731
    made = tl.scan(step, X, 5, keep="last", name="scan")
    x: Any = np.random.default_rng(0).integers(0, 4, (4, 64)).astype(np.float32)
    wanted = x.copy()
    for _ in range(5):
        wanted = np.concatenate([wanted[:, 1:], wanted[:, -1:]], axis=1) + wanted
    assert np.array_equal(tl.build(made)(x), wanted)
