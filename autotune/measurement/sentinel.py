"""A fixed piece of work, timed beside every candidate: what changes in its time is the machine's doing.

Clocks throttle, neighbours come and go; a candidate that was measured in a slow minute looks worse than it is. The work is half
arithmetic on what the first cache holds and half traffic through a buffer beyond the second, on one core, and the same for every task,
so that its times compare across workers, runs and hosts of one model. It costs about a millisecond. A repetition that something interrupted
counts by the processor time it took: what is asked is how fast the machine is, not how much of it is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tensorlang.autotune.measurement.timer import ThreadTimer, Timer

REPEATS: Final = 3
SLOW: Final = 0.10
"""The drift that is worth a word; single times scatter by less."""


def usual_best(seconds: Sequence[float]) -> float:
    """The time where the machine is at its usual best: the lower quartile, since a single lucky time is none."""
    return sorted(seconds)[len(seconds) // 4]


class Sentinel:
    """The work with its arrays, some in the first-level cache and some in none; a call does it and gives its time."""

    def __init__(self) -> None:
        self._near = np.linspace(0.5, 1.0, 2048, dtype=np.float32)
        self._far = np.ones(1 << 19, np.float32)
        self()

    def __call__(self, timer: Timer | None = None) -> float:
        """The least time in seconds of a few repetitions."""
        timed = timer or ThreadTimer()
        return max(min(timed(self._work, 1).seconds for _ in range(REPEATS)), 1e-9)

    def _work(self) -> None:
        for _ in range(100):
            np.sqrt(self._near, out=self._near)
        np.add(self._far, 1, out=self._far)
