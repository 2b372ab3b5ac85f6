"""Samples of several calls in turns, and what counts as the same result."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from bench.programs.engines import Call

TURNS: Final = 11
LEAST: Final = 0.02
"""Seconds of a sample, at least."""
NEAR: Final = 2e-3
"""Relative error up to which sums that were added in another order are the same."""
DIFFERENT: Final = 1e-3
"""Whole numbers that may differ, as a share: steps of a bounded point at the edge, the nearer of two equal distances."""
LEVEL: Final = 1
"""Levels of brightness, which are words, that a pixel may differ by: sums of another order are cut off to another one."""


def same(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Are the results of two the same, up to rounding and to what may differ?"""
    return [each.shape for each in ours] == [each.shape for each in theirs] and all(map(_agree, ours, theirs))


def _agree(ours: Any, theirs: Any) -> bool:
    if ours.dtype == np.uint16:
        return bool((np.abs(ours.astype(np.int32) - theirs) > LEVEL).mean() <= DIFFERENT)
    if ours.dtype.kind in "iu":
        return bool((ours != theirs).mean() <= DIFFERENT)
    return bool(np.allclose(ours, theirs, rtol=NEAR, atol=NEAR))


def turns(sides: Mapping[str, Call], clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of a call of each, a sample in every turn; each turn has an order of its own, so that none always follows the same one."""
    counts = {name: _count(side, clock) for name, side in sides.items()}
    samples: dict[str, list[float]] = {name: [] for name in sides}
    order, drawn = list(sides), random.Random(0)
    for _ in range(TURNS):
        drawn.shuffle(order)
        for name in order:
            samples[name].append(_seconds(sides[name], counts[name], clock) / counts[name])
    return samples


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """The time of theirs by ours, in the median over turns."""
    return statistics.median(b / a for a, b in zip(ours, theirs, strict=True))


def _seconds(side: Call, count: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(count):
        side()
    return clock() - start


def _count(side: Call, clock: Callable[[], float]) -> int:
    side()
    count = 1
    while (taken := _seconds(side, count, clock)) < LEAST:
        count = max(count + 1, int(1.2 * count * LEAST / max(taken, 1e-9)))
    return count
