"""Index arithmetic is emitted once, outside the loops that do not change it, and never where it does not reach."""

import re
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import target

N = tl.dim("N")


def shortest_paths() -> Any:
    D = tl.placeholder((N, N), "int32", name="D")

    def step(k: tl.Expr, i: tl.Expr, j: tl.Expr, self: tl.Tensor) -> tl.Expr:
        def before(a: tl.Expr, b: tl.Expr) -> tl.Expr:
            return tl.select(k == 0, D[a, b], self[k - 1, a, b])

        return tl.minimum(before(i, j), before(i, k) + before(k, j))

    return tl.recurrence((N, N, N), step, name="R", dtype="int32")


def unrolled(copies: int) -> tl.Schedule:
    s = tl.Schedule(shortest_paths())
    s.split("R.i", copies, tail="mask")
    s.unroll("R.i_i")
    return s


def products(schedule: tl.Schedule) -> int:
    can = target()
    return len(re.findall(r"= mul i64", emit(lower(schedule.nest, can), can, name="f")))


def test_copies_share_their_addresses() -> None:
    assert products(unrolled(32)) <= 32 * 8  # each alone would take 37


@pytest.mark.parametrize("copies", [1, 3, 8])
def test_what_is_shared_is_what_it_was(copies: int) -> None:
    D = np.random.default_rng(copies).integers(1, 100, (11, 11), dtype="int32")
    expected = [D]
    for k in range(11):
        last = expected[-1]
        expected.append(np.minimum(last, last[:, k : k + 1] + last[k : k + 1]))
    assert np.array_equal(tl.build(unrolled(copies))(D), np.stack(expected[1:]))


def test_what_a_branch_computes_is_not_known_after_it() -> None:
    A = tl.placeholder((N, N), "int32", name="A")
    B = tl.compute((N,), lambda i: tl.select(i > 2, A[i - 2, i], 0) + tl.select(i < N - 3, A[i, i - i % 2], 1), name="B")
    for size in (1, 4, 9):
        a = np.arange(size * size, dtype="int32").reshape(size, size)
        wanted = [(a[i - 2, i] if i > 2 else 0) + (a[i, i - i % 2] if i < size - 3 else 1) for i in range(size)]
        assert tl.build(tl.Schedule(B))(a).tolist() == wanted
