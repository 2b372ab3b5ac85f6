"""A trial as far as look-ups and tables need it: read in a fifth of the time, the rest of its line only on demand.

A folder of logs has a hundred thousand trials, of which a database serves a handful and a table shows sums. So of a line that is a trial
as this version writes them only what it says of itself is decoded, and checked as strictly as `Trial` checks it; what the lines of a
study share is decoded once. Any other line goes the long way (`RecordParser`), which also finds the words for what is wrong with it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import SCHEMA, Number, RecordParser, Trial, from_line, moment, whole
from tensorlang.autotune.log.status import Status
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.system.files import opened

_OWN: Final = re.compile(rb'\{"v":\d+(?:,"(?:id|run)":"[^"\\]*"|,"time_unix":[-+.\deE]+)*,(?="task":)')
_TRIAL: Final = b',"kind":"trial",'
_REMEMBERED: Final = 64
_Whole: TypeAlias = int | bool

Study: TypeAlias = tuple[str, str, int, str]
"""Records that compete: fingerprints of program and target, threads, cache policy."""

StudyAtDims: TypeAlias = tuple[Study, tuple[tuple[str, int], ...]]
"""A study at the values of its dims, by name."""


class _Shared(Struct):
    """What the lines of a study have in common, as far as it is looked at."""

    task: JsonObject
    target: JsonObject
    threads: _Whole
    cache: str
    study: StudyAtDims | None = None


class _Own(Struct, gc=False):
    """What a trial says of itself, each field as `Trial` has it; those that stand in the shared part must not stand here as well."""

    v: int
    id: str
    kind: str
    seq: _Whole
    config: Raw
    status: Status
    samples: tuple[Number, ...]
    median: Number | None
    mad: Number | None
    schedule: str | None
    source: str
    censored: Raw
    compile_s: Number
    run_s: Number
    wall_s: Number
    error: Raw | None
    quality: Quality | None = None
    time_unix: Number | None = None
    run: str | None = None
    clock: JsonObject | None = None
    task: Raw | UnsetType = UNSET
    target: Raw | UnsetType = UNSET
    threads: Raw | UnsetType = UNSET
    cache: Raw | UnsetType = UNSET

    @property
    def plain(self) -> bool:
        """Are its configuration and its error objects, as far as it has one?"""
        error = b"n" if self.error is None else bytes(self.error)
        return bytes(self.config)[:1] == b"{" and error[:1] in b"{n"


_DECODER: Final = msgspec.json.Decoder(_Own)


@dataclass(slots=True, eq=False)
class Glimpse:
    """A trial that was not read to its end; the attributes are those of `Trial`, and `at` is where its line stands."""

    id: str
    seq: int
    status: str
    time: float | None
    source: str
    wall_s: float
    time_unix: float | None
    run: str | None
    shared: _Shared
    clock: JsonObject | None = None
    at: LineAt | None = None

    @classmethod
    def of(cls, trial: Trial) -> Glimpse:
        """As much of a trial."""
        fields = trial.fields
        shared = _Shared(trial.task, trial.target, trial.threads, trial.cache, study_at(trial))
        when, run = moment(fields, math.nan), fields.get("run")
        return cls(
            trial.id, trial.seq, trial.status, trial.time, trial.source, trial.wall_s, None if math.isnan(when) else when,
            run if isinstance(run, str) else None, shared, fields.get("clock"),
        )  # fmt: skip

    @property
    def study(self) -> StudyAtDims | None:
        """The study that it belongs to; None for a record that does not say."""
        return self.shared.study

    @property
    def task(self) -> JsonObject:
        """What the record says of its program."""
        return self.shared.task

    @property
    def target(self) -> JsonObject:
        """What it says of its target."""
        return self.shared.target

    @property
    def threads(self) -> int:
        """The number of threads."""
        return self.shared.threads

    @property
    def cache(self) -> str:
        """The cache policy."""
        return self.shared.cache

    @property
    def fields(self) -> JsonObject:
        """When it was written and by which run, as a record has it."""
        return {"time_unix": self.time_unix, "run": self.run, "clock": self.clock}

    @property
    def why(self) -> str:
        """The error as one line, read from the log."""
        try:
            return self.trial().why
        except ValueError as gone:
            return str(gone)

    def trial(self) -> Trial:
        """The whole trial. Raises `ValueError` if its line is not there any more."""
        line = None if self.at is None else self.at.line()
        if line is None:
            raise ValueError(f"the record {self.id} cannot be read any more")
        return Trial.of(from_line(line))


def study_of(trial: Trial | Glimpse | _Shared) -> Study | None:
    """The study that a trial belongs to; None for a record that does not say."""
    program, target = trial.task.get("fingerprint"), trial.target.get("fingerprint")
    return (program, target, trial.threads, trial.cache) if isinstance(program, str) and isinstance(target, str) else None


def dims_of(trial: Trial | Glimpse | _Shared) -> dict[str, int]:
    """The values at which extents known only at run time were measured."""
    dims = trial.task.get("dims")
    return {str(name): value for name, value in dims.items() if isinstance(value, int)} if isinstance(dims, dict) else {}


def study_at(trial: Trial | _Shared) -> StudyAtDims | None:
    """The study of a trial and the values of its dims; None for a record that does not say."""
    study = study_of(trial)
    return None if study is None else (study, tuple(sorted(dims_of(trial).items())))


class LineAt(NamedTuple):
    """Where a record stands."""

    path: Path
    offset: int
    length: int

    def line(self) -> bytes | None:
        """The line there; None if it cannot be read any more."""
        try:
            with opened(self.path) as file:
                file.seek(self.offset)
                return file.read(self.length)
        except OSError:
            return None


@dataclass(slots=True)
class GlimpseParser:
    """Reads lines: valid trials of this schema as `Glimpse`, all others as `RecordParser` does, and with its errors."""

    otherwise: RecordParser = field(default_factory=RecordParser)
    _shared: dict[bytes, _Shared] = field(default_factory=dict)

    def __call__(self, line: bytes) -> Glimpse | JsonObject:
        """The record on a line. Raises `ValueError` where there is none."""
        own = _OWN.match(line)
        stop = line.find(_TRIAL, own.end()) if own else -1
        if own is None or stop < 0 or not line.isascii():
            return self.otherwise(line)
        body = whole(line)
        start = own.end()
        try:
            shared = self._read(body[start:stop])
            said = _DECODER.decode(b"%b%b}" % (body[:start], body[stop + 1 :]))
        except (msgspec.MsgspecError, ValueError):
            return self.otherwise(line)
        twice = not (said.task is said.target is said.threads is said.cache is UNSET)
        if said.v != SCHEMA or twice or not said.plain:
            return self.otherwise(line)
        time = None
        if said.status == "ok":
            time = float(min(said.samples, default=0.0))
            if time <= 0:
                return self.otherwise(line)
        return Glimpse(said.id, said.seq, said.status, time, said.source, float(said.wall_s), said.time_unix, said.run, shared, said.clock)

    def _read(self, piece: bytes) -> _Shared:
        known = self._shared.get(piece)
        if known is None:
            fields: Any = msgspec.json.decode(b"{%b}" % piece)
            known = msgspec.convert({**fields, "study": None}, _Shared)
            known.study = study_at(known)
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            self._shared[piece] = known
        return known
