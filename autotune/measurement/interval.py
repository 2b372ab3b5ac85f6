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
from itertools import accumulate
from statistics import mean, median, stdev
from typing import Final, NamedTuple

CONFIDENCE: Final = 0.95
DEVIATION: Final = 1.4826
"""The standard deviation over the median absolute deviation, for normal noise."""


class Ratio(NamedTuple):
    """The ratio, the ends of its interval, and the median ratio of each process."""

    middle: float
    low: float
    high: float
    medians: tuple[float, ...]


def deviation(values: Sequence[float]) -> float:
    """A standard deviation that a few outliers do not move: 1.4826 times the median absolute deviation. 0 for a single value."""
    middle = median(values)
    return DEVIATION * median(abs(value - middle) for value in values)


def ratios_by_process(above: Sequence[float], below: Sequence[float], runs: Sequence[int] = ()) -> list[list[float]]:
    """The ratios of times that are paired by place, `runs` of them in each process (default: all in one)."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    groups, at = list[list[float]](), 0
    for count in runs or (len(ratios),):
        groups.append(ratios[at : at + count])
        at += count
    return groups


def paired_ratio(above: Sequence[float], below: Sequence[float], runs: Sequence[int] = (), confidence: float = CONFIDENCE) -> Ratio:
    """The ratio of times that are paired by place, `runs` of them in each process (default: all in one)."""
    groups = ratios_by_process(above, below, runs)
    medians = tuple(map(median, groups))
    if len(medians) < 3:
        ratios = sorted(value for group in groups for value in group)
        order = max(_order_of_limits(len(ratios), confidence), 1)  # too few values have no such limits
        low, high = ratios[order - 1], ratios[-order]
        return Ratio(median(ratios), low, high, medians)
    from scipy.special import stdtrit  # noqa: PLC0415 - a third of a second of processor time, once in a job

    logs = [math.log(value) for value in medians]
    half = float(stdtrit(len(logs) - 1, (1 + confidence) / 2)) * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean(logs)), math.exp(mean(logs) - half), math.exp(mean(logs) + half), medians)


def _order_of_limits(count: int, confidence: float) -> int:
    """Which least and which largest of `count` values hold the median between them: the binomial quantile of (1 - confidence) / 2."""
    ways = accumulate(math.comb(count, below) for below in range(count + 1))
    return next(below for below, total in enumerate(ways) if total / 2**count >= (1 - confidence) / 2)
