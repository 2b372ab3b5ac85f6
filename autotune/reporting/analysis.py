"""What the trials of one study say: how the best came about, where the time went, how sure the gain is.

Pure functions from trials to numbers, so that the terminal, the page and the comparison say the same.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorlang.autotune.jobs.ledger import seconds_covered
from tensorlang.autotune.log.glimpse import Glimpse
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import Decision, RunStart
from tensorlang.autotune.measurement.interval import Ratio, paired_ratio
from tensorlang.autotune.measurement.slowness import Slow, slow_stretches


def ordered(trials: Sequence[Trial]) -> list[Trial]:
    """By the time they ended where all say it, else as they stand: merged logs interleave."""
    told = [trial.time_unix if isinstance(trial, Glimpse) else number(trial.fields.get("time_unix")) for trial in trials]
    ends = [end for end in told if end is not None]
    return [trials[place] for place in sorted(range(len(ends)), key=ends.__getitem__)] if len(ends) == len(told) else list(trials)


def default_of(trials: Sequence[Trial]) -> Trial | None:
    """The fastest measurement of the default schedule."""
    valid = [trial for trial in trials if trial.source == "default" and trial.time is not None]
    return min(valid, key=lambda trial: trial.time or math.inf, default=None)


def improvements(trials: Sequence[Trial]) -> list[tuple[int, float]]:
    """The trials, counted from 1, that were faster than all before them, with their times."""
    found, least = list[tuple[int, float]](), math.inf
    for count, trial in enumerate(trials, 1):
        if trial.time is not None and trial.time < least:
            least = trial.time
            found.append((count, least))
    return found


def elapsed(trials: Sequence[Trial], starts: Sequence[RunStart] = ()) -> list[float]:
    """For each trial the seconds of tuning until it ended: runs that overlap count once, pauses between runs not at all.

    Where a record does not say when it ended, the wall times are added up.
    """
    ends = [number(trial.fields.get("time_unix")) for trial in trials]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends):
        return list(np.cumsum([trial.wall_s for trial in trials]))
    begun = {start.run: start.time_unix for start in starts}
    spans: dict[str, tuple[float, float]] = {}
    for trial, end in zip(trials, known, strict=True):
        run = str(trial.fields.get("run"))
        start = end - trial.wall_s
        first, last = spans.get(run, (min(start, begun.get(run) or start), end))
        spans[run] = (min(first, start), max(last, end))
    merged: list[list[float]] = []
    for first, last in sorted(spans.values()):
        if merged and first <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return [sum(max(0.0, min(end, last) - first) for first, last in merged) for end in known]


def overhead(trials: Sequence[Trial]) -> float | None:
    """The share of the wall time in which nothing was built or measured; None where the log does not say.

    Builds and measurements may overlap, so their spans are joined where they are recorded, and added up where they are not.
    """
    wall = sum(trial.wall_s for trial in trials)
    if wall <= 0:
        return None
    spans: dict[str, list[list[float]]] = defaultdict(list)
    for trial in trials:
        told = trial.fields.get("spans")
        if not isinstance(told, dict):
            return max(0.0, 1 - sum(each.compile_s + each.run_s for each in trials) / wall)
        spans[str(trial.fields.get("run"))] += [
            [float(end) for end in span]
            for span in told.values()
            if isinstance(span, list) and len(span) == 2 and None not in map(number, span)
        ]
    return max(0.0, 1 - sum(map(seconds_covered, spans.values())) / wall)


def slow(trials: Sequence[Trial]) -> list[Slow]:
    """The stretches in which the machine was slower than usual, by the sentinels of each run on each host; trials count from 1."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for count, trial in enumerate(trials, 1):
        if (seconds := number(trial.fields.get("sentinel"))) is not None and seconds > 0:
            groups[str(trial.fields.get("run")), str(trial.fields.get("machine"))].append((count, seconds))
    return [stretch for times in groups.values() for stretch in slow_stretches(times)]


@dataclass(frozen=True, slots=True)
class Gain:
    """The default's time over the winner's, with a 95 % interval where paired rounds give one; `how` says where it comes from."""

    ratio: float
    low: float | None
    high: float | None
    how: str

    def __str__(self) -> str:
        if self.low == self.high == 1:
            return "the default itself won"
        return f"{self.ratio:.3g}x default" + ("" if self.low is None else f" (95%: {self.low:.3g} to {self.high:.3g})")


def gain(final: Decision | None, trials: Sequence[Trial], best: Trial | None) -> Gain | None:
    """The speed-up over the default: from the paired rounds of the final measurement, else from the trials (then without an interval)."""
    if final is not None and final.speedup is not None:
        if final.default_stands:
            return Gain(1.0, 1.0, 1.0, "the default itself won the final measurement")
        base, won = final.finalist(final.default), final.finalist(final.winner)
        low, high = final.speedup_interval or (None, None)
        if won is None:
            return Gain(final.speedup, low, high, "the final measurement")
        runs = len(won.by_process)
        how = f"median of {len(won.samples)} paired rounds in {f'{runs} fresh processes' if runs > 1 else 'a fresh process'}"
        if low is not None:
            return Gain(final.speedup, low, high, how)
        if base is not None and len(base.samples) == len(won.samples) > 1:
            found = paired_ratio(base.samples, won.samples, won.by_process)
            return Gain(final.speedup, found.low, found.high, how)
        return Gain(final.speedup, None, None, "the final measurement")
    default = default_of(trials)
    if default is None or best is None or not default.time or not best.time:
        return None
    return Gain(default.time / best.time, None, None, "least times of single trials, not yet measured side by side")


def contender(final: Decision | None) -> Ratio | None:
    """How many times as fast as the default the finalist was that came closest to it or led; None without both."""
    if final is None or (base := final.finalist(final.default)) is None:
        return None
    found = [
        paired_ratio(base.samples, other.samples, base.by_process)
        for other in final.finalists
        if other.id != base.id and len(other.samples) == len(base.samples) > 0
    ]
    return max(found, key=lambda ratio: ratio.middle, default=None)


def number(value: object) -> float | None:
    """The value as a finite number; None for anything else, truth values included."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max else None
