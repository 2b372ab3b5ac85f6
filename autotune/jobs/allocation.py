"""Which task of a batch gets the next slice of time: the one with the largest expected gain per second.

The rule is that of Ansor's task scheduler (Zheng et al., OSDI 2020, section 6), which follows the gradient of the objective in the time
that each task is given: first a warm-up of every task, then always the task with the steepest expected descent, which is a weighted mean
of what the task gained lately and of an optimistic guess. Three things differ. Gains are differences of log times, so the objective is
a weighted geometric mean and a small kernel counts as much as a large one. They are per second, not per trial, since tasks compile and
run at different speeds. And the guess is not that the time may fall to nothing, but what more draws from the same distribution would
bring: the least of n normal values of deviation s lies about s sqrt(2 ln n) below their mean, which falls by s / (n sqrt(2 ln n)) with
one more. So a task whose schedules are all alike is soon left alone, none is starved for ever, and none is fed for long in vain.

    rate = weight (TRUST recent + (1 - TRUST) s / (n sqrt(2 ln n))) / seconds of a trial

The state is the trials themselves. A job that was killed reads them from its log and goes on with the same choices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tensorlang.autotune.measurement.interval import deviation

FIRST: Final = 6
"""Trials of the warm-up, the default schedule first."""
WINDOW: Final = 12
"""Trials that count as recent."""
TRUST: Final = 0.2
"""Weight of what was gained lately, as in Ansor."""
UNKNOWN_SPREAD: Final = 1.0
"""Spread of log times that is assumed where no trial is valid yet."""
DEAD: Final = 32
"""Trials without a valid one after which a task is given up."""


@dataclass(frozen=True, slots=True)
class Curve:
    """What a task has shown: the time of each trial (None: failed), the seconds it took, how many may follow, and its weight."""

    times: Sequence[float | None]
    walls: Sequence[float]
    left: int
    weight: float = 1.0

    @property
    def open(self) -> bool:
        """May it be given more?"""
        return self.left > 0 and (len(self.times) < DEAD or any(time is not None for time in self.times))

    @property
    def wall(self) -> float:
        """Seconds of a trial, as the recent ones have it (the median, since some wait for a process to start); 0 if there is none."""
        recent = self.walls[-WINDOW:]
        return median(recent) if recent else 0.0


def rate(curve: Curve) -> float:
    """Expected gain in log time per second, times the weight; `curve` has at least one trial."""
    count, recent = len(curve.times), min(len(curve.times), WINDOW)
    before, now = _best(curve.times[:-WINDOW]), _best(curve.times)
    if before is None:  # the warm-up: the default is what it improved on
        before = next((time for time in curve.times if time is not None), None)
    gained = math.log(before / now) / recent if before and now else 0.0
    hoped = _spread(curve.times) / (count * math.sqrt(2 * math.log(count + 1)))
    return curve.weight * (TRUST * gained + (1 - TRUST) * hoped) / max(curve.wall, 1e-6)


def choose(curves: Sequence[Curve]) -> int | None:
    """The place of the task that is next; None when no task may be given more."""
    places = [place for place, curve in enumerate(curves) if curve.open]
    fresh = [place for place in places if len(curves[place].times) < FIRST]
    if fresh:
        return min(fresh, key=lambda place: (len(curves[place].times), place))
    return max(places, key=lambda place: rate(curves[place]), default=None)


def slice_of(curve: Curve, seconds: float) -> int:
    """How many trials to give: the rest of the warm-up, else as many as fit in `seconds`, at least two."""
    fit = FIRST - len(curve.times) if len(curve.times) < FIRST else max(2, round(seconds / max(curve.wall, 1e-3)))
    return min(fit, curve.left)


def _best(times: Sequence[float | None]) -> float | None:
    return min((time for time in times if time is not None), default=None)


def _spread(times: Sequence[float | None]) -> float:
    """The standard deviation of the log times, by their median absolute deviation: a few very slow schedules say nothing."""
    logs = [math.log(time) for time in times if time is not None]
    return deviation(logs) if logs else UNKNOWN_SPREAD
