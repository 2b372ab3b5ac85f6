"""The last word of a job: the fastest trials and the default, measured again side by side.

The best of many noisy trials is partly the luckiest. The finalists are therefore built, verified and timed in fresh processes, one sample
of each in a round, so that drift of the machine meets all alike, and in several processes, since where memory happens to lie is as good
as fixed within one. A finalist wins only if it is ahead in every process and by more than the noise; else the default stands before
a former winner, and a former winner before a new one: a tuned result cannot lose to not tuning, nor flip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import Decision, FailedFinalist, FinalistRecord
from tensorlang.autotune.measurement.interval import deviation, paired_ratio, ratios_by_process
from tensorlang.autotune.workers.evaluator import Evaluator
from tensorlang.autotune.workers.protocol import Candidate, Outcome, Where

COUNT: Final = 3
MARGIN: Final = 0.01


@dataclass(frozen=True, slots=True)
class Finalist:
    """A trial with its samples from the paired measurement; `runs` says how many came from each process, one after the other."""

    trial: Trial
    samples: tuple[float, ...]
    schedule: str
    runs: tuple[int, ...] = ()

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
    chosen = {trial.id: trial for trial in (*sorted(first, key=lambda trial: trial is not default), *ranked[:COUNT])}
    return list(chosen.values())


@dataclass(frozen=True, slots=True)
class Contest:
    """The finalists that were measured side by side, those that failed meanwhile with their outcome, and on which other host it was."""

    finalists: tuple[Finalist, ...]
    failed: tuple[tuple[Trial, Outcome], ...]
    where: Where | None = None


def contest(evaluator: Evaluator, finalists: Sequence[Trial], until: float | None = None) -> Contest:
    """Measure the finalists side by side; those that fail are left out."""
    left, failed = list(finalists), list[tuple[Trial, Outcome]]()
    while left:
        asked = [Candidate(trial.config, trial.schedule, trusted=not place) for place, trial in enumerate(left)]
        outcome = evaluator.paired(asked, until)
        if outcome.status == "ok":
            rows = zip(left, outcome.rows, strict=True)
            measured = (Finalist(trial, row.samples, row.schedule or "", row.runs) for trial, row in rows)
            return Contest(tuple(measured), tuple(failed), outcome.where)
        failed.append((left.pop(min(outcome.place, len(left) - 1)), outcome))
    return Contest((), tuple(failed))


def winner(finalists: Sequence[Finalist], default: Trial | None, former: str | None) -> Finalist:
    """The fastest, unless one that is preferred (the default, then the former winner) is within the noise of it."""
    best = min(finalists, key=lambda finalist: finalist.time)
    preferred = [f for f in finalists if f.trial is default] + [f for f in finalists if f.trial.id == former]
    return next((finalist for finalist in preferred if not beats(best, finalist)), best)


def beats(one: Finalist, other: Finalist) -> bool:
    """Is the paired ratio of times below one in every process, and by more than its noise (two standard errors, at least one per cent)?"""
    groups = ratios_by_process(one.samples, other.samples, one.runs)
    ratios = [value for group in groups for value in group]
    error = deviation(ratios) / math.sqrt(len(ratios))
    return median(ratios) < 1 - max(MARGIN, 2 * error) and max(map(median, groups)) < 1


def decision(found: Contest, trials: int, default: Trial | None, former: str | None) -> Decision:
    """What a contest after so many trials comes to: the winner, and how much faster it is than the default, where that is valid."""
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
    )
