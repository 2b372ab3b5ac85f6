"""Scatters to the same places go there once; each element still combines what comes to it in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.strategies import choose
from tests.schedules.programs import check, code_and_reason
from tests.thinned import crossed

CPUS = ["haswell", "znver3", "znver4", "cascadelake"]


def by_group(
    n: Any, groups: int, *, reduce: tuple[str, str] = ("min", "add"), away: int = 0, where: Any = None, both: Any = None
) -> tuple[tl.Tensor, ...]:
    """Two results of the elements of each group, the second `away` from where the first is; what is combined in the first, or in `both`."""
    x, group = tl.placeholder((n,), name="X"), tl.placeholder((n,), "int32", name="group")
    r, q = tl.reduce_axis(n, name="r"), tl.reduce_axis(n, name="q")
    bases = [tl.compute((groups,), lambda _: 0.5, name=name) for name in ("low", "high")]

    def place(at: Any) -> Any:
        return tl.clamp(group[at], 0, groups - 1)

    def asked(cond: Any) -> Any:
        return cond and (lambda at: cond(x[at]))

    one = tl.scatter(bases[0], (r,), place, lambda r: x[r], reduce=reduce[0], name="S", where=asked(where or both))
    elsewhere = (lambda q: (place(q) + away) % groups) if away else place
    return one, tl.scatter(bases[1], (q,), elsewhere, lambda q: x[q] * 2, reduce=reduce[1], name="T", where=asked(both))


def operands(n: int, groups: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return rng.random(n, dtype="float32"), rng.integers(-1, groups + 1, n).astype("int32")


def _by_group(x: Any, group: Any, groups: int) -> tuple[Any, Any]:
    """The least of each group, and the sum of twice its elements, one after the other."""
    least, total = np.full((2, groups), 0.5, "float32")
    at = np.clip(group, 0, groups - 1)
    np.minimum.at(least, at, x)
    np.add.at(total, at, x * 2)
    return least, total


@crossed({"one": ["add", "max", "min"], "other": ["add", "min"], "n": [0, 1, 13]})
def test_both_components_are_what_each_was(one: str, other: str, n: int) -> None:
    s = tl.Schedule(*by_group(n, 4, reduce=(one, other)))
    s.join_reductions("S", "T")
    assert "S" not in s.stages()
    check(s)


def test_it_takes_further_steps_and_lengths_that_a_call_tells() -> None:
    s = tl.Schedule(*by_group(tl.dim("n"), 4))
    s.join_reductions("S", "T")
    _, inner = s.split("q", 4, tail="guard")
    s.unroll(inner)
    for n in (0, 3, 17):
        check(s, dims={"n": n})


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("n", "groups"), [(1, 3), (40, 7), (5000, 300)])
def test_the_default_is_what_numpy_says_element_by_element(n: int, groups: int, threads: int) -> None:
    values, outputs = operands(n, groups), by_group(n, groups)
    strategy = choose(list(outputs), target("native"), threads)
    least, total = tl.build(strategy.schedule(strategy.default))(*values)
    expected = _by_group(*values, groups)
    np.testing.assert_array_equal(least, expected[0])
    np.testing.assert_allclose(total, expected[1], rtol=1e-5)


@pytest.mark.parametrize("cpu", CPUS)
def test_defaults_join_them(cpu: str) -> None:
    strategy = choose(list(by_group(100_000, 1000)), target(cpu), 1)
    s = strategy.schedule(strategy.default)
    assert JoinReductions("S", "T") in s.directives
    assert not s.faults


def profile(n: int, bins: int) -> tuple[tl.Tensor, tl.Tensor]:
    """Means by the bin that a float tells, as of rings around a centre: sums of floats, and counts, which are integers."""
    radius, data = tl.placeholder((n,), name="radius"), tl.placeholder((n,), name="data")
    r, q = tl.reduce_axis(n, name="r"), tl.reduce_axis(n, name="q")
    none, zero = tl.compute((bins,), lambda _: 0.0, name="none"), tl.compute((bins,), lambda _: tl.cast(0, "int32"), name="zero")

    def place(at: Any) -> Any:
        return tl.clamp(tl.cast(tl.floor(radius[at] * bins), "int32"), 0, bins - 1)

    total = tl.scatter(none, (r,), place, lambda r: data[r], name="S")
    return total, tl.scatter(zero, (q,), place, lambda q: tl.cast(1, "int32"), name="T")


@pytest.mark.parametrize("cpu", CPUS)
def test_sums_and_counts_that_share_the_way_are_joined_though_one_is_of_integers(cpu: str) -> None:
    outputs = profile(20_000, 100)
    strategy = choose(list(outputs), target(cpu), 1)
    assert JoinReductions("S", "T") in strategy.schedule(strategy.default).directives


def summary(n: int, groups: int, *, early: bool = False) -> list[tl.Tensor]:
    """Counts and five sums of each group, and a mean of two of them, which is defined last or as soon as it can be."""
    x, group, r = tl.placeholder((n,), name="X"), tl.placeholder((n,), "int32", name="group"), tl.reduce_axis(n, name="r")

    def added(name: str, what: Any, dtype: str = "float32") -> Any:
        base = tl.compute((groups,), lambda _: tl.cast(0, dtype), name=f"{name}0")
        return tl.scatter(base, (r,), lambda r: tl.clamp(group[r], 0, groups - 1), what, where=lambda r: x[r] < 0.75, name=name)

    count, one = added("count", lambda _: tl.cast(1, "int32"), "int32"), added("sum1", lambda r: x[r])

    def mean() -> Any:
        return tl.compute((groups,), lambda i: one[i] / tl.cast(tl.maximum(count[i], 1), "float32"), name="mean")

    first = [mean()] if early else []
    others = [added(f"sum{k}", lambda r, k=k: x[r] * k) for k in range(2, 6)]
    return [count, *others, *(first or [mean()])]


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("early", [False, True])
def test_scatters_are_one_whatever_reads_each_of_them(cpu: str, *, early: bool) -> None:
    strategy = choose(summary(20_000, 6, early=early), target(cpu), 1)
    s = strategy.schedule(strategy.default)
    assert sum(isinstance(step, JoinReductions) for step in s.directives) == 5
    assert not s.faults


@crossed({"tables": [1, 8], "lanes": [False, True], "n": [1, 40, 1000]})
def test_counts_sums_and_a_mean_of_them_are_numpys(*, tables: int, lanes: bool, n: int) -> None:
    outputs = summary(n, 6, early=n == 40)
    strategy = choose(outputs, target("native"), 1)
    knobs = {"tables": tables, "lanes": lanes}
    config = {name: knobs.get(name.rpartition(".")[2], value) for name, value in strategy.default.items()}
    x, group = operands(n, 6)
    found = tl.build(strategy.schedule(config))(x, group)
    at, kept = np.clip(group, 0, 5), x < 0.75
    count, total = np.bincount(at[kept], minlength=6), np.bincount(at[kept], x[kept], 6)
    np.testing.assert_array_equal(found[0], count)
    for k in range(2, 6):
        np.testing.assert_allclose(found[k - 1], total * k, rtol=1e-5)
    np.testing.assert_allclose(found[-1], total / np.maximum(count, 1), rtol=1e-5)


@crossed({"tables": [1, 2, 8], "lanes": [False, True], "n": [1, 40, 1000]})
def test_joined_sums_and_counts_are_numpys(*, tables: int, lanes: bool, n: int) -> None:
    outputs, bins = profile(n, 10), 10
    strategy = choose(list(outputs), target("native"), 1)
    config = {
        name: tables if name.endswith("tables") else lanes if name.endswith("lanes") else value for name, value in strategy.default.items()
    }
    rng = np.random.default_rng(n)
    radius, data = rng.random((2, n), dtype="float32") * np.float32(1.2) - np.float32(0.1)
    at = np.clip(np.floor(radius * np.float32(bins)).astype(int), 0, bins - 1)
    total, count = tl.build(strategy.schedule(config))(radius, data)
    np.testing.assert_array_equal(count, np.bincount(at, minlength=bins))
    np.testing.assert_allclose(total, np.bincount(at, data, bins), rtol=1e-4, atol=1e-5)


def test_other_places_keep_them_apart() -> None:
    outputs = by_group(100, 8, away=1)
    assert code_and_reason(tl.Schedule(*outputs), "join_reductions", "S", "T") == (
        "TL-S304",
        "'S' and 'T' combine into elements that are numbered differently",
    )
    strategy = choose(list(outputs), target("znver4"), 1)
    assert not any(isinstance(step, JoinReductions) for step in strategy.schedule(strategy.default).directives)


def test_a_condition_of_one_keeps_them_apart() -> None:
    code, reason = code_and_reason(tl.Schedule(*by_group(100, 8, where=lambda x: x > 0.5)), "join_reductions", "S", "T")
    assert code == "TL-S304" and reason.startswith("'S' and 'T' combine under different conditions; select the identity")


@pytest.mark.parametrize("cpu", CPUS)
def test_those_under_the_same_condition_share_it(cpu: str) -> None:
    outputs = by_group(20_000, 100, reduce=("add", "add"), both=lambda x: x > 0.5)
    strategy = choose(list(outputs), target(cpu), 1)
    assert JoinReductions("S", "T") in strategy.schedule(strategy.default).directives


@crossed({"lanes": [False, True], "n": [1, 40, 1000]})
def test_what_the_same_condition_leaves_is_numpys(*, lanes: bool, n: int) -> None:
    outputs = by_group(n, 8, both=lambda x: x > 0.5)
    s = tl.Schedule(*outputs)
    s.join_reductions("S", "T")
    if lanes:
        s.unroll(s.split("T.q", 4, tail="mask")[1])
    x, group = operands(n, 8)
    at, wanted = np.clip(group, 0, 7), x > 0.5
    least, total = np.full(8, np.float32(0.5)), np.full(8, np.float32(0.5))
    np.minimum.at(least, at[wanted], x[wanted])
    np.add.at(total, at[wanted], x[wanted] * 2)
    found = tl.build(s)(x, group)
    np.testing.assert_array_equal(found[0], least)
    np.testing.assert_allclose(found[1], total, rtol=1e-5)


def test_a_scatter_that_goes_on_with_what_the_other_made_stays_apart() -> None:
    x, group, r, q = tl.placeholder((9,), name="X"), tl.placeholder((9,), "int32", name="g"), tl.reduce_axis(9), tl.reduce_axis(9)
    base = tl.compute((4,), lambda _: 0.0, name="base")
    one = tl.scatter(base, (r,), lambda r: tl.clamp(group[r], 0, 3), lambda r: x[r], name="S")
    other = tl.scatter(one, (q,), lambda q: tl.clamp(group[q], 0, 3), lambda q: x[q] * 2, name="T")
    s = tl.Schedule(one, other)
    assert code_and_reason(s, "join_reductions", "S", "T")[0] in {"TL-S301", "TL-S304"}
    check(s)


def test_a_scatter_and_a_sum_stay_apart() -> None:
    x, k = tl.placeholder((100,), name="Z"), tl.reduce_axis(100)
    one, _ = by_group(100, 8)
    total = tl.compute((8,), lambda i: tl.sum(x[k] * tl.cast(i, "float32"), axis=k), name="P")
    code, reason = code_and_reason(tl.Schedule(one, total), "join_reductions", "S", "P")
    assert (code, reason) == ("TL-S304", "one of 'S' and 'P' begins with what there is, the other one does not")
