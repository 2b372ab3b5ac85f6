"""When the machine was slower than usual, by the times of the sentinel beside the trials.

Times of trials are not corrected by it (a kernel slows down in its own proportion): the slow stretches are named, and the finalists are
measured again in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tensorlang.autotune.measurement.sentinel import SLOW, usual_best


@dataclass(frozen=True, slots=True)
class Slow:
    """A stretch of trials, first and last included, in which the machine was slower than its best by the fraction `by`."""

    first: int
    last: int
    by: float

    def __str__(self) -> str:
        during = f"trial {self.first}" if self.first == self.last else f"trials {self.first} to {self.last}"
        return f"the machine slowed by {self.by:.0%} during {during}"


def slow_stretches(times: Sequence[tuple[int, float]]) -> tuple[Slow, ...]:
    """Where the sentinel, (number of the trial, seconds) in order, stayed above its usual best.

    Each time is smoothed by the median with its neighbours, so one
    interruption is no stretch.
    """
    if len(times) < 4:
        return ()
    values = [seconds for _, seconds in times]
    best = usual_best(values)
    smooth = [median(values[max(place - 1, 0) : place + 2]) / best - 1 for place in range(len(values))]
    found, run = list[Slow](), list[int]()
    for place, drift in enumerate([*smooth, 0.0]):
        if drift > SLOW:
            run.append(place)
        elif run:
            found.append(Slow(times[run[0]][0], times[run[-1]][0], median(smooth[at] for at in run)))
            run = []
    return tuple(found)
