"""A speed-up and how sure it is: the geometric mean over processes of the median paired ratio, with a 95 % interval.

Each round times both kernels one after the other, so their ratio is free of slow drift. Rounds of one process share its memory layout and
are more alike than rounds of different ones; taken as independent they would make the interval too short, so the process is the unit:
Student's interval over the logarithms of the processes' medians (the highest level of repetition, as T. Kalibera and R. Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013). Where a short budget left fewer than three processes, it is the distribution-free interval
of the median of all rounds, between two of their order statistics (the sign test; W. J. Conover, "Practical Nonparametric Statistics").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, median, stdev
from typing import Final, NamedTuple

TAIL: Final = 0.025
STUDENT: Final = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The upper 2.5 % points of Student's distribution with 2, 3, ... degrees of freedom; the last serves beyond, a little wide."""


class Ratio(NamedTuple):
    """The ratio, the ends of its interval, and the median ratio of each process."""

    middle: float
    low: float
    high: float
    medians: tuple[float, ...]


def paired_ratio(above: Sequence[float], below: Sequence[float], runs: Sequence[int] = ()) -> Ratio:
    """The ratio of times that are paired by place, `runs` of them in each process (default: all in one)."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    medians, at = list[float](), 0
    for count in runs or (len(ratios),):
        medians.append(median(ratios[at : at + count]))
        at += count
    if len(medians) < 3:
        middle, (low, high) = median(ratios), _of_median(ratios)
        return Ratio(middle, low, high, tuple(medians))
    logs = [math.log(value) for value in medians]
    half = STUDENT[min(len(logs) - 3, len(STUDENT) - 1)] * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half), tuple(medians))


def _of_median(values: Sequence[float]) -> tuple[float, float]:
    """The order statistics between which the median lies with 95 %; the extremes where there are too few values for that."""
    ordered, outside = sorted(values), 0
    chance = 0.5 ** len(ordered)
    below = chance
    while outside < (len(ordered) - 1) // 2 and below <= TAIL:
        outside += 1
        chance *= (len(ordered) - outside + 1) / outside
        below += chance
    return ordered[max(outside - 1, 0)], ordered[-max(outside, 1)]
