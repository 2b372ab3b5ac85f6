"""Sampling the time of a call: repeated until one sample is long against the clock, robust statistics over samples."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns
from typing import Any, Final

from tensorlang.errors import CallError

SAMPLE: Final = 1e-3
"""Shortest sample, in seconds: a thousand times what the clock and the loop cost."""

MAX_REPEATS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for one call, a sample each; `inner` is the number of calls that one sample averages over."""

    samples: tuple[float, ...]
    inner: int = 1

    @property
    def min(self) -> float:
        """The fastest sample: what the code can do."""
        return min(self.samples)

    @property
    def median(self) -> float:
        """The middle sample: what it does on this machine now."""
        return statistics.median(self.samples)

    @property
    def mad(self) -> float:
        """The median distance from the median: the noise, untouched by outliers."""
        middle = self.median
        return statistics.median(abs(sample - middle) for sample in self.samples)

    def __str__(self) -> str:
        return f"{self.median * 1e6:.3f} us (min {self.min * 1e6:.3f}, mad {self.mad * 1e6:.3f}, {len(self.samples)} samples)"


def sample(call: Callable[[], Any], repeats: object = 10) -> Timing:
    """Time a call without arguments: one warm-up, then `repeats` samples of at least a millisecond each.

    Raises `CallError` for a number of repeats that is not from 1 to 1,000,000.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= MAX_REPEATS:
        raise CallError(f"repeats: expected an integer from 1 to {MAX_REPEATS}, got {repeats!r}")
    call()
    inner = 1
    while (spent := _run(call, inner)) < SAMPLE:
        inner = max(2 * inner, min(int(inner * 1.2 * SAMPLE / max(spent, 1e-9)), 100 * inner))
    return Timing(tuple(_run(call, inner) / inner for _ in range(repeats)), inner)


def _run(call: Callable[[], Any], times: int) -> float:
    start = perf_counter_ns()
    for _ in repeat(None, times):
        call()
    return (perf_counter_ns() - start) * 1e-9
