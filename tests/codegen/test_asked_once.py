"""What a condition on data has read is there for the statement under it: gathers under two masks would not be one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl

ROWS, MOST = 50, 24


def near(condition: Any) -> Any:
    """Of listed neighbours the sum over those that a condition on their distance takes, along each of three axes."""
    x = tl.placeholder((ROWS, 3), "float64", name="x")
    other = tl.placeholder((ROWS, MOST), "int32", name="other")
    many = tl.placeholder((ROWS,), "int32", name="many")

    def force(i: Any, c: Any) -> Any:
        e = tl.reduce_axis((0, many[i]), name="e", within=MOST)
        j = tl.clamp(other[i, e], 0, ROWS - 1)
        square = sum((x[i, d] - x[j, d]) * (x[i, d] - x[j, d]) for d in range(3))
        return tl.sum((x[i, c] - x[j, c]) / square, axis=e, where=condition(square))

    return tl.compute((ROWS, 3), force, name="F")


def given() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    other = (np.arange(ROWS)[:, None] + rng.integers(1, ROWS, (ROWS, MOST))) % ROWS
    return rng.random((ROWS, 3)), other.astype(np.int32), rng.integers(0, MOST + 1, ROWS).astype(np.int32)


def wanted(x: Any, other: Any, many: Any, condition: Any) -> Any:
    apart = x[:, None] - x[other]
    square = (apart * apart).sum(-1)
    takes = condition(square) & (np.arange(MOST) < many[:, None])
    return np.where(takes[..., None], apart / square[..., None], 0).sum(1)


@pytest.mark.parametrize("limit", [0.0, 0.5, 9.0])
@pytest.mark.parametrize("on", ["native", "x86-64-v3"])
def test_what_is_taken_is_that_of_numpy(limit: float, on: str) -> None:
    """None, some or all of the neighbours."""
    if not tl.target(on).is_x86:
        pytest.skip("of x86-64")
    kernel, operands = tl.build(near(lambda square: square < limit), on), given()
    np.testing.assert_allclose(kernel(*operands), wanted(*operands, lambda square: square < limit), rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not tl.target("native").is_x86, reason="of x86-64")
def test_each_coordinate_is_gathered_once_for_condition_and_value() -> None:
    x, other = tl.placeholder((64,), "float64", name="x"), tl.placeholder((ROWS, MOST), "int32", name="other")
    e = tl.reduce_axis(MOST, name="e")

    def taken(i: Any) -> Any:
        value = x[tl.clamp(other[i, e], 0, 63)]
        return tl.sum(1.0 / value, axis=e, where=value < 0.5)

    s = tl.Schedule(tl.compute((ROWS,), taken, name="Y"))
    s.vectorize(s.split("e", 8)[1])
    text = tl.build(s, "x86-64-v4").inspect("llvm")
    assert len(re.findall(r"call <8 x double> @llvm\.masked\.gather", text)) == 1
