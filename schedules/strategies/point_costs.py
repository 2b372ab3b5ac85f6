"""What the points of a space take by the cost model, before one of them is scheduled, and what it takes to ask.

A sketch of the main stage costs a millisecond or two, a schedule, whose steps are proved, ten to a hundred: so whoever asks for many has
to know which it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tensorlang.schedules.spaces.space import Config

SKETCH_S: Final = 2e-3
"""Seconds to predict a point from a sketch: 1 to 3 on a Zen 3 that does other work besides."""
SCHEDULE_S: Final = 3e-2
"""Seconds to predict a point from its schedule: for stages in rows, which have no sketches, 15 to 60 on the same machine."""


@dataclass(frozen=True, slots=True)
class PointCosts:
    """`seconds` is what a call takes at a point; raises `ScheduleError` where it has no schedule. Asking takes `each` seconds, about."""

    seconds: Callable[[Config], float]
    each: float = SKETCH_S
