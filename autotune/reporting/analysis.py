"""What the trials of one study say: how the best came about, what random search would have done, what each knob did, how sure we are.

Pure functions from trials to numbers, so that the terminal, the page and the comparison say the same. Each number states its assumption:
a search looks closer where it is fast, so the shares of knobs describe the trials of a log and not the whole space.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

import numpy as np

from tensorlang.autotune.jobs.ledger import covered
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import Decision, RunStart
from tensorlang.autotune.measurement.interval import paired_ratio
from tensorlang.autotune.measurement.slowness import Slow, slow_stretches
from tensorlang.schedules.spaces.space import spelling

LEAST_RANDOM: Final = 3
"""Fewer random trials than this say nothing of random search."""

MOST_LEVELS: Final = 10
INACTIVE: Final = "not active"
_STEPS: Final = 80


def ordered(trials: Sequence[Trial]) -> list[Trial]:
    """By the time they ended where all say it, else as they stand: merged logs interleave."""
    ends = [number(trial.fields.get("time_unix")) for trial in trials]
    if any(end is None for end in ends):
        return list(trials)
    return [trial for _, _, trial in sorted(zip(ends, range(len(ends)), trials, strict=True), key=lambda entry: entry[:2])]


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
    return max(0.0, 1 - sum(map(covered, spans.values())) / wall)


def slow(trials: Sequence[Trial]) -> list[Slow]:
    """The stretches in which the machine was slower than usual, by the sentinels of each run on each host; trials count from 1."""
    groups: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for count, trial in enumerate(trials, 1):
        if (seconds := number(trial.fields.get("sentinel"))) is not None and seconds > 0:
            groups[str(trial.fields.get("run")), str(trial.fields.get("machine"))].append((count, seconds))
    return [stretch for times in groups.values() for stretch in slow_stretches(times)]


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


@dataclass(frozen=True, slots=True)
class Level:
    """A value of a knob, or a range of values: the ratios of its valid trials to the best time, and how many failed."""

    label: str
    ratios: tuple[float, ...]
    failed: int

    @property
    def middle(self) -> float | None:
        """The median ratio."""
        return median(self.ratios) if self.ratios else None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a knob did. `share`: how much of the order of the trials by time its value alone accounts for; None: cannot tell."""

    name: str
    share: float | None
    levels: tuple[Level, ...]

    @property
    def explains(self) -> str:
        """The share in words."""
        return "too few trials to tell" if self.share is None else f"explains {self.share:.0%}"

    def __str__(self) -> str:
        told = sorted((level for level in self.levels if level.middle is not None), key=lambda level: level.middle or math.inf)
        share = self.explains
        if not told:
            return f"{self.name}: {share}"
        best, worst = told[0], told[-1]
        line = f"{self.name}: {share}; best at {best.label} (median {best.middle:.2f}x)"
        return line if best is worst else f"{line}, worst at {worst.label} ({worst.middle:.2f}x)"


def knob_effects(trials: Sequence[Trial]) -> list[Effect]:
    """What each knob did, the one that explains most first; none without a valid trial."""
    times = [trial.time for trial in trials if trial.time is not None]
    if not times:
        return []
    least = min(times)
    parts = [_parts(trial.config) for trial in trials]
    effects = []
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part.get(name, INACTIVE) for part in parts]
        label = _labels(values)
        groups: dict[str, list[float]] = defaultdict(list)
        failed: dict[str, int] = defaultdict(int)
        for trial, value in zip(trials, values, strict=True):
            if trial.time is None:
                failed[label(value)] += 1
            else:
                groups[label(value)].append(trial.time / least)
        places = dict.fromkeys(label(value) for value in sorted(values, key=_order))
        levels = tuple(Level(place, tuple(groups[place]), failed[place]) for place in places)
        effects.append(Effect(name, explained([level.ratios for level in levels]), levels))
    return sorted(effects, key=lambda effect: -1.0 if effect.share is None else effect.share, reverse=True)


def explained(groups: Sequence[Sequence[float]]) -> float | None:
    """Epsilon squared of ranks: the share of the order that the group accounts for, less what chance gives; None if it cannot be told.

    Of ranks (Kruskal and Wallis), since one trial that met a busy machine would outweigh all others in a variance of times.
    """
    held = [group for group in groups if group]
    count = sum(map(len, held))
    if count <= len(held):
        return None
    if len(held) < 2 or len({value for group in held for value in group}) < 2:
        return 0.0
    from scipy import stats  # noqa: PLC0415 - a second of processor time, and `status` and `best` do without

    return max(0.0, float(stats.kruskal(*held).statistic - len(held) + 1) / (count - len(held)))


def _parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """A point with each split taken apart: every factor is a knob of its own."""
    parts: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, list) and len(value) > 1 and all(number(entry) is not None for entry in value):
            parts.update({f"{name}[{place}]": entry for place, entry in enumerate(value)})
        else:
            parts[name] = value
    return parts


def _labels(values: Sequence[Any]) -> Callable[[Any], str]:
    """How values are named; where there are many, numbers go by range and the rarest of others together."""
    kinds = {spelling(value): value for value in values}
    if len(kinds) <= MOST_LEVELS:
        return text_of
    numbers = sorted({value for value in kinds.values() if number(value) is not None})
    if len(numbers) >= len(kinds) - 1:
        size = math.ceil(len(numbers) / (MOST_LEVELS - 2))
        ranges = [numbers[place : place + size] for place in range(0, len(numbers), size)]
        names = {entry: text_of(some[0]) if len(some) == 1 else f"{some[0]} to {some[-1]}" for some in ranges for entry in some}
        return lambda value: names.get(value, text_of(value)) if number(value) is not None else text_of(value)
    counts: dict[str, int] = defaultdict(int)
    for value in values:
        counts[spelling(value)] += 1
    kept = set(sorted(counts, key=lambda key: (-counts[key], key))[: MOST_LEVELS - 1])
    return lambda value: text_of(value) if spelling(value) in kept else f"{len(kinds) - len(kept)} other values"


def text_of(value: Any) -> str:
    """A value of a knob in print."""
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return " ".join(map(text_of, value))
        case _:
            return str(value)


def _order(value: Any) -> tuple[int, float, str]:
    size = number(value)
    return (2, 0.0, "") if value == INACTIVE else (1, 0.0, text_of(value)) if size is None else (0, size, "")


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


def number(value: object) -> float | None:
    """The value as a finite number; None for anything else, truth values included."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max else None
