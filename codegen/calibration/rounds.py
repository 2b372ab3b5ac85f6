"""Measuring in rounds: each probe for a moment, again and again while there is time, and of each the fastest call.

What else the machine does comes in stretches that are longer than a moment and shorter than all rounds together: of the fastest calls of
several rounds one was hardly disturbed. So the least is kept, where two rounds come near it: else nothing says that it is what the
machine can do. Rounds end before the time does where none of the last few made anything faster.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

SPAN: Final = 0.015
PATIENCE: Final = 0.1
CALLS: Final = 8
"""Calls to make while nobody loses patience."""

QUIET: Final = 4
"""Rounds that made nothing faster, after which there are no more."""
FASTER: Final = 0.99
"""What counts as faster."""
NEAR: Final = 1.2
"""How near to the fastest round another one has to come."""

CALL: Final = "call"
"""The probe that does next to nothing."""

Clock = Callable[[], float]


class Budget:
    """Seconds that may be spent, from now on, by a clock."""

    def __init__(self, seconds: float, clock: Clock = time.perf_counter) -> None:
        self.clock = clock
        self.seconds = seconds
        self._begin = clock()

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return self.clock() - self._begin

    @property
    def is_left(self) -> bool:
        """Is there time for anything more?"""
        return self.spent < self.seconds


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A kernel with its operands, and the units of work of one call; `warm` brings all that calls will use where it is to be."""

    call: Callable[[], Any]
    work: float
    warm: Callable[[], Any] | None = None


@dataclass(slots=True)
class Probe:
    """Something to measure: `make` builds it, which is done once, and only if there is time.

    `best` is the fastest call in seconds, `second` that of the round which came nearest to it.
    """

    name: str
    make: Callable[[], BoundKernel]
    span: float = 0.006
    best: float = math.inf
    second: float = math.inf
    bound: BoundKernel | None = field(default=None, repr=False)

    def run(self, clock: Clock) -> bool:
        """Call it for a moment. Was it faster than ever?"""
        if self.bound is None:
            self.bound = self.make()
        if self.bound.warm is not None:
            self.bound.warm()
        least = fastest(self.bound.call, self.span, 0.0, clock)
        better = least < FASTER * self.best
        self.best, self.second, _ = sorted((self.best, self.second, least))
        return better

    def seconds(self, overhead: float) -> float | None:
        """Seconds for one unit of work, without those of any call; None where nothing was measured, or no two rounds agree."""
        least = self.best - overhead
        return least / self.bound.work if self.bound is not None and least > 0 and self.second <= NEAR * self.best < math.inf else None


def fastest(call: Callable[[], Any], span: float = SPAN, patience: float = PATIENCE, clock: Clock = time.perf_counter) -> float:
    """The fastest of single calls within `span` seconds, and within `patience` until there were a few; the first one only warms up."""
    call()
    begin = last = clock()
    best, calls = math.inf, 0
    while last - begin < span or (calls < CALLS and last - begin < patience):
        call()
        now = clock()
        best, last, calls = min(best, now - last), now, calls + 1
    return best


def measure(probes: Sequence[Probe], budget: Budget) -> dict[str, float]:
    """Seconds for a unit of work of each probe that two rounds agree on, by name; what a call alone takes is in none but its own."""
    quiet = 0
    while budget.is_left and quiet < QUIET:
        better = False
        for probe in probes:
            if not budget.is_left:
                break
            better |= probe.run(budget.clock)
        quiet = 0 if better else quiet + 1
    overhead = next((probe.best for probe in probes if probe.name == CALL and probe.best < math.inf), 0.0)
    found = {probe.name: probe.seconds(0.0 if probe.name == CALL else overhead) for probe in probes}
    return {name: seconds for name, seconds in found.items() if seconds is not None}
