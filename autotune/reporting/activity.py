"""What goes on in a log: who tunes what, since when, how fast, until when, and what was found last.

All of it from the log alone, so it can be asked anywhere the log can be read: on the login node of a cluster, from another container.
A run that has started and not ended is running or was killed; which of the two, its last sign of life tells.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial, moment
from tensorlang.autotune.log.study_records import JobPlan, RunStart
from tensorlang.autotune.reporting.display import clock, duration, plain, shape_of

SILENT_S: Final = 300.0
"""Without a sign of life for so long, a run is probably dead: a trial may compile and run, and that is over sooner."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a record says that a run or a job set out to do, each value checked: a log can be anyone's.

    `tasks` are the studies with their titles and numbers of trials; `file` is None for a run. Times are seconds.
    """

    title: str
    file: str | None
    study: Study | None
    tasks: Mapping[Study, tuple[str, int]]
    since: float
    host: str
    pid: int | None
    budget: float | None
    points: float | None

    @classmethod
    def of(cls, record: JsonObject) -> Start | None:
        """The start in a record; None where it does not say of what, or says what cannot be."""
        job, study, machine = record.get("job"), _study(record), record.get("machine")
        try:
            if isinstance(job, dict):
                about: JobPlan | RunStart = (plan := JobPlan.of(job))
                tasks = {task.study: (task.title, task.trials) for task in plan.tasks}
                title, file, spent = f"job {plan.file}", plan.file, plan.spent or 0.0
            elif study is not None:
                about = RunStart.of(record)
                name = f"{record['task'].get('op')} {shape_of(record['task'])}".strip()
                tasks, title, file, spent = {study: (name, about.trials or 0)}, f"run of {name}", None, 0.0
            else:
                return None
        except ValueError:
            return None
        return cls(
            title,
            file,
            study,
            tasks,
            moment(record, 0.0),
            str(machine.get("host") if isinstance(machine, dict) else None),
            about.pid,
            None if about.budget is None else about.budget - spent,
            about.points if isinstance(about, RunStart) else None,
        )

    def same(self, other: Start) -> bool:
        """Do both stand for the same work?"""
        return self.file == other.file if other.file is not None else other.study is not None and self.study == other.study


@dataclass(frozen=True, slots=True)
class Activity:
    """A run or a job that has not ended. Times are seconds, `since` and `sign` of the epoch; `now` is the task of the last trial."""

    title: str
    who: str
    since: float
    sign: float
    done: int
    total: int
    rate: float
    eta: float | None
    now: str
    found: str

    def lines(self, at: float) -> list[str]:
        """As two or three lines of text, at this time."""
        silence = at - self.sign
        state = f"silent for {clock(silence)}: killed?" if silence > SILENT_S else f"last sign of life {clock(silence)} ago"
        eta = "" if self.eta is None or silence > SILENT_S else f", about {clock(self.eta)} left"
        first = f"{self.title} {self.who}, since {clock(at - self.since)}, {state}"
        second = f"  {self.done} of {self.total} trials, {self.rate:.2g} trials/s{eta}" + (f"; now {self.now}" if self.now else "")
        return [first, second, *([f"  last improvement: {self.found}"] if self.found else [])]


@dataclass(slots=True)
class _ActivityReader:
    """One pass over a log, in order of time within each file."""

    points: dict[Study, float] = field(default_factory=dict)
    open: dict[str, Start] = field(default_factory=dict)
    trials: list[tuple[float, Study, Trial]] = field(default_factory=list)

    def take(self, record: Trial | JsonObject) -> None:
        """Add a record."""
        if isinstance(record, Trial):
            if (study := study_of(record)) is not None:
                self.trials.append((moment(record.fields, 0.0), study, record))
            return
        match record["kind"], Start.of(record):
            case "run_start", Start() as start:
                self._drop(start)  # it was killed, and has been taken up again
                self.open[str(record.get("run"))] = start
                if start.study is not None and start.points is not None:
                    self.points[start.study] = start.points
            case "run_end", _:
                self.open.pop(str(record.get("run")), None)
            case "final", Start() as start:
                self._drop(start)

    def _drop(self, start: Start) -> None:
        for run in [run for run, other in self.open.items() if other.same(start)]:
            del self.open[run]


def activities(log: Log, at: float) -> list[Activity]:
    """The runs and jobs of a log that have not ended, jobs first. Raises `LogError` if it cannot be read."""
    reader = _ActivityReader()
    for record in log.records():
        reader.take(record)
    reader.trials.sort(key=lambda entry: entry[0])
    jobs = [start for start in reader.open.values() if start.file is not None]
    owned = {study for start in jobs for study in start.tasks}
    runs = [start for start in reader.open.values() if start.file is None and start.study not in owned]
    return [_activity(reader, start, at) for start in (*jobs, *runs)]


def show(console: Console, log: Log, now: Callable[[], float] = time.time) -> bool:
    """Print what goes on; whether anything does."""
    at = now()
    found = activities(log, at)
    for activity in found:
        for line in activity.lines(at):
            plain(console, line)
    return bool(found)


def _activity(reader: _ActivityReader, start: Start, at: float) -> Activity:
    since, wanted = start.since, start.tasks
    sign, now, found, own = since, "", "", 0
    counts: Counter[Study] = Counter()
    best: dict[Study, float] = {}
    default: dict[Study, float] = {}
    for when, study, trial in reader.trials:
        if study not in wanted:
            continue
        counts[study] += 1
        name = wanted[study][0]
        if when >= since:
            sign, now, own = max(sign, when), name, own + 1
        if trial.time is None:
            continue
        if trial.source == "default":
            default.setdefault(study, trial.time)
        if trial.time < best.get(study, float("inf")):
            best[study] = trial.time
            gain = f", {default[study] / trial.time:.2f}x default" if study in default else ""
            found = f"{name} {duration(trial.time)}{gain} (trial {counts[study]}), {clock(at - when)} ago"
    total = sum(max(counts[study], round(min(trials, reader.points.get(study, trials)))) for study, (_, trials) in wanted.items())
    done = sum(counts.values())
    rate = own / (sign - since) if sign > since else 0.0
    ends = [(total - done) / rate] if rate else []
    ends += [] if start.budget is None else [max(start.budget - (at - since), 0.0)]
    who = f"on {start.host}" + ("" if start.pid is None else f" (process {start.pid})")
    return Activity(start.title, who, since, sign, done, total, rate, min(ends, default=None), now, found)


def _study(record: JsonObject) -> Study | None:
    """The study of a run."""
    task, target = record.get("task"), record.get("target")
    if not isinstance(task, dict) or not isinstance(target, dict):
        return None
    return str(task.get("fingerprint")), str(target.get("fingerprint")), _count(record.get("threads") or 1), str(record.get("cache"))


def _count(value: object) -> int:
    """A number of trials or threads; 0 for what is none."""
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0
