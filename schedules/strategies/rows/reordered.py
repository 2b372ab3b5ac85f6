"""Stages whose loops run in another order than rows do, where that is predicted to be faster, and still legal when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tensorlang.errors import ScheduleError
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.short_axes import Run
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import parallelize, seconds_in_lanes
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

Way = TypeVar("Way")


def cheapest_order(
    rows: RowVectors,
    plain: Sequence[Part],
    machine: Processor,
    ways: Iterable[Way],
    sketched: Callable[[Way], tuple[Part, ...]],
    beside: Sequence[Part] | None = None,
    share: float = OTHER_WAY,
) -> Way | None:
    """The way to run a stage that the cost model predicts to be fastest, of those that are worth it beside rows; None: rows.

    `beside`: the sketch of these, where one vector in flight is not what they have. It is worth it below a `share` of their time.
    """
    alone = seconds_in_rows(rows, plain, machine) if beside is None else estimated(beside, machine.core).seconds
    least, found = alone * share, None
    for way in ways:
        seconds = estimated(sketched(way), machine.core).seconds
        if seconds < least:
            least, found = seconds, way
    return found


def seconds_in_rows(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> float:
    """What a stage takes in rows, or in the run that several short loops are."""
    if rows.run is None or rows.vector is None:
        return seconds_in_lanes(rows.stage, rows.vector, plain, machine)
    sketch = Sketch.of(plain, rows.stage.name)
    sketch.mark(sketch.split(joined(sketch, rows.run, rows.vector.loop), rows.lanes, rows.lanes)[1], "vector")
    return estimated(numbered(sketch.parts()), machine.core).seconds


def joined(sketch: Sketch, run: Run | None, loop: str, apart: str = "") -> str:
    """The loop that a run becomes: where strips are cut from one of its loops, what is left of it is part.

    The loop `apart` stays, in which others stand, and so do those around it.
    """
    for outer in () if run is None else reversed(run.loops[:-1]):
        names = [found.name for found in sketch.loops]
        place = names.index(loop)
        if place == 0 or names[place - 1] != outer.loop or outer.loop == apart:
            break
        loop = sketch.fuse(outer.loop, loop)
    return loop


def schedule_reordered(
    s: Schedule, rows: RowVectors, config: Mapping[str, Any], prefix: str, cut: Callable[[], str] | None, *, alone: bool
) -> None:
    """Append the directives of `cut`, which gives the outermost loop; without it, or where one is refused, those of `rows`.

    It is refused where other stages stand between the loops by then, where more waits than was seen, or for too much code. A stage that
    stands inside another (not `alone`) gets no threads.
    """
    outermost = None
    if cut is not None:
        with suppress(ScheduleError), s.together():
            outermost = cut()
    if outermost is None:
        rows.schedule(s, config, prefix, alone=alone)
    elif alone and config.get(f"{prefix}parallel", "none") == "outer":
        parallelize(s, outermost, rows.threads)
