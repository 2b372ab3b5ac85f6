"""A long sum is added up in blocks by default: as exact as NumPy's sum in pairs, whatever the data, and the schedule says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.ir.integers import value_of
from tensorlang.schedules.faults import unforeseen
from tensorlang.schedules.rewriting.edit import stores
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.loops.blocked_sums import BLOCK, GROUP, SLACK, levels, rounds
from tests.draws import examples
from tests.thinned import crossed, few

TIMES = 4
"""How much larger than NumPy's an error may be, where NumPy's is at least two units in the last place of the sum: luck is no measure."""


def total(n: Any, dtype: str = "float32") -> Tensor:
    """The sum of a vector."""
    a, k = tl.placeholder((n,), dtype, name="A"), tl.reduce_axis(n, name="k")
    return cast("Tensor", tl.compute((1,), lambda i: tl.sum(a[k], axis=k), name="S"))


def data(n: int, dtype: str, seed: int = 0) -> Iterator[tuple[str, Any]]:
    """One value again and again, values of one size, of many sizes, of both signs."""
    rng = np.random.default_rng(seed)
    yield "equal", np.full(n, 0.1, dtype)
    yield "uniform", rng.random(n).astype(dtype)
    yield "of many sizes", (rng.random(n) ** 8 * 1e6).astype(dtype)
    yield "alternating", ((-1.0) ** np.arange(n) * rng.random(n)).astype(dtype)


def exact(values: Any) -> float:
    """The sum without rounding, rounded once."""
    return math.fsum(np.asarray(values, "float64").ravel().tolist())


def errors(values: Any, *sums: float) -> list[float]:
    """Errors of sums relative to the sum of absolute values."""
    return [abs(float(found) - exact(values)) / exact(np.abs(values)) for found in sums]


def require_exact(values: Any, found: float, by_numpy: float, what: str) -> None:
    ours, theirs = errors(values, found, by_numpy)
    assert ours <= TIMES * max(theirs, 2 * float(np.finfo(values.dtype).eps)), f"{what}: {ours:.1e}, NumPy {theirs:.1e}"


@crossed({"dtype": ["float32", "float64"], "n": [1000, 1537, 4096, 70_001, 300_001]}, count=3)
def test_a_sum_is_as_exact_as_a_sum_in_pairs(n: int, dtype: str) -> None:
    kernel, unknown = tl.build(total(n, dtype)), of_any_length(dtype)
    for name, values in data(n, dtype):
        for found in (kernel(values)[0], unknown(values)[0]):
            require_exact(values, found, values.sum(), name)


@cache
def of_any_length(dtype: str) -> Any:
    """The kernel for every length."""
    return tl.build(total(tl.dim("n"), dtype))


@examples(15)
@given(st.integers(1, 1000), st.integers(0, 1000), st.sampled_from(["float32", "float64"]))
def test_a_sum_of_any_length_is_that_exact(blocks: int, more: int, dtype: str) -> None:
    """Lengths around whole blocks and far from them, by one kernel."""
    kernel = of_any_length(dtype)
    for name, values in data(blocks * 64 + more, dtype, blocks):
        require_exact(values, kernel(values)[0], values.sum(), name)


def rows(m: int, n: int, write: Callable[[Tensor, Any, Any], Any]) -> Tensor:
    """One reduction for each row."""
    a, k = tl.placeholder((m, n), name="A"), tl.reduce_axis(n, name="k")
    return cast("Tensor", tl.compute((m,), lambda i: write(a, i, k), name="R"))


def test_rows_columns_and_products_are_as_exact() -> None:
    m, n = 3, 20_000
    for name, values in data(m * n, "float32"):
        a = values.reshape(m, n)
        by_rows = tl.build(rows(m, n, lambda a, i, k: tl.sum(a[i, k], axis=k)))(a)
        k = tl.reduce_axis(n, name="k")
        b = tl.placeholder((n, m), name="B")
        by_columns = tl.build(tl.compute((m,), lambda j, b=b, k=k: tl.sum(b[k, j], axis=k)))(np.ascontiguousarray(a.T))
        for i in range(m):
            require_exact(a[i], by_rows[i], a[i].sum(), f"{name}, row {i}")
            require_exact(a[i], by_columns[i], a[i].sum(), f"{name}, column {i}")


@pytest.mark.parametrize("shape", few([(1, 1, 100_001), (4, 1, 50_000), (1, 40, 20_000), (8, 24, 10_000), (33, 17, 2500)], 2))
def test_products_of_long_vectors_are_as_exact_as_the_sum_of_their_terms_in_pairs(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = tl.placeholder((m, k), name="A"), tl.placeholder((k, n), name="B")
    kernel = tl.build(tl.ops.matmul(a, b))
    for name, values in data((m + n) * k, "float32"):
        x, y = values[: m * k].reshape(m, k), np.ascontiguousarray(values[m * k :].reshape(n, k).T)
        found = kernel(x, y)
        for i, j in ((0, 0), (m - 1, n - 1)):
            terms = (x[i].astype("float64") * y[:, j]).astype("float64")
            ours, blas = errors(terms, found[i, j], (x @ y)[i, j])
            assert ours <= TIMES * max(blas, 8 * float(np.finfo("float32").eps)), f"{name}: {ours:.1e}, NumPy {blas:.1e}"


def test_means_and_variances_of_long_rows_are_as_exact() -> None:
    n = 100_000
    x = np.full((2, n), 0.1, "float32")
    x[1] = np.random.default_rng(0).random(n, dtype="float32")
    a = tl.placeholder((2, n), name="A")
    found = tl.build(tl.ops.rms_norm(a, (n,)))(x)
    wide = x.astype("float64")
    want = wide / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + np.finfo("float32").eps)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    soft = tl.build(tl.ops.softmax(a))(x)
    np.testing.assert_allclose(soft[0], 1 / n, rtol=1e-6)


def test_the_schedule_of_a_long_sum_shows_its_blocks_and_a_short_one_has_none() -> None:
    machine = target("znver4")

    def shown(n: int) -> str:
        strategy = choose(total(n), machine, 1)
        return str(strategy.schedule(strategy.default))

    assert "partial=True" not in repr(shown(1000)) and ".add" not in shown(1000)
    text = shown(1_000_000)
    assert [line.split("#")[1].strip() for line in text.splitlines() if ".add" in line][:2] == ["S_rf_acc_1.add", "S_rf_acc.add"]


def test_the_schedule_of_a_long_sum_is_data() -> None:
    s = choose(total(100_000), target("native"), 1)
    schedule = s.schedule(s.default)
    again = tl.Schedule.from_json(schedule.outputs, schedule.to_json())
    assert str(again) == str(schedule) and again.directives == schedule.directives
    x = np.random.default_rng(0).random(100_000, dtype="float32")
    np.testing.assert_array_equal(tl.build(again)(x), tl.build(schedule)(x))


def test_sums_of_integers_and_maxima_are_left_as_they_are() -> None:
    a, k = tl.placeholder((100_000,), "int32", name="A"), tl.reduce_axis(100_000, name="k")
    for value in (tl.sum(a[k], axis=k), tl.max(a[k], axis=k)):
        strategy = choose(tl.compute((1,), lambda i, value=value: value), target("znver4"), 1)
        assert ".add" not in str(strategy.schedule(strategy.default))


def test_the_unscheduled_nest_adds_one_by_one() -> None:
    x = np.random.default_rng(0).random(3000, dtype="float32")
    found = tl.build(tl.Schedule(total(3000)))(x)[0]
    assert found == np.add.accumulate(x)[-1]


def test_any_number_of_threads_gives_the_same_bits() -> None:
    a = tl.placeholder((64, 40_000), name="A")
    outputs = tl.ops.softmax(a)
    x = np.random.default_rng(0).random((64, 40_000), dtype="float32")
    kernels = [tl.build(s.schedule(s.default)) for s in (choose(outputs, target("native"), threads) for threads in (1, 2, 4))]
    first, *others = [kernel(x) for kernel in kernels]
    for other in others:
        np.testing.assert_array_equal(first, other)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=3), st.sampled_from([BLOCK, 512]), st.integers(1, 40))
def test_levels_hold_every_addition_and_no_chain_is_long(extents: list[int], block: int, least: int) -> None:
    found = levels(extents, block, least)
    for extent, parts in zip(extents, found, strict=True):
        held = math.prod(part.extent or 1 for part in parts)
        assert (held >= extent and held // (parts[-1].extent or 1) < extent) or len(parts) == 1
    chains = [least]
    for part in (part for parts in found for part in parts):
        chains = [*chains, part.extent or 1] if part.starts else [*chains[:-1], chains[-1] * (part.extent or 1)]
    assert chains[0] <= max(least, SLACK * block) and all(chain <= SLACK * GROUP for chain in chains[1:])


@given(st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=1, max_size=3))
def test_levels_of_unknown_extents_end_in_one_of_unknown_extent(extents: list[int | None]) -> None:
    for extent, parts in zip(extents, levels(extents, BLOCK), strict=True):
        assert (parts[-1].extent is None) == (extent is None) and all(part.extent is not None for part in parts[:-1])


def test_the_outermost_of_long_blocks_are_not_longer_than_their_groups() -> None:
    for n in (10**4, 10**5, 10**6, 10**7, 10**8):
        ((*inner, last),) = levels([n], BLOCK)
        assert (last.extent or 0) <= SLACK * GROUP and all(low.starts <= high.starts for low, high in pairwise([*inner, last]))


def test_what_blocks_serve_is_a_sum_of_floating_numbers() -> None:
    a, k = tl.placeholder((8,), name="A"), tl.reduce_axis(8, name="k")
    found = []
    for value in (tl.sum(a[k], axis=k), tl.prod(a[k], axis=k), tl.max(a[k], axis=k), tl.argmax(a[k], axis=k)):
        body = tl.Schedule(tl.compute((1,), lambda i, value=value: value)).nest.body
        found.append([rounds(store) for store in stores(body) if store.reducer is not None])
    assert found == [[True], [False], [False], [False]]


@pytest.mark.parametrize("shape", [(4096, 4096, 1 << 20), (1, 1 << 40, 1 << 40), (8192, 8192, 1 << 16)])
def test_partial_sums_of_a_large_result_are_kept_of_a_part_or_not_at_all(shape: tuple[int, int, int]) -> None:
    """All of it at once was refused, and the product kept its plain loops."""
    m, n, depth = shape
    a, b, k = tl.placeholder((m, depth), name="A"), tl.placeholder((depth, n), name="B"), tl.reduce_axis(depth, name="k")
    strategy = choose(tl.compute((m, n), lambda i, j: tl.sum(a[i, k] * b[k, j], axis=k), name="C"), target("znver4"), 1)
    made = strategy.schedule(strategy.default)
    assert not made.faults and "vector" in str(made)


def test_levels_of_an_unknown_depth_are_splits_however_deep_its_tiles() -> None:
    n = tl.dim("n")
    A, B, k = tl.placeholder((1, n), name="A"), tl.placeholder((n, 96), name="B"), tl.reduce_axis(n, name="k")
    product = tl.compute((1, 96), lambda i, j: tl.sum(A[i, k] * B[k, j], axis=k), name="C")
    strategy = choose(product, target("native"), 1)
    (depth,) = (knob for knob in strategy.space.knobs if knob.name == "depth")
    for value in depth.values:
        config = {**strategy.default, "depth": value}
        assert not strategy.space.contains(config) or not unforeseen(strategy.schedule(config).faults)


def test_partial_sums_of_a_single_column_stay_with_their_row() -> None:
    """Beside a loop of one iteration they were kept for all rows, 16 KiB apart: 2.4 times as slow as one row after the other."""
    product = tl.ops.matmul(tl.placeholder((4096, 4096), name="A"), tl.placeholder((4096, 1), name="B"))
    strategy = choose(product, target("znver3"), 1)
    nest = strategy.schedule(strategy.default).nest
    partial = [buffer for store in stores(nest.body) for buffer in store.buffers if buffer.name.endswith("_rf")]
    assert partial and all(math.prod(value_of(extent, {}) for extent in buffer.shape) <= 64 for buffer in partial)
