"""Storage whose elements have one value each: the order of its writes is nothing, and a read needs one of them before it."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang.schedules.legality.settled import settled
from tests.schedules.judged import judge
from tests.schedules.programs import refused


def mirrored() -> tl.Schedule:
    """C[i, j] = A[7 - j] * i, by way of a copy of all of A that each i makes anew; the first i is apart."""
    a = tl.placeholder((8,), "int32", name="A")
    s = tl.Schedule(tl.compute((4, 8), lambda i, j: a[7 - j] * i, name="C"))
    s.cache_read("A", at="C.i")
    s.store_root("A_cache", reuse="none")
    return s


def test_a_copy_that_was_whole_before_may_be_made_again_beside_what_reads_it() -> None:
    s = mirrored()
    s.peel("C.i", first=1)
    assert settled(s.nest, "A_cache")
    s.fuse_loops("A_cache.d0", "C.j")
    judge(s)


def test_a_copy_that_was_not_is_made_before_it_is_read() -> None:
    refused(mirrored(), "TL-S103", "before 'A_cache' does in a later iteration", "fuse_loops", "A_cache.d0", "C.j")


def test_what_the_running_iteration_says_is_no_value_of_an_element() -> None:
    a = tl.placeholder((8,), "int32", name="A")
    h = tl.compute((4, 8), lambda i, j: a[j] * i, name="H")
    s = tl.Schedule(tl.compute((4, 8), lambda i, j: h[i, 7 - j] + 1, name="C"))
    s.compute_at("H", "C.i")
    s.store_root("H")
    s.fold_storage("H", 0, 1)
    s.peel("C.i", first=1)
    assert not settled(s.nest, "H")


@pytest.mark.parametrize("width", [2, 3])
def test_a_window_that_only_takes_what_the_one_before_has_not_is_whole_in_some_orders(width: int) -> None:
    """Two parts of j, exchanged: with a window of 3 each second j reads what no earlier one has copied."""
    a = tl.placeholder((8 + width,), "int32", name="A")
    s = tl.Schedule(tl.compute((3, 8), lambda i, j: a[j] * i + a[j + width - 1], name="C"))
    s.cache_read("A", at="C.j")
    s.store_root("A_cache")
    s.reorder("C.j", "C.i")
    judge(s)
    outer, inner = s.split("C.j", 4)
    error = s.can("reorder", inner, outer).error
    assert error is not None
    assert error.code == "TL-S103"
