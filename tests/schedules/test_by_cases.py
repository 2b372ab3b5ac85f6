"""`by_cases` says what a stage computes for each iteration of a short loop, and `specialize` puts in what tables hold there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tests.schedules.programs import check, code_and_reason, scale

n = tl.dim("n")


def shifted(count: int = 3, dtype: str = "int64") -> Any:
    """Rows of X read round, each by a number of elements of its own."""
    x, at = tl.placeholder((8,), name="X"), tl.placeholder((count,), dtype, name="at")
    return tl.compute((count, 8), lambda d, j: x[(j + tl.cast(at[d], "int64")) % 8], name="Y")


def test_each_iteration_has_a_case_and_its_place_in_the_table_is_a_literal() -> None:
    s = tl.Schedule(shifted())
    s.by_cases("Y", "d")
    assert "Y[d, j] = select(d < 1, X[(j + at[0]) % 8], select(d < 2, X[(j + at[1]) % 8], X[(j + at[2]) % 8]))" in str(s)
    check(s)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_a_version_has_what_tables_hold_as_literals_and_the_other_one_reads_them(dtype: str) -> None:
    s = tl.Schedule(shifted(dtype=dtype))
    s.by_cases("Y", "d")
    s.specialize("(at[0] == 0) & (at[1] == 1) & (at[2] == 7)")
    version, rest = str(s).split("else:")
    assert "select(d < 1, X[j % 8], select(d < 2, X[(j + 1) % 8], X[(j + 7) % 8]))" in version
    assert "at[2]" in rest
    check(s)
    s.vectorize("j")
    kernel, x = tl.build(s), np.arange(8, dtype="f4")
    for table in ([0, 1, 7], [0, 1, 6]):
        want = [np.roll(x, -shift) for shift in table]
        np.testing.assert_array_equal(kernel(x, np.array(table, dtype)), want)


def test_a_version_alone_gets_cases_and_its_condition_is_known_in_them() -> None:
    s = tl.Schedule(shifted())
    s.specialize("(at[0] == 0) & (at[1] == 1) & (at[2] == 7)")
    s.by_cases("Y", "d")
    version, rest = str(s).split("else:")
    assert "select(d < 1, X[j % 8], select(d < 2, X[(j + 1) % 8], X[(j + 7) % 8]))" in version
    assert "select" not in rest
    check(s)
    s.by_cases("Y", "d_generic")
    assert "at[1]" in str(s).split("else:")[1]
    check(s)


def test_sums_loops_that_do_not_begin_at_zero_and_unrolled_loops_have_cases() -> None:
    x, w = tl.placeholder((5, 9), name="X"), tl.placeholder((9,), name="w")
    k = tl.reduce_axis((2, 7), name="k")
    for unrolled in (False, True):
        s = tl.Schedule(tl.compute((5,), lambda i: tl.sum(x[i, k] * w[k], axis=k), name="Y"))
        s.by_cases("Y", "k")
        if unrolled:
            s.unroll("k")
        check(s)


def test_what_has_no_cases_is_refused() -> None:
    s = tl.Schedule(scale(n, 40))
    assert code_and_reason(s, "by_cases", "Y", "i") == ("TL-S204", "the cases are those of a loop with literal bounds; 'i' has others")
    assert code_and_reason(s, "by_cases", "Y", "j") == ("TL-S005", "'j' has 40 iterations (from 2 to 32 are cases)")
    assert code_and_reason(s, "by_cases", "Z", "j")[0] == "TL-S003"
    s = tl.Schedule(tl.compute((4, 4), lambda i, j: tl.cast(i, "float32"), name="Y"))
    assert code_and_reason(s, "by_cases", "Y", "j") == ("TL-S301", "nothing that 'Y' computes inside is said in terms of 'j'")
    x = tl.placeholder((40,), name="X")
    long = tl.compute((30,), lambda i: sum(x[i + a % 10] * tl.cast(i * a, "float32") for a in range(60)), name="L")
    assert code_and_reason(tl.Schedule(long), "by_cases", "L", "i")[0] == "TL-S202"


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("at[9] == 0", "the condition reads 'at' at [9], where its extents do not say that there is an element"),
        ("at[0, 0] == 0", "the condition reads 'at' at [0, 0], where its extents do not say that there is an element"),
        ("X[0] == 0", "the condition names 'X', which is no operand of integers here that stays as it is; known: 'at'"),
        ("Y[0, 0] == 0", "the condition names 'Y', which is no operand of integers here that stays as it is; known: 'at'"),
        ("at[n] == 0", "'n' in 'at[n] == 0' is no literal place of a table"),
    ],
)
def test_conditions_on_what_is_no_table_are_refused(condition: str, reason: str) -> None:
    assert code_and_reason(tl.Schedule(shifted()), "specialize", condition) == ("TL-S005", reason)


def test_parts_of_other_tensors_that_are_put_together_all_count() -> None:
    """A search of placements asks what is read of each: of three parts the model read the middle one alone, and the search failed."""
    x = tl.placeholder((4, 6, 40), name="X")
    parts = [tl.compute((4, 2, 40), lambda a, b, c, n=n: tl.exp(x[a, b + 2 * n, c]) * (n + 1), name=f"part{n}") for n in range(3)]
    whole = tl.compute(
        (4, 6, 40),
        lambda a, b, c: tl.select(b < 2, parts[0][a, b, c], tl.select(b < 4, parts[1][a, b - 2, c], parts[2][a, b - 4, c])),
        name="whole",
    )
    given = np.random.default_rng(0).random((4, 6, 40), np.float32)
    want = np.exp(given) * np.repeat([1, 2, 3], 2)[None, :, None]
    np.testing.assert_allclose(tl.build(whole)(given), want, rtol=1e-5)
