"""What is left out of each run is in the slow set, and every value of every parameter is in each run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.thinned import crossed, few


def fast(cases: Any) -> list[Any]:
    return [case for case in cases if not getattr(case, "marks", ())]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_few_are_as_many_as_asked_for_and_none_is_lost(count: int) -> None:
    cases = few(range(7), count)
    assert len(fast(cases)) == count and len(cases) == 7 and cases[0] == 0


def test_every_value_is_in_each_run_and_every_combination_in_the_slow_one() -> None:
    names, cases = crossed({"a": "xyz", "b, c": [(1, 2), (3, 4), (5, 6), (7, 8)], "d": [True, False]}).args
    assert names == "a,b, c,d" and len({case.values for case in cases}) == 3 * 4 * 2
    kept = [case.values for case in fast(cases)]
    assert len(kept) == 4
    assert (
        {case[0] for case in kept} == set("xyz")
        and {case[1] for case in kept} == {1, 3, 5, 7}
        and {case[3] for case in kept} == {True, False}
    )


def test_as_many_combinations_as_asked_for_are_in_each_run() -> None:
    _, cases = crossed({"a": range(7), "b": "xy"}, count=3).args
    kept = [case.values for case in fast(cases)]
    assert len(kept) == 3 and len({a for a, _ in kept}) == 3 and {b for _, b in kept} == set("xy") and len(cases) == 14
