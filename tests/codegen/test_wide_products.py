"""Products of integers that were widened to 64 bits: LLVM 22 ends the process where it sees that half of their lanes are not wanted."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import tensorlang as tl
from tensorlang.codegen.llvm import safe_compilation
from tensorlang.codegen.target import target
from tests.draws import examples

ELEMENTS = ("int32", "uint32", "int16", "uint8")
CONDITIONS = ("none", "thirds", "triangle", "data")
CHOICES = ("none", "factor", "product")


def product(extent: int, element: str, condition: str, choice: str) -> Any:
    A, B = (tl.placeholder((5, extent), element, name=name) for name in "AB")
    r = tl.reduce_axis(extent, name="r")
    where = {"none": {}, "thirds": {"where": r % 3 < 2}, "triangle": {}, "data": {}}[condition]

    def element_of(i: Any) -> Any:
        left, right = tl.cast(A[i, r], "int64"), tl.cast(B[i, r], "int64")
        left = tl.select(r < 4, left, 0) if choice == "factor" else left
        value = tl.select(r % 4 < 1, left * right, 0) if choice == "product" else left * right
        more = {"triangle": {"where": r < i}, "data": {"where": A[i, r] > 3}}.get(condition, where)
        return tl.sum(value, axis=r, **more)

    return tl.compute((5,), element_of, name="C")


def expected(a: Any, b: Any, condition: str, choice: str) -> Any:
    i, r = np.indices(a.shape)
    left = np.where(r < 4, a.astype("int64"), 0) if choice == "factor" else a.astype("int64")
    found = np.where(r % 4 < 1, left * b, 0) if choice == "product" else left * b.astype("int64")
    wanted = {"none": np.ones_like(found, bool), "thirds": r % 3 < 2, "triangle": r < i, "data": a > 3}[condition]
    return np.where(wanted, found, 0).sum(1)


@examples(60)
@given(
    st.integers(1, 40),
    st.sampled_from(ELEMENTS),
    st.sampled_from(CONDITIONS),
    st.sampled_from(CHOICES),
    st.sampled_from((0, 4, 5, 8, 16)),
    st.sampled_from(("mask", "guard", "peel", "shift")),
)
@example(20, "int32", "none", "none", 0, "mask")
@example(21, "int32", "thirds", "none", 0, "mask")
@example(14, "int16", "none", "product", 16, "guard")
@example(3, "int32", "none", "factor", 8, "mask")
def test_whatever_lanes_are_wanted(extent: int, element: str, condition: str, choice: str, lanes: int, tail: str) -> None:
    C = product(extent, element, condition, choice)
    s = tl.Schedule(C)
    if lanes:
        with contextlib.suppress(tl.ScheduleError):
            s.vectorize(s.split("C.r", lanes, tail=tail)[1])
    rng = np.random.default_rng(extent)
    a, b = (rng.integers(0, 200, (5, extent)).astype(element) for _ in "AB")
    kernel = tl.build(s if lanes else C)
    np.testing.assert_array_equal(kernel(a, b), expected(a.astype("int64"), b.astype("int64"), condition, choice))


@pytest.mark.parametrize("name", ["x86-64-v4", "znver4", "x86-64-v3"])
@pytest.mark.parametrize("extent", [4, 12, 20, 21])
def test_other_processors_have_such_products_too(name: str, extent: int) -> None:
    assert tl.build(product(extent, "int32", "thirds", "none"), target=target(name)).program is not None


def test_they_keep_the_instruction_for_factors_of_32_bits() -> None:
    A, B = tl.placeholder((64, 100), "int32", name="A"), tl.placeholder((100, 96), "int32", name="B")
    k = tl.reduce_axis(100, name="k")
    C = tl.compute((64, 96), lambda i, j: tl.sum(tl.cast(A[i, k], "int64") * tl.cast(B[k, j], "int64"), axis=k), name="C")
    code = tl.build(C, target=target("x86-64-v4")).inspect("asm")
    assert "vpmuldq" in code and "vpmullq" not in code


def test_they_are_compiled_where_llvm_may_die() -> None:
    text = "%x = sext <8 x i32> %a to <8 x i64>\n%y = mul <8 x i64> %x, %x"
    machine = target("x86-64-v4").machine
    assert safe_compilation.why_isolated(text, machine) is not None
    host = safe_compilation._host()
    if "+avx512f" in host.features:
        assert safe_compilation.why_isolated(text, host) == "it multiplies integers that were widened to 64 bits"
    else:
        assert safe_compilation.why_isolated(text, host) is None
