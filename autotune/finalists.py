"""The last word of a job: the fastest trials and the default, measured again side by side.

The best of many noisy trials is partly the luckiest. The finalists are therefore built, verified and timed in a fresh process, one sample
of each in a round, so that drift of the machine meets all alike. A finalist wins only if its paired ratio clears the noise; within it
the default stands before a former winner, and a former winner before a new one: a tuned result cannot lose to not tuning, nor flip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tensorlang.autotune.record import Trial
from tensorlang.autotune.runner import Outcome, Runner

COUNT: Final = 3
MARGIN: Final = 0.01


@dataclass(frozen=True, slots=True)
class Finalist:
    """A trial with its samples from the paired measurement."""

    trial: Trial
    samples: tuple[float, ...]
    schedule: str

    @property
    def time(self) -> float:
        """The least sample, in seconds."""
        return min(self.samples)

    def to_json(self) -> dict[str, Any]:
        """As a record has it."""
        trial = self.trial
        return {"id": trial.id, "config": trial.config, "samples": list(self.samples), "min": self.time, "schedule": self.schedule}


def nominate(trials: Sequence[Trial], default: Trial | None, former: str | None) -> list[Trial]:
    """Whom to measure again: the default first, then the former winner, then the fastest others."""
    valid = [trial for trial in trials if trial.time is not None]
    ranked = sorted((trial for trial in valid if not trial.censored), key=lambda trial: (trial.time, trial.seq)) or valid
    first = [trial for trial in valid if trial is default or trial.id == former]
    chosen = {trial.id: trial for trial in (*sorted(first, key=lambda trial: trial is not default), *ranked[:COUNT])}
    return list(chosen.values())


def contest(runner: Runner, finalists: Sequence[Trial]) -> tuple[list[Finalist], list[tuple[Trial, Outcome]]]:
    """Measure the finalists side by side; those that fail are left out and returned with their outcome."""
    left, failed = list(finalists), list[tuple[Trial, Outcome]]()
    while left:
        asked = [{"config": trial.config, "schedule": trial.schedule, "trusted": not place} for place, trial in enumerate(left)]
        outcome = runner.paired(asked)
        if outcome.status == "ok":
            rows = outcome.told["rows"]
            return [Finalist(trial, tuple(row["samples"]), row["schedule"]) for trial, row in zip(left, rows, strict=True)], failed
        failed.append((left.pop(min(outcome.place, len(left) - 1)), outcome))
    return [], failed


def winner(finalists: Sequence[Finalist], default: Trial | None, former: str | None) -> Finalist:
    """The fastest, unless one that is preferred (the default, then the former winner) is within the noise of it."""
    best = min(finalists, key=lambda finalist: finalist.time)
    preferred = [f for f in finalists if f.trial is default] + [f for f in finalists if f.trial.id == former]
    return next((finalist for finalist in preferred if not beats(best, finalist)), best)


def beats(one: Finalist, other: Finalist) -> bool:
    """Is the paired ratio of times below one by more than its noise (two standard errors, at least one per cent)?"""
    middle, error = ratio(one, other)
    return middle < 1 - max(MARGIN, 2 * error)


def ratio(one: Finalist, other: Finalist) -> tuple[float, float]:
    """Median of the paired ratios of times, and its standard error."""
    ratios = [a / b for a, b in zip(one.samples, other.samples, strict=True)]
    middle = median(ratios)
    return middle, 1.4826 * median(abs(r - middle) for r in ratios) / math.sqrt(len(ratios))
