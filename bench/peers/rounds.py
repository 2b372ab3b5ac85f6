"""Candidates take turns: a round is one sample of each, and within a round every candidate is compared with ours.

A shared machine drifts by more than what is to be told apart; samples that lie next to each other drift together, so the median of the
ratios of rounds is steady where the ratio of medians is not. A candidate that is many times slower than the fastest sits out most
rounds: nobody asks by how many per cent it lost, and its turns would take the time of the others.
"""

from __future__ import annotations

import gc
import itertools
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

SAMPLE_S: Final = 2e-3
"""The least that a sample takes: calls are repeated until then."""
FEWEST: Final = 7
MOST: Final = 61
SLOW: Final = 3.0
"""A candidate that takes so many times the fastest's time takes part in the first rounds only."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A candidate in the rounds: its call, what runs before a sample, and the calls in a sample.

    One that `stays` never sits out; one that is `apart` does other work than the rest, so that its time says nothing about theirs.
    """

    call: Callable[[], Any]
    before: Callable[[], None] | None = None
    number: int = 1
    stays: bool = False
    apart: bool = False

    def sample(self) -> float:
        """Seconds for one call."""
        if self.before is not None:
            self.before()
        call = self.call
        if self.number > 1:
            call()  # what others left in the caches is not this candidate's affair
        turns = itertools.repeat(None, self.number)
        start = time.perf_counter()
        for _ in turns:
            call()
        return (time.perf_counter() - start) / self.number

    def calibrated(self, least: float = SAMPLE_S) -> Turn:
        """With as many calls in a sample as `least` seconds need."""
        number, turn = 1, self
        while (taken := turn.sample() * number) < least:
            number = max(number + 1, int(number * min(10.0, 1.2 * least / max(taken, 1e-9))))
            turn = replace(self, number=number)
        return turn


def take(turns: Mapping[str, Turn], seconds: float, most: int = MOST) -> dict[str, list[float | None]]:
    """Samples of each calibrated candidate, one for each round (None where it sat out), for about so many seconds.

    Every round has an order of its own, so that none always comes after the same one, which leaves the last level as that one wants it.
    """
    samples: dict[str, list[float | None]] = {name: [] for name in turns}
    gc.collect()
    order, drawn = list(turns), random.Random(0)
    begin = time.perf_counter()
    for count in itertools.count():
        spent = time.perf_counter() - begin
        if count >= most or (count >= FEWEST and spent * (count + 1) / count > seconds):
            return samples
        compared = [column for name, column in samples.items() if not turns[name].apart]
        fastest = min((found for column in compared for found in column if found is not None), default=math.inf)
        drawn.shuffle(order)
        for name in order:
            known = [found for found in samples[name] if found is not None]
            sits_out = not turns[name].stays and len(known) >= 2 and min(known) > SLOW * fastest
            samples[name].append(None if sits_out else turns[name].sample())
    raise AssertionError
