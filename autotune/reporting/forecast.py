"""`autotune job --check`: what a job would take, task by task, before anything is measured.

The time of a trial is that of the trials in the log; where there is none, that of compiling one kernel and sampling it as often as the
policy says, at the time that the cost model predicts for the default schedule. Nobody knows before how far a search has to go: trials are
counted in full, and a budget ends them before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from tensorlang.autotune.jobs.allocation import FIRST
from tensorlang.autotune.jobs.batch import Batch
from tensorlang.autotune.jobs.batch_task import BatchTask
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.reporting.display import clock, plain, plural
from tensorlang.autotune.workers.footprint import in_words
from tensorlang.codegen.compilation import default_schedule
from tensorlang.codegen.target import target
from tensorlang.errors import TensorlangError
from tensorlang.system.memory import tightest

COMPILING_S: Final = 0.7
"""Assumed of a trial without an example: a kernel compiled, sent and checked."""
FINAL_S: Final = 6.0
"""Assumed of the final measurement of a task: its finalists compiled again, and processes started."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a task would take: points of its space, trials that would be measured, bytes, seconds; why it is left out, if it is."""

    title: str
    points: int | None
    trials: int
    memory: int | None
    seconds: float
    left_out: str

    @classmethod
    def of(cls, task: BatchTask) -> Forecast:
        """That of a task."""
        points, footprint = task.points, task.memory
        trials = task.left if points is None else min(task.left, max(points - len(task.trials), 0))
        each = _trial_s(task)
        seconds = trials * each + (FINAL_S if trials or not task.settled else 0.0)
        return cls(task.title, points, trials, None if footprint is None else footprint.peak, seconds, task.failed)

    @property
    def status(self) -> str:
        """What becomes of it, in a few words."""
        if self.left_out:
            return f"left out: {self.left_out}"
        return "would run" if self.seconds else "done"


def show(console: Console, batch: Batch) -> bool:
    """Print the table and what bounds the job; would every task run, or is it done?"""
    found = [Forecast.of(task) for task in batch.tasks]
    table = Table(title=f"{batch.job.path.name}: nothing was measured")
    for column in ("task", "points", "trials to go", "memory", "time", "status"):
        table.add_column(column, justify="left" if column in ("task", "status") else "right", overflow="fold")
    for task in found:
        points = "?" if task.points is None else f"{task.points:,}"
        memory = "?" if task.memory is None else in_words(task.memory)
        table.add_row(task.title, points, f"{task.trials:,}", memory, clock(task.seconds) if task.seconds else "-", task.status)
    console.print(table)
    for line in _notes(batch, found):
        plain(console, line)
    return not any(task.left_out for task in found)


def _notes(batch: Batch, found: list[Forecast]) -> list[str]:
    whole = sum(task.seconds for task in found)
    notes = [f"together about {clock(whole)}" if whole else "nothing is left to do"]
    left, begun = batch.left, [task for task in found if task.trials]
    if left is not None and whole:
        notes[0] += f", of a budget with {clock(max(left, 0.0))} left"
        warm_up = sum(min(task.trials, FIRST) * (task.seconds - FINAL_S) / task.trials for task in begun)
        if warm_up > left:
            notes.append(f"the first {FIRST} trials of each task take about {clock(warm_up)}: some tasks will not be begun")
    if (bound := tightest()) is not None:
        notes.append(f"memory: {bound.what} leaves {in_words(bound.free)} of {in_words(bound.size)}")
    if left_out := sum(bool(task.left_out) for task in found):
        notes.append(f"{plural(left_out, 'task')} of {len(found)} left out")
    return notes


def _trial_s(task: BatchTask) -> float:
    if task.trials:
        return median(trial.wall_s for trial in task.trials)
    policy = Policy()
    try:
        machine = target()
        once = 0.0 if task.outputs is None else default_schedule(task.outputs, machine).estimate(machine).seconds
    except TensorlangError:
        once = 0.0
    return COMPILING_S + min(policy.least * max(once, policy.sample_s), policy.total_s + once)
