"""A read that is only kept for readers under a condition matters where it holds."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang.ir.mentions import allocations
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.legality.needed import needed
from tensorlang.schedules.rewriting.edit import find_loop
from tests.schedules.judged import judge


def test_a_copy_that_nobody_asks_for_is_no_tie_between_iterations() -> None:
    """S[i, j] = A[i, j] + the largest of the row before, of which there is none for i = 0: row 0 is copied there all the same."""
    a, k = tl.placeholder((5, 6), "int32", name="A"), tl.reduce_axis(6, name="k")
    s = tl.Schedule(tl.recurrence((5, 6), lambda i, j, before: tl.max(before[i - 1, k], axis=k) + a[i, j], name="S"))
    s.cache_read("S", at="S.1.k")
    assert "maximum(i - 1, 0)" in str(s)
    outer, inner = s.split("S.j", 2)
    s.reorder(inner, outer)
    judge(s)


@pytest.mark.parametrize("at", ["C.j", "C.1.k"])
def test_a_condition_counts_that_the_loops_around_the_copy_decide(at: str) -> None:
    a, k = tl.placeholder((8,), "int32", name="A"), tl.reduce_axis(8, name="k")
    s = tl.Schedule(tl.compute((4, 6), lambda i, j: j - tl.max(tl.select(k >= 1, a[k - 1], i), axis=k), name="C"))
    s.cache_read("A", at=at)
    body = find_loop(s.nest, at).body
    private = {buffer.name for buffer in allocations(body)}
    found = [access for access in accesses(find_loop(s.nest, "C.i")) if access.buffer.name == "A"]
    more = [len(one.conditions) - len(other.conditions) for one, other in zip(needed(s.nest, body, private, found), found, strict=True)]
    assert more == [int(at == "C.1.k")]
