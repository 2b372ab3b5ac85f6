"""The bench of extents that a call tells: each definition holds for dims and for literals, and a row says what both take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.extents import CASES, Case, row

SMALL = {place: replace(case, sizes=tuple(min(size, 12) for size in case.sizes)) for place, case in enumerate(CASES)}


@pytest.mark.parametrize("case", [SMALL[place] for place in (1, 10, 14, 17)], ids=lambda case: case.name)
def test_a_row_has_both_times_and_their_ratio(case: Case) -> None:
    name, sizes, dims, literals, ratio, *seconds = (part.strip() for part in row(case).strip("|").split("|"))
    assert name == case.name and sizes.count(",") == len(case.sizes) - 1
    assert float(ratio) == pytest.approx(float(literals) / float(dims), abs=0.02)
    assert all(float(second) >= 0 for second in seconds)
