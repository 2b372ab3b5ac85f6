"""What goes on in a log: who tunes what, since when, how fast, until when, and what was found last.

All of it from the log alone, so it can be asked anywhere the log can be read: on the login node of a cluster, from another container.
A run that has started and not ended is running or was killed; which of the two, its last sign of life tells.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rich.console import Console

from tensorlang.autotune.database import Study, study_of
from tensorlang.autotune.display import clock, duration, plain, shape_of
from tensorlang.autotune.log import Log
from tensorlang.autotune.record import Trial

SILENT_S: Final = 300.0
"""Without a sign of life for so long, a run is probably dead: a trial may compile and run, and that is over sooner."""

Record: TypeAlias = dict[str, Any]


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
class _Reader:
    """One pass over a log, in order of time within each file."""

    points: dict[Study, float] = field(default_factory=dict)
    open: dict[str, Record] = field(default_factory=dict)
    trials: list[tuple[float, Study, Trial]] = field(default_factory=list)

    def take(self, record: Trial | Record) -> None:
        """Add a record."""
        if isinstance(record, Trial):
            if (study := study_of(record)) is not None:
                self.trials.append((float(record.fields.get("time_unix") or 0.0), study, record))
        elif record["kind"] == "run_start":
            job, study = record.get("job"), _study(record)
            self._drop(job, study)  # it was killed, and has been taken up again
            self.open[str(record.get("run"))] = record
            if study is not None and isinstance(record.get("points"), int | float):
                self.points[study] = record["points"]
        elif record["kind"] == "run_end":
            self.open.pop(str(record.get("run")), None)
        elif record["kind"] == "final":
            self._drop(None, _study(record))

    def _drop(self, job: Record | None, study: Study | None) -> None:
        for run in [run for run, other in self.open.items() if _same(other, job, study)]:
            del self.open[run]


def activities(log: Log, at: float) -> list[Activity]:
    """The runs and jobs of a log that have not ended, jobs first. Raises `LogError` if it cannot be read."""
    reader = _Reader()
    for record in log.records():
        reader.take(record)
    reader.trials.sort(key=lambda entry: entry[0])
    jobs = [start for start in reader.open.values() if isinstance(start.get("job"), dict)]
    owned = {tuple(task["study"]): task["title"] for start in jobs for task in start["job"]["tasks"]}
    found = [_of_job(reader, start, at) for start in jobs]
    for start in reader.open.values():
        study = _study(start)
        if study is not None and study not in owned:
            title = f"{start['task'].get('op')} {shape_of(start['task'])}".strip()
            wanted = {study: (title, int(start.get("trials") or 0))}
            found.append(_activity(reader, start, at, f"run of {title}", wanted, start.get("pid"), start.get("budget")))
    return found


def show(console: Console, log: Log, now: Callable[[], float] = time.time) -> bool:
    """Print what goes on; whether anything does."""
    at = now()
    found = activities(log, at)
    for activity in found:
        for line in activity.lines(at):
            plain(console, line)
    return bool(found)


def _of_job(reader: _Reader, start: Record, at: float) -> Activity:
    job = start["job"]
    wanted = {tuple(task["study"]): (str(task["title"]), int(task["trials"])) for task in job["tasks"]}
    budget = job.get("budget")
    return _activity(reader, start, at, f"job {job.get('file')}", wanted, job.get("pid"), budget and budget - job.get("spent", 0.0))


def _activity(
    reader: _Reader,
    start: Record,
    at: float,
    title: str,
    wanted: dict[Study, tuple[str, int]],
    pid: int | None,
    budget: float | None,
) -> Activity:
    since = float(start.get("time_unix") or 0.0)
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
    ends += [] if budget is None else [max(budget - (at - since), 0.0)]
    who = f"on {start.get('machine', {}).get('host')}" + ("" if pid is None else f" (process {pid})")
    return Activity(title, who, since, sign, done, total, rate, min(ends, default=None), now, found)


def _study(record: Record) -> Study | None:
    """The study of a run."""
    task, target = record.get("task"), record.get("target")
    if not isinstance(task, dict) or not isinstance(target, dict):
        return None
    return str(task.get("fingerprint")), str(target.get("fingerprint")), int(record.get("threads") or 1), str(record.get("cache"))


def _same(other: Record, job: Record | None, study: Study | None) -> bool:
    """Do both starts stand for the same work?"""
    if isinstance(job, dict):
        known = other.get("job")
        return isinstance(known, dict) and known.get("file") == job.get("file")
    return study is not None and _study(other) == study
