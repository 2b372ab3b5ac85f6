"""A fixed piece of work, timed beside every candidate: what changes in its time is the machine's doing.

Clocks throttle, neighbours come and go; a candidate that was measured in a slow minute looks worse than it is. The work is half
arithmetic on what the first cache holds and half traffic through a buffer beyond the second, on one core, and the same for every task,
so that its times compare across workers, runs and hosts of one model. It costs about a millisecond. Times are not corrected by it (a
kernel slows down in its own proportion); the slow stretches are named, and the finalists are measured again in pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import numpy as np

REPEATS: Final = 3
SLOW: Final = 0.10
"""The drift that is worth a word; single times of the sentinel scatter by less."""


class Sentinel:
    """The work, made ready."""

    def __init__(self) -> None:
        self._near = np.linspace(0.5, 1.0, 2048, dtype=np.float32)
        self._far = np.ones(1 << 19, np.float32)
        self()

    def __call__(self, clock: Callable[[], int] = time.perf_counter_ns) -> float:
        """The least time in seconds of a few repetitions."""
        times = []
        for _ in range(REPEATS):
            start = clock()
            for _ in range(100):
                np.sqrt(self._near, out=self._near)
            np.add(self._far, 1, out=self._far)
            times.append(clock() - start)
        return max(min(times) * 1e-9, 1e-9)


@dataclass(frozen=True, slots=True)
class Slow:
    """A stretch of trials, first and last included, in which the machine was slower than its best by the fraction `by`."""

    first: int
    last: int
    by: float

    def __str__(self) -> str:
        during = f"trial {self.first}" if self.first == self.last else f"trials {self.first} to {self.last}"
        return f"the machine slowed by {self.by:.0%} during {during}"

    def to_json(self) -> dict[str, Any]:
        """As a record has it."""
        return {"first": self.first, "last": self.last, "by": round(self.by, 4)}


def slow_stretches(times: Sequence[tuple[int, float]]) -> tuple[Slow, ...]:
    """Where the sentinel, (number of the trial, seconds) in order, stayed above its usual best.

    The best is the lower quartile, since a single lucky time is none; each time is smoothed by the median with its neighbours, so one
    interruption is no stretch.
    """
    if len(times) < 4:
        return ()
    values = [seconds for _, seconds in times]
    best = sorted(values)[len(values) // 4]
    smooth = [median(values[max(place - 1, 0) : place + 2]) / best - 1 for place in range(len(values))]
    found, run = list[Slow](), list[int]()
    for place, drift in enumerate([*smooth, 0.0]):
        if drift > SLOW:
            run.append(place)
        elif run:
            found.append(Slow(times[run[0]][0], times[run[-1]][0], median(smooth[at] for at in run)))
            run = []
    return tuple(found)
