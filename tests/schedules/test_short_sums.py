"""A sum of any length has a version for calls in which it is short: without blocks, and as exact as one block is."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.target import target
from tensorlang.definition.tensor import Tensor
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose

N = tl.dim("n")
SHORT = 32 * 4 * 16
"""Elements of a row in a block of each lane of four vectors of 512 bits."""


def rows(extent: Any, dtype: str = "float32") -> Tensor:
    """The sum of each row."""
    a, k = tl.placeholder((N, extent), dtype, name="A"), tl.reduce_axis(extent, name="k")
    return cast("Tensor", tl.compute((N,), lambda i: tl.sum(a[i, k], axis=k), name="S"))


def scheduled(outputs: Any) -> Schedule:
    """The default schedule on a machine of 512-bit vectors."""
    strategy = choose(outputs, target("skylake-avx512"), 1)
    return strategy.schedule(strategy.default)


def versions(s: Schedule) -> list[str]:
    """The conditions under which there are versions of the nest."""
    return [str(step.condition) for step in s.directives if type(step).__name__ == "Specialize"]  # type: ignore[attr-defined]


def test_short_rows_run_without_blocks_and_long_ones_with() -> None:
    s = scheduled(rows(tl.dim("m")))
    short, long = str(s).split("else:")
    assert versions(s) == [f"m <= {SHORT}"]
    assert ".add" not in short and ".add" in long


def test_a_length_whose_bounds_tell_has_one_version() -> None:
    short, long = scheduled(rows(tl.dim("m", most=SHORT))), scheduled(rows(tl.dim("m", least=SHORT + 1)))
    assert versions(short) == versions(long) == []
    assert ".add" not in str(short) and ".add" in str(long)


def test_sums_of_one_length_share_their_versions() -> None:
    m = tl.dim("m")
    s = scheduled(tl.ops.layer_norm(tl.placeholder((N, m), name="A"), (m,)))
    assert versions(s) == [f"m <= {SHORT}"] and not s.faults


def test_sums_of_two_lengths_are_short_together() -> None:
    a, b = tl.placeholder((N, tl.dim("m")), name="A"), tl.placeholder((N, tl.dim("l")), name="B")
    k, j = tl.reduce_axis(tl.dim("m"), name="k"), tl.reduce_axis(tl.dim("l"), name="j")
    s = scheduled(tl.compute((N,), lambda i: tl.sum(a[i, k], axis=k) * tl.sum(b[i, j], axis=j), name="S"))
    assert len(versions(s)) <= 1 and not s.faults
    x, y = np.random.default_rng(0).random((3, 70), "float32"), np.random.default_rng(1).random((3, 5000), "float32")
    np.testing.assert_allclose(tl.build(s.outputs)(x, y), x.sum(1) * y.sum(1), rtol=1e-5)


def test_literal_lengths_beside_an_unknown_one_count() -> None:
    m = tl.dim("m")
    a, k, j = tl.placeholder((N, 8, m), name="A"), tl.reduce_axis(8, name="k"), tl.reduce_axis(m, name="j")
    assert versions(scheduled(tl.compute((N,), lambda i: tl.sum(a[i, k, j], axis=(k, j)), name="S"))) == [f"m <= {SHORT // 8}"]


def test_a_sum_along_two_unknown_lengths_is_short_where_both_are() -> None:
    """Each lane adds at most a block: a plane of 14 x 14 took 25 times as long with partial sums of each level."""
    m, l = tl.dim("m"), tl.dim("l")
    a, k, j = tl.placeholder((N, m, l), name="A"), tl.reduce_axis(m, name="k"), tl.reduce_axis(l, name="j")
    s = scheduled(tl.compute((N,), lambda i: tl.sum(a[i, k, j], axis=(k, j)), name="S"))
    assert versions(s) == [f"m <= 32 and l <= {SHORT // 32}"] or versions(s) == [f"(m <= 32) & (l <= {SHORT // 32})"]
    short, long = str(s).split("else:")
    assert ".add" not in short and ".add" in long
    kernel = tl.build(s.outputs)
    for shape in ((3, 14, 14), (3, 32, 64), (3, 33, 64), (2, 32, 65), (1, 1, 3000), (1, 3000, 1), (2, 0, 5), (0, 3, 3)):
        x = np.random.default_rng(0).random(shape, "float32")
        np.testing.assert_allclose(kernel(x), x.sum((1, 2), "float64"), rtol=16 * float(np.finfo("float32").eps))


def test_what_does_not_round_and_what_runs_in_tiles_has_one_version() -> None:
    m = tl.dim("m")
    product = tl.ops.matmul(tl.placeholder((64, m), name="A"), tl.placeholder((m, 64), name="B"))
    for outputs in (rows(m, "int32"), product):
        assert versions(scheduled(outputs)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_versions_are_as_exact_as_pairs(dtype: str) -> None:
    """Lengths on both sides of where one version ends, on any machine."""
    kernel = tl.build(rows(tl.dim("m"), dtype))
    for m in (0, 1, 3, 4, 33, 64, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2048, 2049, 3000):
        x = np.full((5, m), 0.1, dtype)
        exact = x.astype("longdouble").sum(axis=1)
        np.testing.assert_allclose(kernel(x), exact, rtol=16 * float(np.finfo(dtype).eps))
