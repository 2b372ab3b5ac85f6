"""A division by a literal takes two instructions, and rounds as a division does."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target
from tensorlang.ir.dtype import FLOAT32, FLOAT64
from tensorlang.ir.reciprocals import doubtful, halves, nearest, quotient, reciprocal

DIVISORS = [3.0, 6.0, 7.0, 9.0, 10.0, 49.0, 255.0, 0.001, 0.1, 1 / 3, 2.5, -7.0, -0.3, 13 / 12, 273.15, 1e20, 1e-20, 4.0, float("inf"), 0.0]


@pytest.mark.parametrize("bits", [4, 7, 9])
def test_what_is_rounded_the_other_way_is_among_what_is_tried(bits: int) -> None:
    """Of every divisor and every number of few bits: that these are tried is the proof for many."""
    numbers = range(1 << (bits - 1), 1 << bits)
    missed = 0
    for divisor in map(Fraction, numbers[1:]):
        parts = halves(divisor, bits)
        wrong = {x for x in map(Fraction, numbers) if quotient(x, *parts, bits) != nearest(x / divisor, bits)}
        missed += bool(wrong)
        assert wrong <= set(doubtful(divisor, bits))
    assert missed  # else nothing would have to be tried


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9), st.integers(1, 1 << 53))
def test_both_parts_make_the_reciprocal_to_twice_the_precision(divisor: Fraction, x: int) -> None:
    parts = halves(divisor, 53)
    assert abs(sum(parts) * divisor - 1) < Fraction(1, 1 << 104)
    assert abs(quotient(nearest(Fraction(x), 53), *parts, 53) * divisor / nearest(Fraction(x), 53) - 1) < Fraction(1, 1 << 52)


def test_divisors_that_are_exact_or_out_of_range_or_miss_a_number_have_none() -> None:
    assert all(reciprocal(divisor, FLOAT64) is None for divisor in (0.0, 1.0, -0.25, float("inf"), float("nan"), 1e300, 3e-310))
    assert reciprocal(1 / 3, FLOAT32) is None and reciprocal(3.0, FLOAT32) is not None
    assert reciprocal(-7.0, FLOAT32) == tuple(-part for part in reciprocal(7.0, FLOAT32) or ())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_by_literals_are_those_of_numpy_to_the_last_bit(divisor: float, dtype: str) -> None:
    """Of numbers of all sizes, infinities, zeros of both signs; what is nearly subnormal may be one unit of its last place off."""
    kind, of = np.dtype(dtype), np.finfo(dtype)
    x = np.random.default_rng(0).integers(0, 1 << 63, 20_000, dtype="uint64").astype(f"uint{kind.itemsize * 8}").view(kind)
    x = np.concatenate([x, -x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, of.max, of.tiny], kind)])
    X = tl.placeholder(x.shape, dtype, name="X")
    with np.errstate(all="ignore"):
        expected = x / kind.type(divisor)
        near = np.abs(expected) < of.tiny * 2.0 ** (of.nmant + 4)
        unit = np.where(near & (expected != 0), np.spacing(np.abs(expected)), 0)
    found = tl.build(tl.compute(x.shape, lambda i: X[i] / divisor, name="Y"))(x)
    np.testing.assert_array_equal(found[~near], expected[~near])
    assert (np.abs(found[near] - expected[near]) <= np.maximum(unit[near], of.smallest_subnormal)).all()
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])


@pytest.mark.parametrize(("machine", "divided"), [("x86-64", True), ("x86-64-v3", False), ("neoverse-v1", False)])
def test_who_multiplies_and_adds_in_one_does_not_divide(machine: str, divided: bool) -> None:
    X, where = tl.placeholder((64,), name="X"), target(machine)
    text = emit(lower(tl.Schedule(tl.compute((64,), lambda i: X[i] / 9.0, name="Y")).nest, where), where, name="f")
    assert ("fdiv" in text) == divided
