"""`join_reductions` computes two reductions over equal ranges in one pass, unless one needs what the other computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, code_and_reason
from tests.thinned import crossed

REDUCTIONS: dict[str, Callable[..., Any]] = {"sum": tl.sum, "max": tl.max, "prod": tl.prod, "min": tl.min}


def pair(one: str = "sum", other: str = "max", rows: Any = 7, length: Any = 13) -> tuple[tl.Tensor, tl.Tensor]:
    """Two reductions of the rows of X, one of them of what is computed of these."""
    x = tl.placeholder((rows, length), name="X")
    k, r = tl.reduce_axis(length, name="k"), tl.reduce_axis(length, name="r")
    first = tl.compute((rows,), lambda i: REDUCTIONS[one](x[i, k], axis=k), name="S")
    return first, tl.compute((rows,), lambda i: REDUCTIONS[other](x[i, r] * 2 - 1, axis=r), name="M")


@crossed({"one": REDUCTIONS, "other": REDUCTIONS, "length": [0, 1, 13]})
def test_both_components_are_what_each_was(one: str, other: str, length: int) -> None:
    s = tl.Schedule(*pair(one, other, length=length))
    s.join_reductions("S", "M")
    assert s.loops("M") == ("M.i", "M.r")
    assert "S" not in s.stages()
    check(s)


@crossed({"length": [64, tl.dim("n")], "steps": ["rfactor", "accumulate", "vectorize", "parallel"]})
def test_the_joined_reduction_takes_further_steps(length: Any, steps: str) -> None:
    s = tl.Schedule(*pair("sum", "sum", length=length))
    s.join_reductions("S", "M")
    outer, inner = s.split("r", 8, tail="mask")
    match steps:
        case "rfactor":
            s.rfactor(inner)
        case "accumulate":
            s.accumulate("S", at=outer, partial=True)
        case "vectorize":
            s.vectorize(inner)
        case _:
            s.parallel("M.i")
    check(s, dims={"n": 61}, rtol=1e-4)


def test_a_component_of_another_type_keeps_its_type() -> None:
    x = tl.placeholder((9, 20), "int16", name="X")
    k, r = tl.reduce_axis(20, name="k"), tl.reduce_axis(20, name="r")
    total = tl.compute((9,), lambda i: tl.sum(tl.cast(x[i, k], "int64"), axis=k), name="S")
    largest = tl.compute((9,), lambda i: tl.max(x[i, r], axis=r), name="M")
    s = tl.Schedule(total, largest)
    s.join_reductions("S", "M")
    check(s)


def test_a_reduction_that_reads_the_other_stays_apart() -> None:
    x = tl.placeholder((7, 13), name="X")
    k, r = tl.reduce_axis(13, name="k"), tl.reduce_axis(13, name="r")
    mean = tl.compute((7,), lambda i: tl.sum(x[i, k], axis=k), name="S")
    spread = tl.compute((7,), lambda i: tl.sum((x[i, r] - mean[i]) * (x[i, r] - mean[i]), axis=r), name="M")
    found = code_and_reason(tl.Schedule(mean, spread), "join_reductions", "S", "M")
    assert found == ("TL-S301", "'S' and 'M' read what one of them computes")


def test_what_stands_between_and_reads_the_first_keeps_them_apart() -> None:
    first, second = pair()
    between = tl.compute((7,), lambda i: first[i] + 1, name="B")
    x = tl.placeholder((7, 13), name="Z")
    r = tl.reduce_axis(13, name="t")
    last = tl.compute((7,), lambda i: tl.sum(x[i, r] * between[i], axis=r), name="L")
    code, reason = code_and_reason(tl.Schedule(first, last), "join_reductions", "S", "L")
    assert (code, reason) == ("TL-S301", "'L' waits for what stands between and reads or writes what 'S' touches")
    assert tl.Schedule(first, second).can("join_reductions", "S", "M")


def test_what_stands_between_and_reads_the_first_is_computed_after_both() -> None:
    x, k, r = tl.placeholder((7, 13), name="X"), tl.reduce_axis(13, name="k"), tl.reduce_axis(13, name="r")
    first = tl.compute((7,), lambda i: tl.sum(x[i, k], axis=k), name="S")
    mean = tl.compute((7,), lambda i: first[i] / 13, name="A")
    root = tl.compute((7,), lambda i: tl.sqrt(tl.abs(mean[i])), name="R")
    apart = tl.compute((7,), lambda i: x[i, 0] * 2, name="U")
    second = tl.compute((7,), lambda i: tl.max(x[i, r] - apart[i], axis=r), name="M")
    s = tl.Schedule(mean, root, second)
    s.join_reductions("S", "M")
    assert s.stages() == ("U", "M.init", "M", "A", "R")
    check(s)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((), ("M", "S", "TL-S105", "'M' is computed after 'S'; name the earlier one first")),
        ((), ("S", "S", "TL-S005", "'S' is one reduction; name two")),
        ((), ("S", "N", "TL-S003", "no reduction 'N' is in this nest")),
        ((("split", "M.r", 4),), ("S", "M", "TL-S107", "loops of 'M' are split, fused or marked already")),
        ((("parallel", "S.i"),), ("S", "M", "TL-S107", "loops of 'S' are split, fused or marked already")),
        ((("accumulate", "S", "S.i"),), ("S", "M", "TL-S304", "'S' has no initialisation of its own, or several copies")),
    ],
)
def test_each_refusal_names_what_to_do(steps: tuple[tuple[Any, ...], ...], found: tuple[str, str, str, str]) -> None:
    s = tl.Schedule(*pair())
    for name, *args in steps:
        getattr(s, name)(*args)
    first, second, code, reason = found
    have = code_and_reason(s, "join_reductions", first, second)
    assert have[0] == code
    assert have[1].startswith(reason)


def test_reductions_under_the_same_condition_are_joined_and_keep_it() -> None:
    x = tl.placeholder((7, 13), name="X")
    k, r = tl.reduce_axis(13, name="k"), tl.reduce_axis(13, name="r")
    total = tl.compute((7,), lambda i: tl.sum(x[i, k], axis=k, where=x[i, k] > 0), name="S")
    largest = tl.compute((7,), lambda i: tl.max(x[i, r], axis=r, where=x[i, r] > 0), name="M")
    s = tl.Schedule(total, largest)
    s.join_reductions("S", "M")
    assert "S" not in s.stages()
    s.vectorize(s.split("M.r", 4, tail="mask")[1])
    check(s)


def test_a_reduction_under_a_condition_of_its_own_stays_apart() -> None:
    first, x = pair()[0], tl.placeholder((7, 13), name="X")
    r = tl.reduce_axis(13, name="r")
    some = tl.compute((7,), lambda i: tl.sum(x[i, r], axis=r, where=x[i, r] > 0), name="W")
    code, reason = code_and_reason(tl.Schedule(first, some), "join_reductions", "S", "W")
    assert code == "TL-S304" and reason.startswith("'S' and 'W' combine under different conditions; select the identity where one fails")


def test_different_ranges_are_refused() -> None:
    x = tl.placeholder((7, 13), name="X")
    k, r = tl.reduce_axis(13, name="k"), tl.reduce_axis(12, name="r")
    s = tl.Schedule(
        tl.compute((7,), lambda i: tl.sum(x[i, k], axis=k), name="S"), tl.compute((7,), lambda i: tl.sum(x[i, r], axis=r), name="M")
    )
    assert code_and_reason(s, "join_reductions", "S", "M") == ("TL-S104", "'S' and 'M' run over different ranges")


def test_default_schedules_join_what_reads_alike_and_keep_products_apart() -> None:
    machine = target("znver3")
    s = choose(list(pair()), machine, 1)
    assert s.schedule(s.default).stages()[-1].startswith("M")
    assert any(isinstance(step, JoinReductions) for step in s.schedule(s.default).directives)
    a, b, c = (tl.placeholder((64, 64), name=name) for name in "ABC")
    products = [tl.ops.matmul(a, b, name="P"), tl.ops.matmul(a, c, name="Q")]
    apart = choose(products, machine, 1)
    assert not any(isinstance(step, JoinReductions) for step in apart.schedule(apart.default).directives)


def test_long_sums_that_were_joined_are_as_exact_as_apart() -> None:
    x = tl.placeholder((1 << 18,), name="X")
    k, r = tl.reduce_axis(1 << 18, name="k"), tl.reduce_axis(1 << 18, name="r")
    sums = [tl.compute((), lambda: tl.sum(x[k], axis=k), name="S"), tl.compute((), lambda: tl.sum(x[r] * x[r], axis=r), name="M")]
    values = np.random.default_rng(0).random(1 << 18, dtype=np.float32)
    total, squares = tl.build(sums)(values)
    exact = values.astype("float64")
    assert abs(float(total) / exact.sum() - 1) < 1e-6
    assert abs(float(squares) / (exact * exact).sum() - 1) < 1e-6
