"""A trial as far as look-ups and tables need it: read in a fifth of the time, the rest of its line only on demand.

A folder of logs has a hundred thousand trials, of which a database serves a handful and a table shows sums. So of a line that is a trial
as this version writes them only what it says of itself is decoded, and checked as strictly as `Trial` checks it; what the lines of a
study share is decoded once. Any other line goes the long way (`RecordParser`), which also finds the words for what is wrong with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tensorlang.autotune.log.fixed_operands import program_of
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import HEAD, SCHEMA, Number, RecordParser, Trial, from_line, moment, whole
from tensorlang.autotune.log.status import Status
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.system.files import opened

_TRIAL: Final = b',"kind":"trial",'
_REMEMBERED: Final = 1024
"""Studies whose shared part is kept: they stand in more than one file, and are asked for again."""
_Whole: TypeAlias = int | bool

Study: TypeAlias = tuple[str, str, int, str]
"""Records that compete: what names the program (`identity`) and the target, threads, cache policy."""

StudyAtDims: TypeAlias = tuple[Study, tuple[tuple[str, int], ...]]
"""A study at the values of its dims, by name."""


class Shared(Struct):
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
    config: JsonObject
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
    error: JsonObject | None
    quality: Quality | None = None
    time_unix: Number | None = None
    run: str | None = None
    clock: JsonObject | None = None
    task: Raw | UnsetType = UNSET
    target: Raw | UnsetType = UNSET
    threads: Raw | UnsetType = UNSET
    cache: Raw | UnsetType = UNSET


_DECODER: Final = msgspec.json.Decoder(_Own)


class Glimpse(Struct, eq=False, gc=False):
    """A trial that was not read to its end; the attributes are those of `Trial`. `path`, `offset` and `length` say where its line stands.

    The collector of garbage is not told of it: it is one of very many, and holds nothing that holds it.
    """

    id: str
    seq: int
    status: str
    time: float | None
    source: str
    wall_s: float
    time_unix: float | None
    run: str | None
    shared: Shared
    clock: JsonObject | None = None
    path: Path | None = None
    offset: int = 0
    length: int = 0

    @classmethod
    def of(cls, trial: Trial) -> Glimpse:
        """As much of a trial."""
        fields = trial.fields
        shared = Shared(trial.task, trial.target, trial.threads, trial.cache, study_at(trial))
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
        line = None if self.path is None else LineAt(self.path, self.offset, self.length).line()
        if line is None:
            raise ValueError(f"the record {self.id} cannot be read any more")
        return Trial.of(from_line(line))


def study_of(trial: Trial | Glimpse | Shared) -> Study | None:
    """The study that a trial belongs to; None for a record that does not say."""
    if isinstance(trial, Glimpse):
        known = trial.study
        return None if known is None else known[0]
    program, target = program_of(trial.task), trial.target.get("fingerprint")
    return (program, target, trial.threads, trial.cache) if program is not None and isinstance(target, str) else None


def run_of(trial: Trial | Glimpse) -> str:
    """The run that measured a trial, as text."""
    return str(trial.run if isinstance(trial, Glimpse) else trial.fields.get("run"))


def dims_of(trial: Trial | Glimpse | Shared) -> dict[str, int]:
    """The values at which extents known only at run time were measured."""
    dims = trial.task.get("dims")
    return {str(name): value for name, value in dims.items() if isinstance(value, int)} if isinstance(dims, dict) else {}


def study_at(trial: Trial | Shared) -> StudyAtDims | None:
    """The study of a trial and the values of its dims; None for a record that does not say."""
    study = study_of(trial)
    return None if study is None else (study, tuple(sorted(dims_of(trial).items())))


class LineAt(Struct, frozen=True, gc=False):
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
    _last: bytes = b" "
    """What the line before shares with its study, and `_TRIAL`: most lines go on with the same."""
    _last_shared: Shared | None = None

    def __call__(self, line: bytes) -> Glimpse | JsonObject:
        """The record on a line. Raises `ValueError` where there is none."""
        head = HEAD.match(line)
        if head is None or not line.isascii():
            return self.otherwise(line)
        start = head.end()
        if line.startswith(self._last, start):
            stop = start + len(self._last) - len(_TRIAL)
        elif (stop := line.find(_TRIAL, start)) < 0:
            return self.otherwise(line)
        body = whole(line)
        try:
            shared = self._read(body, start, stop)
            said = _DECODER.decode(body[:start] + body[stop + 1 :] + b"}")
        except (msgspec.MsgspecError, ValueError):
            return self.otherwise(line)
        twice = not (said.task is said.target is said.threads is said.cache is UNSET)
        if said.v != SCHEMA or twice:
            return self.otherwise(line)
        time = None
        if said.status == "ok":
            time = float(min(said.samples, default=0.0))
            if time <= 0:
                return self.otherwise(line)
        return Glimpse(said.id, said.seq, said.status, time, said.source, float(said.wall_s), said.time_unix, said.run, shared, said.clock)

    @staticmethod
    def shared_part(line: bytes) -> tuple[int, int]:
        """From where to where the fields stand that the line of a glimpse shares with its study."""
        head = HEAD.match(line)
        start = -1 if head is None else head.end()
        return start, line.find(_TRIAL, start)

    def _read(self, body: bytes, start: int, stop: int) -> Shared:
        """What the line shares, which stands from `start` to `stop`; made once. Raises as `msgspec` does."""
        if self._last_shared is not None and body.startswith(self._last, start):
            return self._last_shared
        piece = body[start:stop]
        known = shared_of(piece)
        self._last, self._last_shared = piece + _TRIAL, known
        return known


@lru_cache(_REMEMBERED)
def shared_of(piece: bytes) -> Shared:
    """What the lines of a study share, from the text of its fields. Raises `msgspec.MsgspecError` or `ValueError`."""
    fields: Any = msgspec.json.decode(b"{%b}" % piece)
    known = msgspec.convert({**fields, "study": None}, Shared)
    known.study = study_at(known)
    return known
