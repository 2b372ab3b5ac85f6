"""A batch of tasks, run: time is given in slices to the task that is expected to gain most by it (see `allocation`).

The folder of logs is the checkpoint. The same job run again takes over what the logs have, counts the time of those trials against its
budget as it counts them against `trials`, and measures what is missing. A task that fails is said so in the summary and does not stop
the others. Into the folder goes one file of the job's own, which says what it set out to do and how it ended, so that `status` can tell
how far it is from the logs alone.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune import operators
from tensorlang.autotune.jobs.allocation import FIRST, choose, slice_of
from tensorlang.autotune.jobs.batch_task import BatchTask
from tensorlang.autotune.jobs.jobfile import Job, TaskSpec
from tensorlang.autotune.jobs.plan import Progress
from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import JobPlan, JobTask
from tensorlang.autotune.measurement import host
from tensorlang.errors import LogError, TensorlangError, TuningError

SLICE_S: Final = 10.0
"""Seconds of a slice: long against the second that a change of tasks takes."""
LEAST_S: Final = 1.0
FINAL_S: Final = 1.5
FINALISTS: Final = 8
"""What is set aside for the final measurement of a task: seconds, and so many times those of a trial."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Where a batch stands: trials done and in all, trials a second of this run, seconds left (None: unknown), and its current task."""

    done: int
    total: int
    rate: float
    eta: float | None
    title: str
    task: Progress


class Batch:
    """A job made ready. Raises `TuningError` that names the task which cannot be tuned, before anything is measured."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.tasks = [BatchTask(spec, name, outputs, job) for spec in job.specs for name, outputs in _programs(job, spec)]
        self.studies: dict[Study, BatchTask] = {}
        for task in self.tasks:
            try:
                study = task.open()
            except LogError:
                raise
            except TensorlangError as error:
                raise TuningError(f"{job.path}: {task.spec.place}: {error}") from None
            if (twin := self.studies.setdefault(study, task)) is not task:
                raise TuningError(f"{job.path}: {task.spec.place} is the same program as {twin.spec.place}: {task.title}; remove one")
        self._recall()
        self._started = time.monotonic()
        self._spent = sum(trial.wall_s for task in self.tasks for trial in task.trials)
        self._run = uuid.uuid4().hex

    @property
    def left(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return None if self.job.budget is None else self.job.budget - self._spent - (time.monotonic() - self._started)

    def run(self, tell: Callable[[Overview], None]) -> None:
        """Search slice by slice, then measure the finalists of every task again. Raises `LogError` if the folder cannot be written."""
        own = _own_log(self.job)
        own.append(self._record("run_start", job=self._plan().to_json()))
        reason = "failed"
        try:
            reason = self._search(tell)
            for task in self.tasks:
                task.conclude(self._teller(task, tell))
        except KeyboardInterrupt:
            reason = "interrupted"
            raise
        finally:
            for task in self.tasks:
                task.close(reason)
            own.append(self._record("run_end", reason=reason, wall_s=round(time.monotonic() - self._started, 3)))

    def _search(self, tell: Callable[[Overview], None]) -> str:
        former: BatchTask | None = None
        while (place := choose([task.curve() for task in self.tasks])) is not None:
            task = self.tasks[place]
            left = self.left if len(task.trials) < FIRST else self._searchable()  # the warm-up goes before the final measurements
            if left is not None and left <= 0:
                return "budget"
            if former is not None and former is not task:
                former.rest()
            former = task
            slice_s = SLICE_S if left is None else max(LEAST_S, min(SLICE_S, left / (4 * len(self.tasks))))
            task.advance(slice_of(task.curve(), slice_s), left, self._teller(task, tell))
            if not task.left:
                task.conclude(self._teller(task, tell))
        return "trials"

    def _searchable(self) -> float | None:
        """Seconds left for the search: the final measurements have to fit too, but get at most half of the budget."""
        left = self.left
        if left is None or self.job.budget is None:
            return None
        finals = sum(FINAL_S + FINALISTS * task.curve().wall for task in self.tasks if task.trials and task.result is None)
        return left - min(finals, self.job.budget / 2)

    def _teller(self, task: BatchTask, tell: Callable[[Overview], None]) -> Callable[[Progress], None]:
        done = sum(len(other.trials) for other in self.tasks if other is not task)

        def told(state: Progress) -> None:
            tell(self._overview(task, state, done + state.done))

        return told

    def _overview(self, task: BatchTask, state: Progress, done: int) -> Overview:
        total = sum(max(other.spec.trials, len(other.trials)) if other.left else len(other.trials) for other in self.tasks)
        passed = time.monotonic() - self._started
        rate = max(done - sum(len(other.recalled) for other in self.tasks), 0) / passed if passed else 0.0
        ends = [(total - done) / rate] if rate else []
        left = self.left
        return Overview(done, total, rate, min([*ends, *([] if left is None else [max(left, 0.0)])], default=None), task.title, state)

    def _recall(self) -> None:
        """Each task's trials in the log, in order."""
        if not Path(self.job.log).is_dir():
            return
        found: dict[Study, list[Trial]] = {}
        for trial in Log(self.job.log):
            study = study_of(trial)
            if study in self.studies and trial.status != "infra":
                found.setdefault(study, []).append(trial)
        for study, trials in found.items():
            self.studies[study].recalled = trials

    def _plan(self) -> JobPlan:
        """What the job sets out to do, for `status`."""
        tasks = tuple(
            JobTask(title=task.title, study=study, trials=task.spec.trials, weight=task.spec.weight) for study, task in self.studies.items()
        )
        return JobPlan(file=str(self.job.path), pid=os.getpid(), budget=self.job.budget, spent=round(self._spent, 3), tasks=tasks)

    def _record(self, kind: str, **fields: Any) -> JsonObject:
        shared = {"id": uuid.uuid4().hex, "run": self._run, "time_unix": round(time.time(), 3), "machine": host.machine()}
        return {"kind": kind, **shared, "software": host.software(), **fields}


def _programs(job: Job, spec: TaskSpec) -> Iterator[tuple[str, Any]]:
    """The programs of a spec: one, or those of a function that returns a dict of kernels."""
    try:
        name, outputs = operators.program(spec.operator, spec.shape, spec.dtype)
    except TensorlangError as error:
        raise TuningError(f"{job.path}: {spec.place}: {error}") from None
    if isinstance(outputs, Mapping):
        yield from ((f"{name}.{kernel}", made) for kernel, made in outputs.items())
    else:
        yield name, outputs


def _own_log(job: Job) -> Log:
    """The job's own file. Raises `LogError` if it cannot be made."""
    path = Path(job.log) / f"job-{job.path.stem}.jsonl"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogError(f"cannot make the folder of logs {job.log}: {error.strerror}") from None
    return Log(path)
