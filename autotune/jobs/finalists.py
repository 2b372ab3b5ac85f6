"""The last word of a job: the fastest trials and the default, measured again side by side.

The best of many noisy trials is partly the luckiest. The finalists are therefore built, verified and timed in fresh processes, one sample
of each in a round, so that drift of the machine meets all alike, and in several processes, since where memory happens to lie is as good
as fixed within one; each process loads them in another order. A finalist wins only if it is ahead of the default in every process, by
more than the noise and two per cent (what the same code differs by, twice in one memory), and with an interval of its lead that does not
hold 1: at 99 %, since a job looks more than once and at several. Where one leads and that is not sure, or by little, as many processes
again are measured before the default stands, "undecided". Of those that win, a former winner stands before a new one: a tuned result
cannot lose to not tuning, nor flip.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from tensorlang.autotune.jobs.ledger import usual_sentinel
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import Decision, FailedFinalist, FinalistRecord
from tensorlang.autotune.measurement.interval import CONFIDENCE, Ratio, deviation, paired_ratio, ratios_by_process
from tensorlang.autotune.measurement.quality import Quality, worst
from tensorlang.autotune.measurement.sentinel import SLOW
from tensorlang.autotune.workers.evaluator import Evaluator
from tensorlang.autotune.workers.protocol import Candidate, Facts, Outcome, Where
from tensorlang.autotune.workers.runner import pooled

COUNT: Final = 3
MARGIN: Final = 0.02
SURE: Final = 0.99
"""Confidence that a lead takes to win; the interval that is shown is that of `interval.CONFIDENCE`."""
CLEARLY: Final = 1.05
"""A lead whose interval begins above this is believed at once."""
REPEATS: Final = 2
"""How often the processes of a final measurement are measured where one leads and its interval is too wide."""
PROCESSES: Final = 3
ROUNDS: Final = 6
"""Processes, or rounds of fewer processes, below which an interval of 95 % cannot be had."""


@dataclass(frozen=True, slots=True)
class Finalist:
    """A trial with its samples from the paired measurement; `runs` says how many came from each process, one after the other."""

    trial: Trial
    samples: tuple[float, ...]
    schedule: str
    runs: tuple[int, ...] = ()
    quality: Quality | None = None
    sentinel: float | None = None

    @property
    def time(self) -> float:
        """The least sample, in seconds."""
        return min(self.samples)

    def record(self) -> FinalistRecord:
        """As a log has it."""
        runs = self.runs or (len(self.samples),)
        id, config = self.trial.id, self.trial.config
        return FinalistRecord(id=id, config=config, samples=self.samples, runs=runs, least=self.time, schedule=self.schedule)


def nominate(trials: Sequence[Trial], default: Trial | None, former: str | None) -> list[Trial]:
    """Whom to measure again: the default first, then the former winner, then the fastest others."""
    valid = [trial for trial in trials if trial.time is not None]
    ranked = sorted((trial for trial in valid if not trial.censored), key=lambda trial: (trial.time, trial.seq)) or valid
    first = [trial for trial in valid if trial is default or trial.id == former]
    chosen = {trial.id: trial for trial in (*sorted(first, key=lambda trial: trial is not default), *ranked[:COUNT], *_slowed(ranked))}
    return list(chosen.values())


def _slowed(ranked: Sequence[Trial]) -> list[Trial]:
    """Those beside which the machine was slow, to the end, that would be among the first if they were slow only by that."""
    limit = ranked[:COUNT][-1].time if ranked else None
    usual, found = usual_sentinel(ranked), list[tuple[float, int, Trial]]()
    if limit is None or usual is None:
        return []
    for trial in ranked[COUNT:]:
        seconds = trial.fields.get("sentinel")
        if trial.quality is Quality.DRIFTED and isinstance(seconds, float) and trial.time is not None:
            likely = trial.time * min(usual / seconds, 1.0) if seconds > 0 else trial.time
            if likely < limit:
                found.append((likely, trial.seq, trial))
    return [trial for _, _, trial in sorted(found)[:COUNT]]


@dataclass(frozen=True, slots=True)
class Contest:
    """The finalists that were measured side by side, those that failed meanwhile with their outcome, and on which other host it was."""

    finalists: tuple[Finalist, ...]
    failed: tuple[tuple[Trial, Outcome], ...]
    where: Where | None = None


def contest(evaluator: Evaluator, finalists: Sequence[Trial], until: float | None = None) -> Contest:
    """Measure the finalists side by side, those that fail left out; and again where one leads by less than the noise allows to say."""
    found = _measured(evaluator, finalists, until)
    for _ in range(REPEATS - 1):
        if found.finalists and _leads(found) and (until is None or time.monotonic() < until):
            again = _measured(evaluator, [finalist.trial for finalist in found.finalists], until)
            if not again.finalists or again.failed:
                return Contest(again.finalists, found.failed + again.failed, again.where)
            both = zip(found.finalists, again.finalists, strict=True)
            found = Contest(tuple(_together(*pair) for pair in both), found.failed, again.where)
    return found


def _measured(evaluator: Evaluator, finalists: Sequence[Trial], until: float | None) -> Contest:
    left, failed = list(finalists), list[tuple[Trial, Outcome]]()
    while left:
        asked = [Candidate(trial.config, trial.schedule, trusted=not place) for place, trial in enumerate(left)]
        outcome = evaluator.paired(asked, until)
        if outcome.status == "ok":
            rows = zip(left, outcome.rows, strict=True)
            return Contest(tuple(_finalist(trial, row) for trial, row in rows), tuple(failed), outcome.where)
        failed.append((left.pop(min(outcome.place, len(left) - 1)), outcome))
    return Contest((), tuple(failed))


def _finalist(trial: Trial, row: Facts) -> Finalist:
    return Finalist(trial, row.samples, row.schedule or "", row.runs or (len(row.samples),), row.quality, row.sentinel)


def _together(one: Finalist, more: Finalist) -> Finalist:
    """A finalist after two measurements."""
    rows = (Facts(samples=each.samples, runs=each.runs, quality=each.quality, sentinel=each.sentinel) for each in (one, more))
    return replace(_finalist(one.trial, pooled(tuple(rows))), schedule=one.schedule)


def _leads(found: Contest) -> bool:
    """Does a finalist seem to be faster than the first, which is the default where that is valid, and none surely and clearly?"""
    first, *others = found.finalists
    clear = (other for other in others if beats(other, first) and lead(other, first).low >= CLEARLY)
    return any(_ahead(other, first) for other in others) and next(clear, None) is None


def winner(finalists: Sequence[Finalist], default: Trial | None, former: str | None) -> Finalist:
    """The one that is furthest ahead of the default of those that beat it, else the default; a former winner unless that is beaten."""
    base = next((finalist for finalist in finalists if finalist.trial is default), None)
    if base is None:
        best, able = min(finalists, key=lambda finalist: finalist.time), list(finalists)
    else:
        able = [finalist for finalist in finalists if finalist is not base and beats(finalist, base)]
        best = max(able, key=lambda finalist: lead(finalist, base).middle, default=base)
    return next((finalist for finalist in able if finalist.trial.id == former and not beats(best, finalist)), best)


def beats(one: Finalist, other: Finalist) -> bool:
    """Is it ahead in every process, by more than its noise (two standard errors, at least two per cent), with an interval that says so?"""
    groups = ratios_by_process(one.samples, other.samples, one.runs)
    ratios = [value for group in groups for value in group]
    error = deviation(ratios) / math.sqrt(len(ratios))
    surely = (len(groups) >= PROCESSES or len(ratios) >= ROUNDS) and lead(one, other, SURE).low > 1
    return surely and median(ratios) < 1 - max(MARGIN, 2 * error) and max(map(median, groups)) < 1


def lead(one: Finalist, other: Finalist, confidence: float = CONFIDENCE) -> Ratio:
    """How many times as fast the first is as the second, in pairs."""
    return paired_ratio(other.samples, one.samples, one.runs, confidence)


def _ahead(one: Finalist, other: Finalist) -> bool:
    return lead(one, other).middle > 1 + MARGIN


def graded(found: Contest, best: Finalist, base: Finalist | None, usual: float | None) -> Quality | None:
    """How far the verdict can be trusted; `usual` is the sentinel's time where the machine is at its best."""
    if best is base and any(_ahead(finalist, base) for finalist in found.finalists if finalist is not base):
        return Quality.UNDECIDED
    slow = usual is not None and any((finalist.sentinel or 0.0) > (1 + SLOW) * usual for finalist in found.finalists)
    concerned = {id(finalist): finalist for finalist in (best, base) if finalist is not None}
    return worst([*(finalist.quality for finalist in concerned.values()), Quality.DRIFTED if slow else None])


def decision(found: Contest, trials: int, default: Trial | None, former: str | None, usual: float | None = None) -> Decision:
    """What a contest after so many trials comes to: the winner, how much faster it is than the default, where that is valid, how surely."""
    best = winner(found.finalists, default, former)
    base = next((finalist for finalist in found.finalists if finalist.trial is default), None)
    ratio = None if base is None else paired_ratio(base.samples, best.samples, base.runs)
    return Decision(
        trials=trials,
        finalists=tuple(finalist.record() for finalist in found.finalists),
        failed=tuple(FailedFinalist(id=trial.id, status=outcome.status) for trial, outcome in found.failed),
        winner=best.trial.id,
        time=best.time,
        default=None if base is None else base.trial.id,
        default_time=None if base is None else base.time,
        speedup=None if ratio is None else ratio.middle,
        speedup_interval=None if ratio is None else (ratio.low, ratio.high),
        quality=graded(found, best, base, usual),
    )
