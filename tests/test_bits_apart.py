"""Bits of sums, by blocks: the same numbers, and vectors that stay whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang import ir
from tensorlang.algebra.bits import BITWISE, bits_apart
from tensorlang.codegen.emission.emit import emitted
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Const, Expr
from tensorlang.ir.integers import ARITHMETIC
from tensorlang.ir.linear import Linear

SPANS = {"a": (-2, 3), "b": (0, 3), "c": (0, 15)}
LINEAR = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y}


def at(expr: Expr, point: dict[str, int]) -> int:
    match expr:
        case Const(value):
            return int(value)
        case Axis(name):
            return point[name]
        case Binary(op, left, right):
            return int((LINEAR.get(op) or ARITHMETIC[op])(at(left, point), at(right, point)))
        case _:
            raise AssertionError(expr)


def span(form: Linear) -> tuple[int, int]:
    ends = [sorted((factor * SPANS[atom.name][0], factor * SPANS[atom.name][1])) for atom, factor in form.terms.items()]  # type: ignore[attr-defined]
    return form.constant + sum(least for least, _ in ends), form.constant + sum(most for _, most in ends)


@given(
    st.sampled_from(BITWISE),
    st.fixed_dictionaries(
        {"a": st.sampled_from([16, 32, 64, 48, 7]), "b": st.sampled_from([16, 8, 4, 24]), "c": st.sampled_from([1, 1, 2, 4])}
    ),
    st.integers(-40, 40),
    st.integers(-70, 130),
)
def test_they_are_the_same_numbers(op: str, factors: dict[str, int], constant: int, mask: int) -> None:
    form = Linear(constant, {Axis(name): factor for name, factor in factors.items()})
    apart = bits_apart(op, form, mask, span)
    if apart is None:
        return
    for a in range(-2, 4):
        for b in range(4):
            for c in range(16):
                point = {"a": a, "b": b, "c": c}
                value = constant + sum(factors[name] * point[name] for name in factors)
                assert at(apart, point) == ARITHMETIC[op](value, mask)


def test_lanes_are_apart_from_what_is_the_same_for_all() -> None:
    form = Linear(0, {Axis("a"): 16, Axis("c"): 1})
    moved = bits_apart("xor", form, 64, span)
    assert moved == Binary("add", Binary("mul", ir.const(16), Binary("xor", Axis("a"), ir.const(4))), Axis("c"))
    assert bits_apart("xor", Linear(0, {Axis("a"): 8, Axis("c"): 1}), 64, span) is None  # 16 values of c are no part of a block of 8


def exchanged(size: int, distance: int, dtype: str) -> Any:
    """What a butterfly adds."""
    A = tl.placeholder((size,), dtype, name="A")
    return tl.compute((size,), lambda i: tl.select((i & distance) != 0, A[i ^ distance] - A[i], A[i] + A[i ^ distance]), name="B")


@pytest.mark.parametrize("distance", [1, 2, 8, 16, 64, 256, 5, 48])
@pytest.mark.parametrize(("size", "dtype"), [(512, "float32"), (1536, "float64"), (1024, "int16")])
def test_butterflies_load_vectors(size: int, dtype: str, distance: int) -> None:
    """They were gathered, one element at a time: 0.4 of the speed."""
    out = exchanged(size, distance, dtype)
    isa = target("znver4")
    s = tl.Schedule(out)
    s.split("i", 32)
    s.vectorize("i_i")
    assert "masked.gather" not in emitted(lower(s.nest, isa), isa, name="B").text
    data = (100 * np.random.default_rng(0).standard_normal(size)).astype(dtype)
    i = np.arange(size)
    wanted = np.where(i & distance, data[i ^ distance] - data, data + data[i ^ distance])
    np.testing.assert_array_equal(tl.build(s)(data), wanted)
    np.testing.assert_array_equal(tl.build(out)(data), wanted)
