"""How things are timed here: two candidates alternate, A B A B, and each pair gives one ratio.

A shared machine drifts by more than what is to be told apart. Two samples taken next to each other drift together, so the median of
the ratios of pairs is steady where the ratio of two separate medians is not.
"""

from __future__ import annotations

import gc
import statistics
import timeit
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Pairs:
    """Samples in seconds of `ours` and `theirs`, taken in turn."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """`ours / theirs`, pair by pair."""
        return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def time_ratio(self) -> float:
        """How many times longer ours takes: the median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def speed_ratio(self) -> float:
        """How many times faster ours is: the median of the inverse ratios."""
        return statistics.median(1 / ratio for ratio in self.ratios)

    @property
    def spread(self) -> float:
        """The middle half of the ratios, as a share of their median."""
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return (high - low) / self.time_ratio

    def facts(self) -> dict[str, Any]:
        """The medians behind the ratio, for the JSON file."""
        return {
            "pairs": len(self.ours),
            "ours_seconds": statistics.median(self.ours),
            "theirs_seconds": statistics.median(self.theirs),
            "spread": self.spread,
        }


def interleave(ours: timeit.Timer, theirs: timeit.Timer, *, pairs: int = 15, least: float = 0.02) -> Pairs:
    """Time two statements in turn; every sample repeats its statement for at least `least` seconds."""
    for timer in (ours, theirs):
        timer.timeit(1)  # a first call may set up what later calls use
    numbers = [_number(timer, least) for timer in (ours, theirs)]
    samples: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    for _ in range(pairs):
        for timer, number, found in zip((ours, theirs), numbers, samples, strict=True):
            found.append(timer.timeit(number) / number)
    return Pairs(tuple(samples[0]), tuple(samples[1]))


def _number(timer: timeit.Timer, least: float) -> int:
    number = 1
    while (taken := timer.timeit(number)) < least:
        number = max(number + 1, int(number * min(10.0, 1.2 * least / max(taken, 1e-9))))
    return number


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table: what was measured, against what, and the bound it has to keep."""

    name: str
    value: float
    bound: float
    sense: Literal["at least", "at most"]
    unit: str
    facts: dict[str, Any]

    @property
    def kept(self) -> bool:
        """Is the value on the right side of its bound?"""
        return self.value >= self.bound if self.sense == "at least" else self.value <= self.bound

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "value": self.value,
            "bound": self.bound,
            "sense": self.sense,
            "unit": self.unit,
            "kept": self.kept,
            **self.facts,
        }
