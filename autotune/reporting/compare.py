"""`autotune compare A B`: the same tasks in two logs, who was faster, and whether the difference is more than noise.

Two logs are two days: their samples were not taken side by side, so their own spread says too little. The interval of a ratio therefore
holds two standard errors of both sides, at least one per cent, and by how much the machine changed: the sentinel that ran beside the
trials, and the default schedule where compiler and machine are the same. What differs in machine and software is named: a ratio across
machines compares the machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, Literal, TypeAlias

from rich.table import Table

from tensorlang.autotune.log.database import study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.interval import deviation
from tensorlang.autotune.measurement.quality import Quality, shown as named
from tensorlang.autotune.reporting.analysis import default_of, number
from tensorlang.autotune.reporting.display import duration
from tensorlang.autotune.reporting.report import Tuned, studies

NEAR: Final = 1.05
LEAST: Final = 0.01
"""No two days agree better than this."""

MACHINE: Final = frozenset(("cpu", "model", "host"))
COMPILER: Final = frozenset(("tensorlang", "llvmlite"))

Finding: TypeAlias = Literal["A faster", "B faster", "tie", "undecided", "only in A", "only in B", "nothing valid"]


@dataclass(frozen=True, slots=True)
class TaskSummary:
    """A task in one log: its best time in seconds, trials, failed ones, and the first trial (from 1) within 5% of the best of both logs.

    `quality` says how far the time can be trusted; None where the log does not say.
    """

    time: float | None
    trials: int
    failed: int
    reached: int | None
    quality: Quality | None = None


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """A task in two logs. `ratio` is A's best time over B's, above 1 where B is faster, `low` to `high` its interval."""

    title: str
    a: TaskSummary | None
    b: TaskSummary | None
    verdict: Finding
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    differs: tuple[str, ...] = ()


def compare(a: Log, b: Log) -> list[TaskComparison]:
    """The tasks of both logs, A's first, paired by program, threads and cache policy. Raises `LogError` if either cannot be read."""
    ours, theirs = studies(a), studies(b)
    pairs: dict[int, int] = {}
    keys: tuple[Callable[[Tuned], Any], ...] = (_key, lambda tuned: (_key(tuned)[0], *_key(tuned)[2:]))
    for key in keys:  # the same target first
        free = {key(other): place for place, other in reversed([*enumerate(theirs)]) if place not in pairs.values()}
        for place, tuned in enumerate(ours):
            if place not in pairs and (found := free.pop(key(tuned), None)) is not None:
                pairs[place] = found
    rows = [_row(tuned, theirs[pairs[place]] if place in pairs else None) for place, tuned in enumerate(ours)]
    return rows + [_row(None, other) for place, other in enumerate(theirs) if place not in pairs.values()]


def table(rows: Sequence[TaskComparison]) -> Table:
    """The comparison as a table for the terminal."""
    shown = Table(
        caption="A / B above 1: B is faster; tie: the interval holds 1; undecided: the times of one are not to be trusted. "
        f"To reach: trials until within {NEAR - 1:.0%} of the best."
    )
    for column in ("task", "best A", "best B", "A / B", "", "quality (A, B)", "to reach (A, B)", "failed (A, B)", "differs (A | B)"):
        shown.add_column(column, justify="right" if column.startswith("best") else "left", overflow="fold")
    for row in rows:
        interval = "" if row.low is None else f" ({row.low:.3f} to {row.high:.3f})"
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}{interval}"
        sides = (row.a, row.b)
        best = (duration(side.time) if side else "-" for side in sides)
        reached = ", ".join(str(side.reached or "never") if side else "-" for side in sides)
        failed = ", ".join(f"{side.failed} of {side.trials}" if side else "-" for side in sides)
        quality = ", ".join("-" if side is None else named(side.quality) for side in sides)
        shown.add_row(row.title, *best, ratio, row.verdict, quality, reached, failed, "; ".join(row.differs))
    return shown


def _key(tuned: Tuned) -> tuple[Any, ...]:
    return study_of(tuned.trials[0]) or ()


