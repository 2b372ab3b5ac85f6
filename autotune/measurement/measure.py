"""The measurement protocol: how many calls make a sample, how many samples make a measurement.

A sample is the mean of enough calls to last a millisecond, or, with cold caches, one call after they were emptied. Sampling goes on until
the three least agree (the machine was quiet at least three times) or a cap is reached, and stops early for a candidate that two samples
show to be far behind the best known. The least sample ranks candidates, since noise only ever adds; all are kept, and their median
absolute deviation is the noise that the model is told.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Call = Callable[[], object]
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Policy:
    """How a candidate is timed: `least` to `most` samples of at least `sample_s` seconds each, `total_s` seconds in all.

    Sampling stops once the three least samples lie within the fraction `spread` of one another, and for a candidate that two samples show
    to be more than `loser` times slower than the best known. `rounds` and `processes` are those of the final measurement: samples of each
    finalist in a process, and processes. `cache` is "warm" or "cold" and part of a result's identity.
    """

    sample_s: float = 1e-3
    least: int = 5
    most: int = 25
    spread: float = 0.03
    loser: float = 2.5
    total_s: float = 2.0
    rounds: int = 15
    processes: int = 3
    cache: str = "warm"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds for one call, sample by sample; calls in a sample; whether it was given up as a loser."""

    samples: tuple[float, ...]
    number: int
    censored: bool = False


def measure(
    call: Call, policy: Policy, incumbent: float | None = None, clock: Clock = time.perf_counter_ns, flush: Call | None = None
) -> Measurement:
    """Time `call` by the policy. `incumbent` is the best time known, in seconds; `flush` is called before each sample of one call."""
    with _Quiet():
        number, samples = _calibrate(call, policy, clock, flush)
        while len(samples) < policy.most:
            if incumbent is not None and len(samples) >= 2 and min(samples) > policy.loser * incumbent:
                return Measurement(tuple(samples), number, censored=True)
            if len(samples) >= policy.least and sorted(samples)[2] <= (1 + policy.spread) * min(samples):
                break
            if len(samples) >= 3 and sum(samples) * number > policy.total_s:
                break
            samples.append(_sample(call, number, clock, flush))
    return Measurement(tuple(samples), number)


def interleave(
    calls: Sequence[Call],
    policy: Policy,
    clock: Clock = time.perf_counter_ns,
    flush: Call | None = None,
    seconds: float | None = None,
) -> list[Measurement]:
    """Time several calls in rounds, one sample of each in a round, so that drift of the machine meets all alike.

    After three rounds it stops where the policy's seconds, or `seconds` by the clock, are used up.
    """
    start = clock()
    with _Quiet():
        calibrated = [_calibrate(call, policy, clock, flush) for call in calls]
        samples: list[list[float]] = [[] for _ in calls]
        spent = 0.0
        for turn in range(policy.rounds):
            if turn >= 3 and (spent > policy.total_s or (seconds is not None and (clock() - start) * 1e-9 > seconds)):
                break
            for place in range(len(calls)):
                at = (place + turn) % len(calls)
                samples[at].append(_sample(calls[at], calibrated[at][0], clock, flush))
                spent += samples[at][-1] * calibrated[at][0]
    return [Measurement(tuple(taken), number) for taken, (number, _) in zip(samples, calibrated, strict=True)]


def _calibrate(call: Call, policy: Policy, clock: Clock, flush: Call | None) -> tuple[int, list[float]]:
    """The number of calls that lasts long enough, and the first two samples with it; both must last, or a hiccup would decide."""
    number = 1
    while True:
        pair = [_sample(call, number, clock, flush)]
        if pair[0] * number >= policy.sample_s or flush is not None:
            pair.append(_sample(call, number, clock, flush))
        each = min(pair)
        if each * number >= policy.sample_s or number >= 1 << 20 or flush is not None:
            return number, pair
        number = min(max(2 * number, math.ceil(1.2 * policy.sample_s / each)), 10 * number, 1 << 20)


def _sample(call: Call, number: int, clock: Clock, flush: Call | None) -> float:
    """Seconds for one call, the mean of `number`; at least a picosecond, whatever the clock says."""
    if flush is not None:
        flush()
    calls = range(number)
    start = clock()
    for _ in calls:
        call()
    return max((clock() - start) * 1e-9 / number, 1e-12)


class _Quiet:
    """No garbage collection meanwhile."""

    def __enter__(self) -> None:
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was:
            gc.enable()
