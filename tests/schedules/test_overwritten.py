"""Values that nothing sees, since they are written over before anyone reads them, do not tie iterations together."""

from __future__ import annotations

from typing import Any

import pytest

import tensorlang as tl
from tests.schedules.judged import judge


def repeated(step: Any, steps: int) -> tl.Schedule:
    """U reads the last state of as many steps as a state has elements."""
    a = tl.placeholder((steps,), "int32", name="A")
    last = tl.scan(step, a, steps, keep="last", name="S")
    return tl.Schedule(tl.compute((steps,), lambda i: last[i] + 1, name="U"))


def forgetful(steps: int) -> tl.Schedule:
    """A step does not look at what was before, so that of what the scan starts from nothing is left."""
    b = tl.placeholder((steps,), "int32", name="B")
    return repeated(lambda t, _: tl.compute((steps,), lambda i: b[i] * tl.cast(t + 2, "int32"), name="N"), steps)


@pytest.mark.parametrize("steps", [2, 4, 5])
def test_what_is_written_over_before_anyone_reads_it_may_be_written_later(steps: int) -> None:
    """Of five steps the last one writes the other half of the ring, and so does the one before it this half."""
    s = forgetful(steps)
    s.fuse_loops("S.start.i0", "S.t")
    judge(s)


def test_what_is_read_before_that_may_not() -> None:
    s = repeated(lambda t, last: tl.compute((4,), lambda i: last[i] * 2, name="N"), 4)
    assert s.can("fuse_loops", "S.start.i0", "S.t").error.code == "TL-S103"


def test_loops_that_repeat_a_store_as_it_is_may_stand_anywhere_though_it_reads_a_copy_that_each_makes() -> None:
    w = tl.placeholder((6,), "int64", name="W")
    p, q = tl.reduce_axis(3, name="p"), tl.reduce_axis(6, name="q")
    zero = tl.compute((4,), lambda i: tl.cast(0, "int64"), name="Z")

    def place(p: Any, q: Any) -> Any:
        return w[q]

    def fits(p: Any, q: Any) -> Any:
        return (w[q] >= 0) & (w[q] < 4)

    def copied(value: Any) -> tl.Schedule:
        s = tl.Schedule(tl.scatter(zero, (p, q), place, value, "set", where=fits, name="H"))
        s.cache_read("W", at="H.p")
        s.store_root("W_cache", reuse="none")
        s.split("H.p", 2)
        return s

    s = copied(lambda p, q: w[q] * 2 + tl.cast(q, "int64"))
    s.reorder("H.p_i", "H.p_o")
    judge(s)
    assert copied(lambda p, q: w[q] * 2 + tl.cast(p, "int64")).can("reorder", "H.p_i", "H.p_o").error.code == "TL-S103"
