"""The last word of a job: the fastest trials and the default, measured again side by side.

The best of many noisy trials is partly the luckiest. The finalists are therefore built, verified and timed in fresh processes, one sample
of each in a round, so that drift of the machine meets all alike, and in several processes, since where memory happens to lie is as good
as fixed within one. A finalist wins only if it is ahead in every process and by more than the noise; else the default stands before
a former winner, and a former winner before a new one: a tuned result cannot lose to not tuning, nor flip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
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

    def to_json(self) -> JsonObject:
        """As a record has it."""
        trial, runs = self.trial, list(self.runs or (len(self.samples),))
        facts = {"samples": list(self.samples), "runs": runs, "min": self.time, "schedule": self.schedule}
        return {"id": trial.id, "config": trial.config, **facts}


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


def compared(base: Finalist | None, best: Finalist) -> JsonObject:
    """The speed-up as a record has it; None where the default has no time."""
    if base is None:
        return {"default_time": None, "speedup": None, "speedup_interval": None}
    found = paired_ratio(base.samples, best.samples, base.runs)
    return {"default_time": base.time, "speedup": found.middle, "speedup_interval": [found.low, found.high]}


def interval_in(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of the speed-up in a final record; None in an older one, and without a default."""
    match record.get("speedup_interval"):
        case [float(low), float(high)]:
            return low, high
        case _:
            return None
