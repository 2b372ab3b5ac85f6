"""What random search would have done in place of the search of a log: the expected best of n draws, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.reporting.analysis import default_of
from tensorlang.schedules.spaces.space import spelling

LEAST_RANDOM: Final = 3
"""Fewer random trials than this say nothing of random search."""
_STEPS: Final = 80
"""Counts of draws for which the expected best is computed, evenly by their logarithm."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Random search: the expected best after each count of draws, and the middle 80% of it.

    `wall_s` is what a draw takes, `begin` the default's time, which stands before the first draw, and `about` says whose draws these are.
    """

    counts: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    wall_s: float
    begin: float | None
    about: str


def baseline(trials: Sequence[Trial], points: int | None = None) -> Baseline | None:
    """The best of n draws without replacement from the random trials of this log, exactly; None if there are too few.

    A log that holds every feasible point is drawn from as a whole. The default, which every search tries first, counts before the first
    draw; a draw that failed leaves things as they are.
    """
    default = default_of(trials)
    tried = {spelling(trial.config) for trial in trials}
    whole = points is not None and len(tried) >= points > LEAST_RANDOM
    drawn = [trial for trial in trials if whole or trial.source == "random"]
    valid = [trial.time for trial in drawn if trial.time is not None]
    if len(drawn) < LEAST_RANDOM or not valid:
        return None
    fallback = max(valid) if default is None or default.time is None else default.time
    values = np.sort([min(trial.time or fallback, fallback) for trial in drawn])
    m = len(values)
    counts = sorted({round(m ** (step / _STEPS)) for step in range(_STEPS + 1)})
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, m + 1)))])
    mean, low, high = [], [], []
    for n in counts:
        beyond = np.arange(m - 1, -1, -1)  # how many are slower than each
        able = beyond >= n - 1
        weight = np.zeros(m)
        weight[able] = np.exp(
            factorial[beyond[able]] - factorial[n - 1] - factorial[beyond[able] - n + 1] - factorial[m] + factorial[n] + factorial[m - n]
        )
        reached = np.cumsum(weight)
        mean.append(float(weight @ values / reached[-1]))
        low.append(float(values[min(int(np.searchsorted(reached, 0.1)), m - 1)]))
        high.append(float(values[min(int(np.searchsorted(reached, 0.9)), m - 1)]))
    kind = "all trials of this log, which holds every feasible point" if whole else f"the {m:,} random trials of this log"
    first = "" if default is None else ", with the default in hand"
    about = f"the expected best of n draws without replacement from {kind}{first}, computed exactly; the band holds 80% of such searches"
    wall, begin = fmean(trial.wall_s for trial in drawn), None if default is None else default.time
    return Baseline(tuple(counts), tuple(mean), tuple(low), tuple(high), wall, begin, about)
