"""What goes on in a log: who tunes what, since when, how fast, until when, and what was found last.

All of it from the log alone, so it can be asked anywhere the log can be read: on the login node of a cluster, from another container.
A run that has started and not ended is running or was killed; which of the two its process tells, where that can be seen from here, else
the lock beside its log (see `writer`), and where there is neither its last sign of life. Ages hold when the clock was set (see `clock`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from tensorlang.autotune.log.clock import Now
from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.fixed_operands import program_of
from tensorlang.autotune.log.glimpse import Glimpse
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import JobPlan, RunStart
from tensorlang.autotune.log.writer import SILENT_S, LockState, Owner, State, holder
from tensorlang.autotune.reporting.display import clock, duration, plain, shape_of

AHEAD_S: Final = 5.0
"""Seconds by which clocks of hosts may differ without a word."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a record says that a run or a job set out to do, each value checked: a log can be anyone's.

    `tasks` are the studies with their titles and numbers of trials; `file` is None for a run. Times are
    seconds, `age` those since it began.
    """

    title: str
    file: str | None
    study: Study | None
    tasks: Mapping[Study, tuple[str, int]]
    age: float
    host: str
    pid: int | None
    writer: Owner | None
    budget: float | None
    points: float | None

    @classmethod
    def of(cls, record: JsonObject, now: Now) -> Start | None:
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
            now.age(record),
            str(machine.get("host") if isinstance(machine, dict) else None),
            about.pid,
            about.writer,
            None if about.budget is None else about.budget - spent,
            about.points if isinstance(about, RunStart) else None,
        )

    def same(self, other: Start) -> bool:
        """Do both stand for the same work?"""
        return self.file == other.file if other.file is not None else other.study is not None and self.study == other.study


@dataclass(frozen=True, slots=True)
class Activity:
    """A run or a job that has not ended; `now` is the task of the last trial.

    Times are seconds, `age` those since it began, `silence` those since its last sign of life, negative by a clock that is ahead of ours.
    `state` is what its lock and its process tell.
    """

    title: str
    who: str
    age: float
    silence: float
    state: State
    done: int
    total: int
    rate: float
    eta: float | None
    now: str
    found: str

    @property
    def lives(self) -> bool:
        """Does it go on, as far as can be told?"""
        return self.state == "alive" or (self.state == "unknown" and self.silence <= SILENT_S)

    def lines(self) -> list[str]:
        """As two or three lines of text."""
        sign = f"last sign of life {clock(max(self.silence, 0.0))} ago"
        if min(self.silence, self.age) < -AHEAD_S:
            sign += f", by a clock that is {clock(-min(self.silence, self.age))} ahead"
        state = {
            "alive": f"running, {sign}",
            "dead": f"dead, {sign}; the same command goes on from there",
            "unknown": sign if self.lives else f"silent for {clock(self.silence)}: killed?",
        }[self.state]
        eta = "" if self.eta is None or not self.lives else f", about {clock(self.eta)} left"
        first = f"{self.title} {self.who}, since {clock(max(self.age, 0.0))}, {state}"
        second = f"  {self.done} of {self.total} trials, {self.rate:.2g} trials/s{eta}" + (f"; now {self.now}" if self.now else "")
        return [first, second, *([f"  last improvement: {self.found}"] if self.found else [])]


@dataclass(slots=True)
class _ActivityReader:
    """Who has begun and not ended, by the records of a log in order of time within each file; then the trials of these."""

    now: Now
    points: dict[Study, float] = field(default_factory=dict)
    open: dict[str, Start] = field(default_factory=dict)
    trials: list[tuple[float, Study, Trial | Glimpse]] = field(default_factory=list)
    """With their ages."""

    def read(self, records: Sequence[Trial | Glimpse | JsonObject]) -> None:
        """Take all of them: most trials are of work that has ended."""
        for record in records:
            if not isinstance(record, Glimpse | Trial):
                self.take(record)
        wanted = {study for start in self.open.values() for study in start.tasks}
        for record in records if wanted else ():
            if isinstance(record, Glimpse | Trial) and (study := study_of(record)) in wanted:
                self.trials.append((self.now.age(record.fields), study, record))
        self.trials.sort(key=lambda entry: -entry[0])

    def take(self, record: JsonObject) -> None:
        """A record of a run or a job."""
        if record["kind"] == "run_end":
            self.open.pop(str(record.get("run")), None)
            return
        if record["kind"] == "final" and not self.open:
            return
        match record["kind"], Start.of(record, self.now):
            case "run_start", Start() as start:
                self._drop(start)  # it was killed, and has been taken up again
                self.open[str(record.get("run"))] = start
                if start.study is not None and start.points is not None:
                    self.points[start.study] = start.points
            case "final", Start() as start:
                self._drop(start)

    def _drop(self, start: Start) -> None:
        for run in [run for run, other in self.open.items() if other.same(start)]:
            del self.open[run]


def activities(log: Log, now: Now, records: Iterable[Trial | Glimpse | JsonObject] | None = None) -> list[Activity]:
    """The runs and jobs of a log that have not ended, jobs first; `records` are its own, where they have been read.

    Raises `LogError` if it cannot be read.
    """
    reader = _ActivityReader(now)
    reader.read(list(log.glimpses() if records is None else records))
    held = [found for path in log.files() if (found := holder(path)) is not None]
    jobs = [start for start in reader.open.values() if start.file is not None]
    owned = {study for start in jobs for study in start.tasks}
    runs = [start for start in reader.open.values() if start.file is None and start.study not in owned]
    return [_activity(reader, start, held) for start in (*jobs, *runs)]


def show(console: Console, log: Log, now: Callable[[], Now] = Now, records: Iterable[Trial | Glimpse | JsonObject] | None = None) -> bool:
    """Print what goes on; whether anything does."""
    found = activities(log, now(), records)
    for activity in found:
        for line in activity.lines():
            plain(console, line)
    return bool(found)


def _state(start: Start, held: list[LockState]) -> State:
    """Does the process live that set out? A lock tells of one elsewhere; one that says whose it was and has no lock any more is gone."""
    writer = start.writer
    if writer is None:
        return "unknown"
    if writer.is_here:
        return writer.state()
    same = [found for found in held if (found.owner.host, found.owner.pid, found.owner.start) == (writer.host, writer.pid, writer.start)]
    return same[0].state if same else "dead"


def _activity(reader: _ActivityReader, start: Start, held: list[LockState]) -> Activity:
    age, wanted = start.age, start.tasks
    silence, now, found, own = age, "", "", 0
    counts: Counter[Study] = Counter()
    best: dict[Study, float] = {}
    default: dict[Study, float] = {}
    for when, study, trial in reader.trials:
        if study not in wanted:
            continue
        counts[study] += 1
        name = wanted[study][0]
        if when <= age:
            silence, now, own = min(silence, when), name, own + 1
        if trial.time is None:
            continue
        if trial.source == "default":
            default.setdefault(study, trial.time)
        if trial.time < best.get(study, float("inf")):
            best[study] = trial.time
            gain = f", {default[study] / trial.time:.2f}x default" if study in default else ""
            found = f"{name} {duration(trial.time)}{gain} (trial {counts[study]}), {clock(max(when, 0.0))} ago"
    total = sum(max(counts[study], round(min(trials, reader.points.get(study, trials)))) for study, (_, trials) in wanted.items())
    done = sum(counts.values())
    rate = own / (age - silence) if age > silence else 0.0
    ends = [(total - done) / rate] if rate else []
    ends += [] if start.budget is None else [max(start.budget - max(age, 0.0), 0.0)]
    who = f"on {start.host}" + ("" if start.pid is None else f" (process {start.pid})")
    return Activity(start.title, who, age, silence, _state(start, held), done, total, rate, min(ends, default=None), now, found)


def _study(record: JsonObject) -> Study | None:
    """The study of a run."""
    task, target = record.get("task"), record.get("target")
    if not isinstance(task, dict) or not isinstance(target, dict):
        return None
    return str(program_of(task)), str(target.get("fingerprint")), _count(record.get("threads") or 1), str(record.get("cache"))


def _count(value: object) -> int:
    """A number of trials or threads; 0 for what is none."""
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0
