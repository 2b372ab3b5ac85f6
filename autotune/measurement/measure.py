"""The measurement protocol: how many calls make a sample, how many samples make a measurement.

A sample is the mean of enough calls to last a millisecond, or, with cold caches, one call after they were emptied. Sampling goes on until
the three least agree (the machine was quiet at least three times) or a cap is reached, and stops early for a candidate that two samples
show to be far behind the best known. The least sample ranks candidates, since noise only ever adds; all are kept, and their median
absolute deviation is the noise that the model is told.

A sample that something interrupted does not count: it is taken again, after others had their turn on the core, and shorter where they never
leave it for a millisecond. What is longer than a share of the core is interrupted whatever one does; after a few attempts such samples are
the processor time that the thread spent, which waiting does not lengthen, and the measurement says so (`quality`).
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.measurement.timer import ThreadTimer, Timer

Call = Callable[[], object]

FEW: Final = 3
"""Samples that must agree, or be there at all."""
PATIENCE: Final = 2.0
"""How many times the seconds of a measurement may go by on the clock while others have the core."""
ATTEMPTS: Final = 4
"""Attempts at a sample of a round that nothing interrupts."""
SHORTEST_S: Final = 0.2e-3
"""Samples are not made shorter than this: the clocks are read beside each."""
SHARE_S: Final = 4e-3
"""About what a scheduler gives a thread before it lets others run."""
MOSTLY: Final = 2 / 3
"""The share of a finalist's samples that nothing may have interrupted for the whole to count as clean."""


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
    """Seconds for one call, sample by sample; calls in a sample; whether it was given up as a loser; how far the times can be trusted."""

    samples: tuple[float, ...]
    number: int
    censored: bool = False
    quality: Quality = Quality.CLEAN


