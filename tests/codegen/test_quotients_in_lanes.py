"""Quotients and rests of indices along lanes: right for all operands, and without a product of 64 bits for each lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.emission.quotients import reciprocal
from tensorlang.codegen.target import target
from tensorlang.ir import Axis, Binary, Cast, Const
from tensorlang.ir.dtype import INT64, DType
from tensorlang.schedules.rewriting.rising import rises
from tests.draws import examples

TABLE = 4096
TYPES = st.sampled_from(["float32", "float64", "uint8"])


def vectors(body: Any, lanes: int, dtype: str = "float32", rows: int = 7, columns: int = 35) -> tl.Schedule:
    x = tl.placeholder((TABLE,), dtype, name="x")
    s = tl.Schedule(tl.compute((rows, columns), lambda b, i: x[body(b, i)] + 1, name="y"))
    s.vectorize(s.split("y.i", lanes)[1])
    return s


@examples(80)
@given(st.integers(1, 300), st.integers(-9, 9), st.integers(-40, 40), st.sampled_from([4, 8, 16, 32]), TYPES)
def test_they_are_floored(divisor: int, step: int, first: int, lanes: int, dtype: str) -> None:
    """Where the dividend may be negative as well, and the lanes fall."""

    def place(b: Any, i: Any) -> Any:
        dividend = first + step * i + 11 * b
        return 2000 + dividend // divisor + 3 * (dividend % divisor)

    data = (np.arange(TABLE) % 251).astype(dtype)
    b, i = np.ogrid[:7, :35]
    np.testing.assert_array_equal(tl.build(vectors(place, lanes, dtype))(data), (data[place(b, i)] + 1).astype(dtype))


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 10, 25, 100, 641, 1000, 4095])
def test_a_product_of_32_bits_has_the_quotient(divisor: int) -> None:
    end = divisor + 200
    factor, shift = reciprocal(divisor, end)
    assert factor
    numbers = np.arange(end, dtype=np.uint64)
    assert int(numbers[-1]) * factor < 1 << 32
    np.testing.assert_array_equal((numbers * np.uint64(factor)) >> np.uint64(shift), numbers // np.uint64(divisor))


def test_there_may_be_none() -> None:
    assert reciprocal(3, 1 << 31) == (0, 0)


@pytest.mark.parametrize("cpu", ["znver3", "znver4"])
@pytest.mark.parametrize(
    "place", [lambda b, i: (i + b) // 3, lambda b, i: (3 * i + b) % 5, lambda b, i: (i + b) % 5, lambda b, i: (i + 100 * b) % 700]
)
def test_no_lane_is_divided_by_itself(cpu: str, place: Any) -> None:
    """Products of 64 bits are those of what all lanes share: one a vector, or one a part of it."""
    text = tl.build(vectors(place, 16, rows=512, columns=64), target=cpu).inspect("asm")
    assert text.count("mulx") + text.count("mulq") <= 4


def test_places_behind_a_quotient_rise() -> None:
    lane, row = Axis("j"), Axis("i")

    def over(by: int, *, short: bool, step: int = 1) -> Any:
        dividend = Binary("add", Binary("mul", lane, Const(step, INT64)), row)
        if not short:
            return Binary("floordiv", dividend, Const(by, INT64))
        kind = DType("uint32")
        return Cast(Binary("floordiv", Cast(dividend, kind, fits=True), Const(by, kind)), INT64)

    for short in (False, True):
        assert rises((row, over(3, short=short)), "j")
        assert rises((over(3, short=short, step=3),), "j")
        assert not rises((over(3, short=short, step=4),), "j")
        assert not rises((over(3, short=short, step=-1),), "j")
        assert not rises((over(3, short=short), row), "j")


@pytest.mark.parametrize("cpu", ["haswell", "znver3", "znver4", "cascadelake"])
def test_the_model_knows_what_rests_take(cpu: str) -> None:
    def seconds(place: Any) -> float:
        return vectors(place, 16, rows=512, columns=64).estimate(target(cpu)).seconds

    assert seconds(lambda b, i: (3 * i + b) % 5) > 3 * seconds(lambda b, i: i)
