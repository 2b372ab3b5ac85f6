"""Stages whose loops run in another order than rows do, where that is still legal when their turn comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensorlang.errors import ScheduleError
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.loops.thread_loop import parallelize
from tensorlang.schedules.strategies.rows.rows import RowVectors


def schedule_reordered(
    s: Schedule, rows: RowVectors, config: Mapping[str, Any], prefix: str, cut: Callable[[], str] | None, *, alone: bool
) -> None:
    """Append the directives of `cut`, which gives the outermost loop; without it, or where one is refused, those of `rows`.

    It is refused where other stages stand between the loops by then, where more waits than was seen, or for too much code. A stage that
    stands inside another (not `alone`) gets no threads.
    """
    before = len(s.directives)
    if cut is not None:
        try:
            outermost = cut()
        except ScheduleError:
            s.undo(len(s.directives) - before)
        else:
            if alone and config.get(f"{prefix}parallel", "none") == "outer":
                parallelize(s, outermost)
            return
    rows.schedule(s, config, prefix, alone=alone)
