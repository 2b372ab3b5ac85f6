"""What a log has for a session to go on from: the trials that count as its own, and the last final measurement.

A trial that came to nothing through no fault of its own is tried again, but a candidate that was under way when processes or hosts were
lost twice may be the cause, and is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tensorlang.autotune.jobs.fixed import NAME as FIXED
from tensorlang.autotune.jobs.plan import TaskPlan
from tensorlang.autotune.jobs.template import NAME as TEMPLATE
from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import FinalRecord
from tensorlang.schedules.spaces.space import spelling

TEMPLATES: Final = (TEMPLATE, FIXED)
"""The strategies whose points are those of a function of the user's, or keep what the user says."""
STRIKES: Final = 2
"""Losses of a process or host after which the candidate that was under way is taken for the cause."""


@dataclass(slots=True)
class Recalled:
    """The trials of what is searched, those of the same study but of another template, or of none, and who won the final measurements.

    `rival` is the winner among the others.
    """

    trials: list[Trial] = field(default_factory=list)
    others: list[Trial] = field(default_factory=list)
    final: FinalRecord | None = None
    rival: Trial | None = None


def recall(log: Log, study: Study, dims: Mapping[str, int], plan: TaskPlan, model: str | None) -> Recalled:
    """What the log has of a study at these dims, measured on a processor of this model (None: any).

    Raises `LogError` if it cannot be read.
    """
    found, strikes = Recalled(), Counter[str]()
    for record in log.records("trial", "final"):
        if isinstance(record, Trial):
            if study_of(record) != study or record.task.get("dims", {}) != dims or not comparable(record, model):
                continue
            if not _own(record, plan):
                found.others.append(record)
                continue
            strikes[spelling(record.config)] += record.status == "infra"
            if record.status != "infra" or strikes[spelling(record.config)] == STRIKES:
                found.trials.append(record)
        elif (final := _usable(record)) is not None:
            if final.winner in {trial.id for trial in found.trials}:
                found.final = final
            found.rival = next((trial for trial in found.others if trial.id == final.winner), found.rival)
    return found


def comparable(trial: Trial, model: str | None) -> bool:
    """Was it measured on a processor of this model, as far as the two are known?"""
    there = trial.fields.get("machine")
    known = there.get("model") if isinstance(there, dict) else None
    return not known or not model or model == known


def _own(trial: Trial, plan: TaskPlan) -> bool:
    """Is it a point of what is searched: of a template its own, of a strategy's space none of a template?"""
    strategy = trial.fields.get("strategy")
    name = strategy.get("name") if isinstance(strategy, dict) else None
    return name not in TEMPLATES if plan.template is None else name == plan.name and plan.template.made(trial)


def _usable(record: JsonObject) -> FinalRecord | None:
    """A final measurement that says of its winner what a result needs; None leaves the finalists to be measured again."""
    try:
        final = FinalRecord.of(record)
    except ValueError:
        return None
    won = final.finalist(final.winner)
    return final if won is not None and won.samples and all(row.samples for row in final.finalists) else None
