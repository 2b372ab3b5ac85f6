"""Iterations of an outer loop written out directly around the lanes, so that what they share is read once: rows, and planes.

for i: for j_o: vector j_i: ...         ->         for i_o: for j_o: unroll i_i: vector j_i: ...
"""

from __future__ import annotations

from contextlib import suppress

from tensorlang.errors import ScheduleError
from tensorlang.ir.mentions import mentions
from tensorlang.schedules.rewriting.edit import literal_extent, loops_around
from tensorlang.schedules.schedule import Schedule


def rows_around(s: Schedule, count: int, outer: str, inner: str) -> str | None:
    """Compute so many rows side by side, where rows stand directly around `outer`; the outermost loop, where that is another one now."""
    around = loops_around(s.nest, outer)
    if count == 1 or not around or (literal_extent(around[-1]) or 0) < count:
        return None
    with suppress(ScheduleError), s.together():
        if literal_extent(around[-1]) == count:
            rows, beside = outer, around[-1].loop
            s.reorder(outer, beside, inner)
        else:
            rows, beside = s.split(around[-1].loop, count, "peel")
            s.reorder(rows, outer, beside, inner)
        s.unroll(beside)
        return rows if len(around) == 1 else None
    return None


def planes_around(s: Schedule, stage: str, planes: str, inner: str, outermost: str | None) -> str | None:
    """Compute all planes of a place of a stage before the next place; the loop that is the `outermost` one now."""
    own = [loop.loop for loop in loops_around(s.nest, inner) if mentions(loop).stages == {stage}]
    with suppress(ScheduleError, ValueError), s.together():
        within = own[own.index(planes) + 1 :]
        s.reorder(*within, planes, inner)
        s.unroll(planes)
        return within[0] if outermost == planes else outermost
    return outermost
