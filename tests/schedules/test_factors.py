"""Factors of splits: larger than a loop where that is of use, and never so large that counting what a tail leaves out is all there is."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tests.schedules.judged import judge


def doubled(n: Any) -> tl.Schedule:
    x = tl.placeholder((n,), "int32", name="X")
    return tl.Schedule(tl.compute((n,), lambda i: x[i] * 2, name="Y"))


@pytest.mark.parametrize(("n", "most"), [(5, 1 << 16), (100_000, 100_000), (tl.dim("n"), 1 << 24)])
def test_a_loop_is_cut_by_no_more_than_a_multiple_of_it(n: Any, most: int) -> None:
    s = doubled(n)
    refused = s.can("split", "i", most + 1)
    assert refused.error.code == "TL-S005"
    assert f"in 1..{most}" in str(refused.error)
    s.split("i", most)


def test_a_loop_may_be_shorter_than_its_tile() -> None:
    s = doubled(5)
    s.split("i", 16)
    s.reorder("i_i", "i_o")
    judge(s)
