"""What a log holds beside trials, as checked types: what a run or a job set out to do, how it ended, what its final measurement decided.

Each reads a record of any version and of anyone: what a field says has its type, what is not said has a default, what is said beyond
these fields is left to later versions. Fields are written in the order in which they stand here.
"""

from __future__ import annotations

import sys
from typing import Annotated, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Number
from tensorlang.autotune.log.writer import Owner
from tensorlang.autotune.measurement.host import MachineFields, Software, TargetFields
from tensorlang.autotune.measurement.interval import paired_ratio
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.measurement.slowness import Slow

Seconds: TypeAlias = Annotated[int, Meta(gt=0, lt=1 << 53)] | Annotated[float, Meta(gt=0, le=sys.float_info.max)]
"""A time that was measured."""

NonNegative: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 53)]


class _Record(Struct, frozen=True, kw_only=True):
    """Reads itself from a record."""

    @classmethod
    def of(cls, fields: JsonObject) -> Self:
        """The record as this type. Raises `ValueError` that names the field which is missing or is not what its name says."""
        try:
            return msgspec.convert(fields, cls)
        except msgspec.ValidationError as wrong:
            raise ValueError(f"a malformed {fields.get('kind')}: {wrong}") from None

    def to_json(self) -> JsonObject:
        """As a record has it."""
        fields: JsonObject = msgspec.to_builtins(self)
        return fields


class StrategyFields(_Record, frozen=True, kw_only=True):
    """Which strategy made the space, and the fingerprint of the space."""

    name: str
    space: str


class StudyFields(_Record, frozen=True, kw_only=True):
    """What the records of a run have in common; `task` holds the program (`Task.to_json`)."""

    task: JsonObject
    strategy: StrategyFields
    target: TargetFields
    threads: int
    cache: str
    policy: Policy
    machine: MachineFields
    software: Software


class FinalistRecord(_Record, frozen=True, kw_only=True):
    """A trial in the final measurement: its samples in seconds, `runs` of them from each process in turn, the least, its schedule."""

    id: str
    config: JsonObject
    samples: tuple[Seconds, ...]
    runs: tuple[NonNegative, ...] = ()
    least: Seconds | None = msgspec.field(default=None, name="min")
    schedule: str = ""

    @property
    def by_process(self) -> tuple[int, ...]:
        """The number of samples from each process; all from one where the record does not say, or says what cannot be."""
        return self.runs if sum(self.runs) == len(self.samples) and all(self.runs) else (len(self.samples),)


class FailedFinalist(_Record, frozen=True, kw_only=True):
    """A trial that failed when it was measured again."""

    id: str
    status: str


class Decision(_Record, frozen=True, kw_only=True):
    """The outcome of a final measurement after so many trials. `winner` and `default` are trials by id; times are seconds.

    `speedup` is the paired ratio of the default's time to the winner's; None where there is no valid default. `quality` says how far the
    verdict can be trusted; None in a record that is older than this field (see `verdict`).
    """

    trials: NonNegative = 0
    finalists: tuple[FinalistRecord, ...] = ()
    failed: tuple[FailedFinalist, ...] = ()
    winner: str
    time: Seconds
    default: str | None = None
    default_time: Seconds | None = None
    speedup: Seconds | None = None
    speedup_interval: tuple[Seconds, Seconds] | None = None
    quality: Quality | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the speed-up, as written down or of the samples; None where neither tells."""
        if self.speedup_interval is not None:
            return self.speedup_interval
        base, won = self.finalist(self.default), self.finalist(self.winner)
        if base is None or won is None or not len(base.samples) == len(won.samples) > 1:
            return None
        found = paired_ratio(base.samples, won.samples, won.by_process)
        return found.low, found.high

    @property
    def verdict(self) -> Quality | None:
        """The quality; of a record that does not say, "undecided" where a candidate won whose interval holds 1, and else None."""
        if self.quality is not None or self.default_stands or (interval := self.interval) is None:
            return self.quality
        return Quality.UNDECIDED if interval[0] <= 1 else None

    @property
    def default_stands(self) -> bool:
        """Did the default win?"""
        return self.winner == self.default

    def finalist(self, trial: str | None) -> FinalistRecord | None:
        """What was measured of a trial."""
        return next((finalist for finalist in self.finalists if finalist.id == trial), None)


class FinalRecord(Decision, frozen=True, kw_only=True):
    """A decision as a log has it: when it was written, and with which software it was measured."""

    time_unix: Number | None = None
    software: Software = {}


class JobTask(_Record, frozen=True, kw_only=True):
    """A task of a job; `study` is its program, target, threads and cache policy."""

    title: str
    study: tuple[str, str, NonNegative, str]
    trials: NonNegative
    weight: Number = 1.0


class JobPlan(_Record, frozen=True, kw_only=True):
    """What a job sets out to do: the file that says so, and the seconds that it may take and that runs before it took."""

    file: str
    pid: int | None = None
    writer: Owner | None = None
    budget: Number | None = None
    spent: Number | None = None
    tasks: tuple[JobTask, ...] = ()


class TaskEvent(_Record, frozen=True, kw_only=True):
    """What befell a task of a job in a run: before its first steps, after these, or where it takes more than it may have.

    `limits` are the bytes of memory and the seconds within which it failed: with more of either it may be tried again.
    """

    run: str = ""
    study: tuple[str, str, NonNegative, str]
    event: Literal["begun", "survived", "failed"]
    why: str = ""
    limits: tuple[Number, Number] = (0, 0)


class RunPlan(_Record, frozen=True, kw_only=True):
    """What a run sets out to do; `points` are the feasible points of its space, `budget` and `timeout` seconds."""

    trials: NonNegative | None = None
    seed: int | None = None
    search: str | None = None
    pid: int | None = None
    budget: Number | None = None
    timeout: Number | None = None
    workers: int | None = None
    points: Number | None = None
    writer: Owner | None = None


class RunStart(RunPlan, frozen=True, kw_only=True):
    """A plan as a log has it."""

    run: str = "None"
    time_unix: Number | None = None


class Noise(_Record, frozen=True, kw_only=True):
    """The median relative spread of samples, and the stretches in which the machine was slower than usual."""

    spread: Number | None = None
    slow: tuple[Slow, ...] = ()


class RunEnd(_Record, frozen=True, kw_only=True):
    """Why a run ended, its seconds and trials, the share of its time in which nothing was built or measured, and the noise meanwhile."""

    reason: str
    wall_s: Number | None = None
    measured: NonNegative | None = None
    overhead: Number | None = None
    noise: Noise | None = None