@dataclass(slots=True)
class Sampler:
    """Samples of one call: those that nothing interrupted (`clean`), and what is known of the others."""

    call: Call
    policy: Policy
    timer: Timer
    flush: Call | None
    number: int = 1
    clean: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    interrupted: int = 0
    """Attempts since the last clean sample."""
    tells_own: bool = True
    """Are the others times that waiting did not lengthen?"""
    began: float = field(init=False)
    used: float = 0.0
    """Seconds of the clean samples."""
    tried: float = 0.0
    """Seconds of all samples."""

    def __post_init__(self) -> None:
        self.began = self.timer.now()

    @property
    def waited(self) -> float:
        """Seconds by the clock since the first attempt."""
        return self.timer.now() - self.began

    @property
    def samples(self) -> list[float]:
        """The clean ones where there are enough of them, else all, in which case no clean one is lost."""
        return self.clean if len(self.clean) >= FEW or not self.others else [*self.clean, *self.others]

    @property
    def is_long(self) -> bool:
        """Does a single call last longer than a share of the core?"""
        return self.number == 1 and bool(self.others) and min(self.others) > SHARE_S

    @property
    def quality(self) -> Quality:
        """What the samples are worth."""
        return self.graded(clean=len(self.clean) >= FEW or not self.others)

    def graded(self, *, clean: bool) -> Quality:
        """Clean, or why not."""
        return Quality.CLEAN if clean else Quality.SHARED if self.tells_own else Quality.NOISY

    def calibrate(self) -> None:
        """Find the number of calls that lasts long enough; the first two samples with it both must, or a hiccup would decide."""
        while True:
            pair = [self._attempt()]
            if pair[0][0] * self.number >= self.policy.sample_s or self.flush is not None:
                pair.append(self._attempt())
            each = min(seconds for seconds, _ in pair)
            if each * self.number >= self.policy.sample_s or self.number >= 1 << 20 or self.flush is not None:
                break
            self.number = min(max(2 * self.number, math.ceil(1.2 * self.policy.sample_s / each)), 10 * self.number, 1 << 20)
        for sample in pair:
            self._keep(*sample)

    def take(self) -> tuple[float, bool]:
        """One attempt at a sample; its seconds for one call, and whether nothing interrupted it."""
        if self.interrupted:
            self.timer.rest()
            if self.flush is None and not self.is_long:
                self.call()  # with the caches as a warm call finds them, whatever those who ran meanwhile left
        sample = self._attempt()
        self._keep(*sample)
        if self.interrupted >= ATTEMPTS and self.interrupted % 2 == 0 and sample[0] * self.number > 2 * SHORTEST_S:
            self.number = max(self.number // 2, 1)
        return sample

    def settled(self, attempts: int) -> tuple[float, bool]:
        """A sample that nothing interrupted, or the least of so many attempts."""
        found = []
        for _ in range(attempts):
            found.append(self.take())
            if found[-1][1]:
                return found[-1]
        return min(found)

    def _attempt(self) -> tuple[float, bool]:
        if self.flush is not None:
            self.flush()
        span = self.timer(self.call, self.number)
        self.tells_own = self.tells_own and (span.undisturbed or span.own is not None)
        return max(span.seconds / self.number, 1e-12), span.undisturbed  # at least a picosecond, whatever the clock says

    def _keep(self, seconds: float, undisturbed: bool) -> None:
        (self.clean if undisturbed else self.others).append(seconds)
        self.interrupted = 0 if undisturbed else self.interrupted + 1
        self.used += seconds * self.number if undisturbed else 0.0
        self.tried += seconds * self.number


def measure(
    call: Call, policy: Policy, incumbent: float | None = None, timer: Timer | None = None, flush: Call | None = None
) -> Measurement:
    """Time `call` by the policy. `incumbent` is the best time known, in seconds; `flush` is called before each sample of one call."""
    with _Quiet():
        sampler = Sampler(call, policy, timer or ThreadTimer(), flush)
        sampler.calibrate()
        while True:
            if incumbent is not None and _far_behind(sampler, policy.loser * incumbent):
                return Measurement(tuple(sampler.samples), sampler.number, True, sampler.quality)
            if _enough(sampler) or _in_vain(sampler):
                return Measurement(tuple(sampler.samples), sampler.number, False, sampler.quality)
            sampler.take()


def _far_behind(sampler: Sampler, limit: float) -> bool:
    """Do two samples, or three that were interrupted, show that the least time is above the limit?"""
    if len(sampler.clean) >= 2:
        return min(sampler.clean) > limit
    return sampler.tells_own and len(sampler.samples) >= FEW and min(sampler.samples) > limit


def _enough(sampler: Sampler) -> bool:
    """Are there samples that nothing interrupted, enough of them or for long enough?"""
    clean, policy = sampler.clean, sampler.policy
    if len(clean) >= policy.most or (len(clean) >= FEW and sampler.used > policy.total_s):
        return True
    return len(clean) >= policy.least and _agree(clean, policy)


def _in_vain(sampler: Sampler) -> bool:
    """Is it time to make do with samples that were interrupted?"""
    clean, others, policy = sampler.clean, sampler.others, sampler.policy
    if len(others) < FEW:
        return False
    taken, more = len(clean) + len(others), 1.0 if sampler.is_long else PATIENCE
    if sampler.tried > policy.total_s or sampler.waited > PATIENCE * policy.total_s or taken >= more * policy.most:
        return True
    hopeless = len(clean) < FEW and taken >= more * policy.least
    return hopeless and _agree([*clean, *others], policy)


def _agree(samples: Sequence[float], policy: Policy) -> bool:
    return sorted(samples)[FEW - 1] <= (1 + policy.spread) * min(samples)


def interleave(
    calls: Sequence[Call],
    policy: Policy,
    timer: Timer | None = None,
    flush: Call | None = None,
    seconds: float | None = None,
) -> list[Measurement]:
    """Time several calls in rounds, one sample of each in a round, so that drift of the machine meets all alike.

    After three rounds it stops where the policy's seconds, or `seconds` by the clock, are used up; at twice the policy's it stops in any
    case, by the clock, since others may have the core most of the time.
    """
    clock = timer or ThreadTimer()
    start = clock.now()
    with _Quiet():
        samplers = [Sampler(call, policy, clock, flush) for call in calls]
        for sampler in samplers:
            sampler.calibrate()
            sampler.clean.clear()
            sampler.others.clear()
        kept: list[list[tuple[float, bool]]] = [[] for _ in calls]
        limit = math.inf if seconds is None else seconds
        for turn in range(policy.rounds):
            gone = clock.now() - start
            if turn >= FEW and (_spent(samplers, kept) > policy.total_s or gone > min(limit, (1 + PATIENCE) * policy.total_s)):
                break
            for place in range(len(calls)):
                at = (place + turn) % len(calls)
                hopeful = samplers[at].interrupted < PATIENCE * ATTEMPTS and clock.now() - start < min(limit, policy.total_s)
                kept[at].append(samplers[at].settled(ATTEMPTS if hopeful else 1))
    return [_interleaved(sampler, taken) for sampler, taken in zip(samplers, kept, strict=True)]


def _spent(samplers: Sequence[Sampler], kept: Sequence[Sequence[tuple[float, bool]]]) -> float:
    """Seconds of the samples that were kept."""
    return sum(sampler.number * seconds for sampler, taken in zip(samplers, kept, strict=True) for seconds, _ in taken)


def _interleaved(sampler: Sampler, taken: Sequence[tuple[float, bool]]) -> Measurement:
    clean = sum(undisturbed for _, undisturbed in taken) >= MOSTLY * len(taken)
    return Measurement(tuple(seconds for seconds, _ in taken), sampler.number, False, sampler.graded(clean=clean))


class _Quiet:
    """No garbage collection meanwhile."""

    def __enter__(self) -> None:
        self._was = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was:
            gc.enable()
