"""A batch of tasks, run: time is given in slices to the task that is expected to gain most by it (see `allocation`).

The folder of logs is the checkpoint. The same job run again takes over what the logs have, counts the time of the runs before against its
budget as it counts their trials against `trials`, and measures what is missing; where nothing is, it writes and measures nothing. A task
that fails is said so in the summary and does not stop the others. Into the folder goes one file of the job's own, which says what it set
out to do, what befell its tasks and how it ended (see `history`), so that `status` can tell how far it is from the logs alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tensorlang.autotune.jobs.allocation import FIRST, choose, slice_of
from tensorlang.autotune.jobs.batch_task import BatchTask
from tensorlang.autotune.jobs.history import History
from tensorlang.autotune.jobs.jobfile import Job, TaskSpec
from tensorlang.autotune.jobs.plan import Progress
from tensorlang.autotune.log.clock import clock
from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import JobPlan, JobTask, TaskEvent
from tensorlang.autotune.log.writer import WriterLock, this_process
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.definitions import LIMIT_S, program
from tensorlang.autotune.workers.limited import LimitedProcess, LimitError
from tensorlang.errors import LogError, TensorlangError, TuningError
from tensorlang.system import files
from tensorlang.system.memory import memory

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
    """A job made ready; `retry`: tasks that were left out before are tried again.

    A task that takes more than it may have fails alone. Raises `TuningError` that names any other task which cannot be tuned, before
    anything is measured.
    """

    def __init__(self, job: Job, *, retry: bool = False) -> None:
        self.job = job
        self._retry = retry
        self.history = History.of(Log(_own_path(job)))
        self._started = time.monotonic()  # making tasks ready counts
        with LimitedProcess(memory()) as process:
            self.tasks = [made for spec in job.specs for made in self._made(spec, process)]
        self.studies: dict[Study, BatchTask] = {}
        for task in self.tasks:
            if task.failed:
                continue
            try:
                study = task.open()
            except LogError:
                raise
            except TensorlangError as error:
                raise TuningError(f"{job.path}: {task.spec.place}: {error}") from None
            task.study = study
            if (twin := self.studies.setdefault(study, task)) is not task:
                raise TuningError(f"{job.path}: {task.spec.place} is the same program as {twin.spec.place}: {task.title}; remove one")
        self._recall()
        self._run = uuid.uuid4().hex
        self._own = Log(_own_path(job))
        self.measured = False
        """Was anything measured, or tried, in this run?"""

    @property
    def left(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return None if self.job.budget is None else self.job.budget - self._spent - (time.monotonic() - self._started)

    @property
    def _spent(self) -> float:
        """Seconds of the runs before this one; of one that was killed, those of its trials."""
        return max(self.history.spent, sum(trial.wall_s for task in self.tasks for trial in task.recalled))

    @property
    def finished(self) -> bool:
        """Is there nothing left to measure, within the same budget?"""
        over = self.history.used_up(self.job.budget, set(self.studies))
        return not any((task.lasting and not task.told) or (task.open_to_more and not (over and task.settled)) for task in self.tasks)

    def run(self, tell: Callable[[Overview], None]) -> None:
        """Search slice by slice, then measure the finalists of every task again; nothing of it where the job is finished.

        Raises `LogError` if the folder cannot be written, `LogBusyError` where the same job is being run.
        """
        if self.finished:
            self._conclude(tell)
            return
        own = _own_log(self.job)
        with WriterLock(own.path):
            self._own = own
            self.history = History.of(own)  # another run may have ended since
            self._recall()
            self.measured = True
            own.append(self._record("run_start", job=self._plan().to_json()))
            reason = "failed"
            for task in self.tasks:
                if task.lasting and not task.told:
                    self._tell_of(task, "failed")
            try:
                reason = self._search(tell)
                self._conclude(tell)
            except KeyboardInterrupt:
                reason = "interrupted"
                raise
            finally:
                for task in self.tasks:
                    task.close(reason)
                own.append(self._record("run_end", reason=reason, wall_s=round(time.monotonic() - self._started, 3)))

    def _conclude(self, tell: Callable[[Overview], None]) -> None:
        """Measure the finalists of each task again, in its share of the time that is left."""
        for place, task in enumerate(self.tasks):
            left = self.left
            share = None if left is None else max(left, 0.0) / (len(self.tasks) - place)
            task.conclude(self._teller(task, tell), share)

    def _search(self, tell: Callable[[Overview], None]) -> str:
        former: BatchTask | None = None
        while (task := self._next()) is not None:
            left = self.left if len(task.trials) < FIRST else self._searchable()  # the warm-up goes before the final measurements
            if left is not None and left <= 0:
                return "budget"
            if former is not None and former is not task:
                former.rest()
            former = task
            first = not task.begun
            if first:
                self._tell_of(task, "begun")
            slice_s = SLICE_S if left is None else max(LEAST_S, min(SLICE_S, left / (4 * len(self.tasks))))
            task.advance(slice_of(task.curve(), slice_s), left, self._teller(task, tell))
            if task.lasting:
                self._tell_of(task, "failed")
            elif first:
                self._tell_of(task, "survived")
            if not task.left:
                task.conclude(self._teller(task, tell), self.left)
        return "trials"

    def _tell_of(self, task: BatchTask, event: Literal["begun", "survived", "failed"]) -> None:
        """Write down what befalls a task, so that the next run knows."""
        assert task.study is not None, "what cannot be defined has a name too"
        task.told = event == "failed"
        limits = (memory(), task.timeout) if event == "failed" else (0, 0)
        told = TaskEvent(study=task.study, event=event, why=task.failed if event == "failed" else "", limits=limits).to_json()
        self._own.append(self._record("task", **{name: value for name, value in told.items() if name != "run"}))

    def _next(self) -> BatchTask | None:
        """The task that gets the next slice: those that may have killed the job come last."""
        for suspect in (False, True):
            tasks = [task for task in self.tasks if task.suspect == suspect]
            if (place := choose([task.curve() for task in tasks])) is not None:
                return tasks[place]
        return None

    def _made(self, spec: TaskSpec, process: LimitedProcess) -> Iterator[BatchTask]:
        """The tasks of a spec: one, or those of a function that returns a dict of kernels; one that failed where that takes too much."""
        job, limit_s = self.job, spec.timeout or LIMIT_S
        study, name = _undefined(spec), spec.operator.rpartition(":")[2]
        if not self._retry and (why := self.history.why_left_out(study, memory(), limit_s)) is not None:
            yield BatchTask(spec, name, None, job, failed=why, study=study)
            return
        try:
            name, outputs = program(spec.operator, spec.shape, spec.dtype, limit_s=limit_s, process=process)
        except LimitError as error:
            yield BatchTask(spec, name, None, job, failed=str(error).splitlines()[0], lasting=True, study=study, timeout=limit_s)
            return
        except TensorlangError as error:
            raise TuningError(f"{job.path}: {spec.place}: {error}") from None
        if isinstance(outputs, Mapping):
            yield from (BatchTask(spec, f"{name}.{kernel}", made, job) for kernel, made in outputs.items())
        else:
            yield BatchTask(spec, name, outputs, job)

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
        """Each task's trials in the log, in order, and whether it is to be left out."""
        found: dict[Study, list[Trial]] = {}
        for trial in Log(self.job.log) if Path(self.job.log).is_dir() else ():
            study = study_of(trial)
            if study in self.studies and trial.status != "infra":
                found.setdefault(study, []).append(trial)
        for study, trials in found.items():
            self.studies[study].recalled = trials
        for study, task in self.studies.items():
            task.suspect = self.history.strikes[study] > 0
            why = None if self._retry else self.history.why_left_out(study, memory(), task.timeout)
            task.failed = task.failed or why or ""

    def _plan(self) -> JobPlan:
        """What the job sets out to do, for `status`."""
        tasks = tuple(
            JobTask(title=task.title, study=study, trials=task.spec.trials, weight=task.spec.weight) for study, task in self.studies.items()
        )
        return JobPlan(
            file=str(self.job.path),
            pid=os.getpid(),
            writer=this_process(),
            budget=self.job.budget,
            spent=round(self._spent, 3),
            tasks=tasks,
        )

    def _record(self, kind: str, **fields: Any) -> JsonObject:
        shared = {"id": uuid.uuid4().hex, "run": self._run, "time_unix": round(time.time(), 3), "machine": host.machine()}
        return {"kind": kind, **shared, "software": host.software(), **fields, "clock": clock()}


def _undefined(spec: TaskSpec) -> Study:
    """What a task is known by whose definition takes too much: what was asked for, and the file as it is."""
    told = "\n".join(map(repr, (spec.operator, sorted(spec.shape.items()), spec.dtype))).encode()
    with contextlib.suppress(OSError):
        told += files.contents(spec.operator.rpartition(":")[0])
    return hashlib.sha256(told).hexdigest(), "undefined", 0, ""


def _own_path(job: Job) -> Path:
    return Path(job.log) / f"job-{job.path.stem}.jsonl"


def _own_log(job: Job) -> Log:
    """The job's own file. Raises `LogError` if it cannot be made."""
    path = _own_path(job)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogError(f"cannot make the folder of logs {job.log}: {error.strerror}") from None
    return Log(path)
