"""A fixed piece of work, timed beside every candidate: what changes in its time is the machine's doing.

Clocks throttle, neighbours come and go; a candidate that was measured in a slow minute looks worse than it is. The work is half
arithmetic on what the first cache holds and half traffic through a buffer beyond the second, on one core, and the same for every task,
so that its times compare across workers, runs and hosts of one model. It costs about a millisecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np

REPEATS: Final = 3


class Sentinel:
    """The work with its arrays, some in the first-level cache and some in none; a call does it and gives its time."""

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