def _row(a: Tuned | None, b: Tuned | None) -> TaskComparison:
    if a is None or b is None:
        tuned = a or b
        assert tuned is not None
        side = _side(tuned, _fastest(tuned))
        return TaskComparison(tuned.title, side, None, "only in A") if a else TaskComparison(tuned.title, None, side, "only in B")
    differs = _differences(a.trials, b.trials)
    names = {what.split()[0] for what in differs}
    apart = not names.isdisjoint(MACHINE)
    goals = [_fastest(a), _fastest(b)] if apart else [min(_fastest(a), _fastest(b))] * 2
    sides = (_side(a, goals[0]), _side(b, goals[1]))
    if not a.time or not b.time:
        verdict: Finding = "A faster" if a.time else "B faster" if b.time else "nothing valid"
        return TaskComparison(a.title, *sides, verdict, differs=differs)
    ratio = a.time / b.time
    drifts = [] if apart else [_changed(*map(_sentinel, (a, b)))]
    drifts += [] if apart or not names.isdisjoint(COMPILER) else [_default_changed(a, b)]
    width = max(LEAST, 2 * math.hypot(_error(a), _error(b)), *drifts)
    low, high = ratio * math.exp(-width), ratio * math.exp(width)
    found: Finding = "B faster" if low > 1 else "A faster" if high < 1 else "tie"
    if found != "tie" and any(tuned.quality is Quality.NOISY for tuned in (a, b)):
        found = "undecided"
    return TaskComparison(a.title, *sides, found, ratio, low, high, differs)


def _side(tuned: Tuned, goal: float) -> TaskSummary:
    reached = next((count for count, trial in enumerate(tuned.trials, 1) if trial.time is not None and trial.time <= NEAR * goal), None)
    return TaskSummary(tuned.time, len(tuned.trials), sum(trial.time is None for trial in tuned.trials), reached, tuned.quality)


def _fastest(tuned: Tuned) -> float:
    return min((trial.time for trial in tuned.trials if trial.time is not None), default=math.inf)


def _error(tuned: Tuned) -> float:
    """The relative standard error of a side's best time: of its samples in the final measurement, else of its trial."""
    won = None if tuned.final is None else tuned.final.finalist(tuned.final.winner)
    samples = won.samples if won is not None and won.samples else () if tuned.best is None else tuned.best.samples
    return deviation(samples) / median(samples) / math.sqrt(len(samples)) if samples else 0.0


def _default_changed(a: Tuned, b: Tuned) -> float:
    """How much the default schedule, if it is the same, changed between the logs; 0 where that is not known."""
    one, other = default_of(a.trials), default_of(b.trials)
    if one is None or other is None or one.schedule is None or one.schedule != other.schedule:
        return 0.0
    return _changed(_final_default(a) or one.time, _final_default(b) or other.time)


def _sentinel(tuned: Tuned) -> float | None:
    """The median time of the sentinel beside the trials."""
    times = [seconds for trial in tuned.trials if (seconds := number(trial.fields.get("sentinel"))) is not None]
    return median(times) if times else None


def _changed(one: float | None, other: float | None) -> float:
    return abs(math.log(one / other)) if one and other and one > 0 and other > 0 else 0.0


def _final_default(tuned: Tuned) -> float | None:
    return tuned.final.default_time if tuned.final is not None else None


def _differences(a: Sequence[Trial], b: Sequence[Trial]) -> tuple[str, ...]:
    """What the records say of machine and software that is not the same in both, `what A | B`."""
    ours, theirs = _conditions(a), _conditions(b)
    names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    return tuple(f"{name} {ours.get(name, 'unknown')} | {theirs.get(name, 'unknown')}" for name in names)


def _conditions(trials: Sequence[Trial]) -> dict[str, str]:
    """Machine and software by name; where trials differ among themselves, all that they say."""
    found: dict[str, dict[str, None]] = {}
    for trial in trials:
        told = {"cpu": trial.target.get("cpu")}
        for group in ("machine", "software"):
            value = trial.fields.get(group)
            told |= value if isinstance(value, dict) else {}
        for name, value in told.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: ", ".join(values) for name, values in found.items()}
