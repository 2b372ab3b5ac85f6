"""Which loop of a nest threads share: the one whose forks, uneven parts and work outside of it cost least.

A loop inside others forks and joins once for each of their iterations; threads that do not get the same number of its iterations wait
for one another; and panels that are packed outside of it are packed by one thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FORK: Final = 15_000.0
"""Cycles to fork and join: some 4 microseconds, with threads that are awake."""
GAIN: Final = 0.8
"""What of the time may be left for threads to be worth their cores."""


@dataclass(frozen=True, slots=True)
class Shareable:
    """A loop that threads may share: what a knob calls it, its iterations, those of the loops around it, and cycles that stay outside."""

    name: str
    parts: int
    forks: int
    outside: float = 0.0

    def cycles(self, work: float, threads: int) -> float:
        """The time of `work` cycles and what is outside, on so many threads."""
        longest = math.ceil(self.parts / threads) / max(1, self.parts)
        return work * longest + self.outside + self.forks * FORK


def best_shared(loops: Iterable[Shareable], work: float, packing: float, threads: int) -> str:
    """The loop to share, or "none": `work` cycles in all, and `packing` more that a loop shares unless it counts them as outside."""
    costs = {loop.name: loop.cycles(work + packing - loop.outside, threads) for loop in loops}
    name = min(costs, key=lambda name: costs[name], default="none")
    return name if name != "none" and costs[name] <= GAIN * (work + packing) else "none"
