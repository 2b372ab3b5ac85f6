"""Intermediates that are read around an element have rows that begin at lines; others are stored as they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.target import target
from tensorlang.ir.mentions import allocations


def blurred(width: int, dtype: str = "float32") -> tuple[Any, Any]:
    """Steps of means of three, along both axes."""
    X = tl.placeholder((60, width), dtype, name="X")

    def element(x: Any, i: Any, j: Any) -> Any:
        inside = (i > 0) & (i < 59) & (j > 0) & (j < width - 1)
        return tl.select(inside, 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]), x[i, j])

    step = lambda _, x: tl.compute((60, width), lambda i, j: element(x, i, j), name="next")  # noqa: E731
    return tl.scan(step, X, 3, keep="last", name="scan"), X


def pitches(out: Any) -> dict[str, int]:
    """Bytes of a row as it is stored, of each intermediate."""
    found = allocations(default_schedule(out, target("znver4"), threads=1).nest.body)
    return {buffer.name: int(buffer.in_memory[-1].value) * buffer.dtype.bytes for buffer in found}


@pytest.mark.parametrize(("width", "lines"), [(500, 33), (257, 17), (999, 63), (512, 32), (48, 3), (100, 0)])
def test_rows_are_an_odd_number_of_lines_where_they_were_none(width: int, lines: int) -> None:
    """Whole lines stay as many as they are, and short rows are not lengthened by much."""
    assert pitches(blurred(width)[0])["scan.ring"] == (lines * 64 or width * 4)


def test_what_is_read_at_one_place_is_stored_without_gaps() -> None:
    X, n = tl.placeholder((40, 500), name="X"), tl.reduce_axis(500, name="k")
    rows = tl.compute((40, 500), lambda i, j: tl.exp(X[i, j]), name="rows")
    total = tl.compute((40,), lambda i: tl.sum(rows[i, n], axis=n), name="total")
    out = tl.compute((40, 500), lambda i, j: rows[i, j] / total[i], name="out")
    assert all(pitch in (4, 2000) for pitch in pitches(out).values())


@pytest.mark.parametrize("width", [257, 500])
def test_results_are_the_same(width: int) -> None:
    out, _ = blurred(width)
    x = np.random.default_rng(0).random((60, width), dtype=np.float32)
    wanted = x.copy()
    for _ in range(3):
        near = wanted[:-2, 1:-1] + wanted[2:, 1:-1] + wanted[1:-1, :-2] + wanted[1:-1, 2:]
        wanted[1:-1, 1:-1] = np.float32(0.25) * near
    np.testing.assert_array_max_ulp(tl.build(out)(x), wanted, 2)
