"""What the runs of a job before this one came to, as the job's own file tells: time spent, how they ended, tasks that were too much.

A run that was killed has no end. A task that it had just begun is perhaps to blame: it is left for last, and where that happened twice,
it is left out. A task that failed within the same limits of memory and time before is left out as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tensorlang.autotune.log.index import Study
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.study_records import JobPlan, RunEnd, TaskEvent

STRIKES: Final = 2
"""Deaths of the job at the first steps of a task after which the task is left out."""


@dataclass(slots=True)
class History:
    """The runs of a job: seconds that they took, the plan and the reason of the last one that ended, and what is known of tasks."""

    spent: float = 0.0
    reason: str = ""
    plan: JobPlan | None = None
    strikes: Counter[Study] = field(default_factory=Counter)
    failed: dict[Study, TaskEvent] = field(default_factory=dict)

    @classmethod
    def of(cls, log: Log) -> History:
        """That in a job's own file, where there is one; what is malformed is passed over."""
        found, plans, begun = cls(), dict[str, JobPlan](), dict[tuple[str, Study], None]()
        if not log.path.is_file():
            return found
        for record in log.records("run_start", "task", "run_end"):
            if isinstance(record, dict):
                try:
                    found._take(record, plans, begun)
                except ValueError:
                    continue
        found.strikes = Counter(study for _, study in begun)
        return found

    def _take(self, record: JsonObject, plans: dict[str, JobPlan], begun: dict[tuple[str, Study], None]) -> None:
        run = str(record.get("run"))
        match record["kind"]:
            case "run_start":
                plans[run] = JobPlan.of(record["job"] if isinstance(record.get("job"), dict) else {})
            case "run_end":
                end = RunEnd.of(record)
                self.spent += end.wall_s or 0.0
                self.reason, self.plan = end.reason, plans.get(run)
                for key in [key for key in begun if key[0] == run]:
                    del begun[key]
            case "task":
                event = TaskEvent.of(record)
                begun.pop((run, event.study), None)
                self.failed.pop(event.study, None)
                if event.event == "begun":
                    begun[run, event.study] = None
                elif event.event == "failed":
                    self.failed[event.study] = event

    def used_up(self, budget: float | None, studies: set[Study]) -> bool:
        """Did a run of these tasks end because a budget as large as this was used up?"""
        plan = self.plan
        if budget is None or plan is None or self.reason != "budget" or plan.budget is None:
            return False
        return plan.budget >= budget and studies <= {task.study for task in plan.tasks}

    def why_left_out(self, study: Study, memory: int, timeout: float) -> str | None:
        """Why a task is not begun, where so much of memory and time may be had; None if it is."""
        event = self.failed.get(study)
        if event is not None and memory <= event.limits[0] and timeout <= event.limits[1]:
            return f"as before: {event.why}"
        if self.strikes[study] >= STRIKES:
            return f"the job was killed {self.strikes[study]} times when it began this task; --retry tries it again"
        return None
