"""The best point of a search beside others, as the schedules that they are.

A sketch knows the loops and accesses of a stage. What the steps of a schedule make of them it does not: conditions at the ends of strips,
choices that lanes no longer decide, tiles of one row where strips slide. Whole stages have least of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor

TRUSTED: Final = 1.1
"""Times as long as sketched that the best point may be predicted to take as a schedule: so much two sketches are off alike."""


def best_as_made(
    best: Config, others: Iterable[Config], sketched: Callable[[Config], float], made: Callable[[Config], Schedule], machine: Processor
) -> tuple[Config, Schedule]:
    """The `best` point as `sketched`, or one of the `others` where that is clearly faster as a schedule; and its schedule."""
    s = made(best)
    seconds = estimate(s.nest, machine.core).seconds
    if seconds > TRUSTED * sketched(best):
        for point in others:
            if point == best:
                continue
            other = made(point)
            if (least := estimate(other.nest, machine.core).seconds) < OTHER_WAY * seconds:
                best, s, seconds = point, other, least
    return best, s
