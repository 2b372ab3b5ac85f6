"""One line of a tuning log: a self-contained JSON object that ends in its own checksum.

Why so: a record that carries its whole task, target and outcome can be concatenated, sorted, merged and read years later without any
other line; the checksum turns a torn, interleaved or edited line into a skipped one instead of a wrong schedule. Nothing is pickled and
no path, module or code is ever taken from a record.

    trial      one candidate: configuration, schedule, status, all samples
    final      the paired re-measurement of the finalists against the default, and the winner
    run_start  run_end                        what a run set out to do, and why and how it ended
    task       a task of a job: it is begun, it survived that, it failed for good

Most of a line says what all lines of a study say. It stands in one piece, from `task` to `software`, so that a
`RecordParser` parses it once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tensorlang.autotune.log.migrate import JsonObject, migrate
from tensorlang.autotune.log.status import STATUSES
from tensorlang.autotune.measurement.interval import DEVIATION
from tensorlang.autotune.measurement.quality import Quality

SCHEMA: Final = 2
KINDS: Final = ("run_start", "trial", "final", "run_end", "task")
SHARED: Final = ("task", "strategy", "target", "threads", "cache", "policy", "machine", "software")
"""What the lines of a study have in common, in the order in which it is written."""

_ORDER: Final = ("id", "run", "time_unix", *SHARED, "kind")
HEAD: Final = re.compile(rb'\{"v":\d+(?:,"(?:id|run)":"[^"\\]*"|,"time_unix":[-+.\deE]+)*,(?="task":)')
"""What a line says of itself before what it shares with its study."""
_TARGET: Final = b',"target":{'
_NEXT: Final = b',"kind":"'
_REMEMBERED: Final = 16
"""Pieces kept by a reader: studies follow each other in a log, and more objects only keep the garbage collector busy."""
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_MARK: Final = b',"sum":"'
_SUM: Final = 16
CHECKSUM: Final = len(_MARK) + _SUM + len(b'"}')
"""Bytes at the end of a line that hold its checksum."""


def to_line(fields: Mapping[str, Any]) -> bytes:
    """The record as one line, checksum and newline included. Raises `ValueError` for NaN, infinity or a value that is not JSON."""
    ordered = {"v": SCHEMA, **{name: fields[name] for name in _ORDER if name in fields}, **fields} | {"v": SCHEMA}
    try:
        body = _dumped(ordered)
    except TypeError as error:
        raise ValueError(f"a record that is not JSON: {error}") from None
    if _SURROGATE.search(body):  # half a character, as undecodable file names have
        body = _dumped(json.loads(json.dumps(ordered, ensure_ascii=False).encode(errors="replace")))
    body = body[:-1]
    return body + _MARK + _digest(body) + b'"}\n'


def _dumped(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode()


class RecordParser:
    """Parses lines. What the lines of a study share is parsed once, and then is the same object in all their records."""

    def __init__(self) -> None:
        self._shared: dict[bytes, JsonObject] = {}

    def __call__(self, line: bytes) -> JsonObject:
        """The record on a line, in the schema of this software.

        Raises `ValueError` with the reason why it is not one of ours, or not whole; `Newer` (a `ValueError`) if it is of a later schema.
        """
        body = whole(line)
        try:
            fields = self._parsed(body)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if not isinstance(fields, dict):
            raise ValueError("not a record of this log")  # noqa: TRY004 - as for any other line
        if _SURROGATE.search(body):
            json.dumps(fields, ensure_ascii=False).encode()
        fields = migrate(fields, SCHEMA)
        if fields.get("kind") not in KINDS:
            raise ValueError("not a record of this log")
        if not isinstance(fields.get("id", ""), str):
            raise ValueError("its id is no text")  # noqa: TRY004 - as for any other line
        return fields

    def _parsed(self, body: bytes) -> Any:
        """The JSON value of `body` and a closing brace; piece by piece where that is the same."""
        own = HEAD.match(body)
        stop = body.find(_NEXT, own.end()) if own else -1
        if own is not None and stop >= 0:
            middle = body.find(_TARGET, own.end(), stop)
            bounds = [own.end(), *([middle + 1] if middle >= 0 else []), stop + 1]
            try:
                pieces = [self._piece(body[start : end - 1]) for start, end in itertools.pairwise(bounds)]
                pieces.append(_decoded(body[: own.end()] + body[stop + 1 :] + b"}"))
            except ValueError:  # the pieces were not where they seemed to be
                pass
            else:
                fields = {name: value for piece in pieces for name, value in piece.items()}
                if len(fields) == sum(map(len, pieces)):
                    return fields
        return _decoded(body + b"}")

    def _piece(self, piece: bytes) -> JsonObject:
        """The members of an object, which are complete in themselves."""
        known = self._shared.get(piece)
        if known is None:
            known = _decoded(b"{%b}" % piece)
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            self._shared[piece] = known
        return known


def from_line(line: bytes) -> JsonObject:
    """The record on a single line. Raises as `RecordParser` does."""
    return RecordParser()(line)


def whole(line: bytes) -> bytes:
    """A line up to its checksum, which is right. Raises `ValueError` with the reason why the line is not whole."""
    line = line.rstrip(b"\r\n")
    body, tail = line[:-CHECKSUM], line[-CHECKSUM:]
    if tail == b'%b%b"}' % (_MARK, _digest(body)) and b"\0" not in body:
        return body
    if not line.strip():
        raise ValueError("blank line")
    if b"\0" in line:
        raise ValueError("NUL bytes")
    if not (tail.startswith(_MARK) and tail.endswith(b'"}')):
        raise ValueError("no checksum: a torn or foreign line")
    raise ValueError("the checksum does not match the line")


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_SUM].encode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_refuse)


def _decoded(text: bytes) -> Any:
    """The value of JSON, as `json` has it; what `msgspec` reads it reads the same, several times as fast. Raises `ValueError`."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError):
        return _JSON.decode(text.decode())


Number: TypeAlias = Annotated[int, Meta(gt=-(1 << 53), lt=1 << 53)] | Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
"""A finite number that a float can hold."""

_Whole: TypeAlias = int | bool
"""`true` counts as 1, as it does in Python and did in every version."""


class _Line(Struct):
    """What a line has to say to be a trial; it may say more, which is kept in `Trial.fields`."""

    id: str
    seq: _Whole
    config: JsonObject
    status: str
    samples: tuple[Number, ...]
    median: Number | None
    mad: Number | None
    schedule: str | None
    source: str
    censored: Any
    compile_s: Number
    run_s: Number
    wall_s: Number
    task: JsonObject
    target: JsonObject
    threads: _Whole
    cache: str
    error: JsonObject | None
    quality: Quality | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured or failed candidate, as the log has it. `time` is the least of `samples`, in seconds; None unless `status` is "ok".

    `quality` says how far the samples can be trusted; None in a record that is older than this field.
    """

    id: str
    seq: int
    config: JsonObject
    status: str
    time: float | None
    samples: tuple[float, ...]
    median: float | None
    mad: float | None
    schedule: str | None
    source: str
    censored: bool
    compile_s: float
    run_s: float
    wall_s: float
    task: JsonObject
    target: JsonObject
    threads: int
    cache: str
    error: JsonObject | None
    fields: JsonObject = field(repr=False)
    quality: Quality | None = None

    @property
    def noise(self) -> float:
        """The standard deviation of the samples over their median, by their median absolute deviation; 0 where unknown."""
        return DEVIATION * self.mad / self.median if self.mad and self.median else 0.0

    @property
    def why(self) -> str:
        """The error as one line; empty for a valid trial."""
        if self.error is None:
            return ""
        return f"{self.error.get('type') or self.status}: {self.error.get('message', '')}".strip()

    @classmethod
    def of(cls, fields: JsonObject) -> Trial:
        """The trial in a record. Raises `ValueError` that names the field which is missing or is not what its name says."""
        try:
            said = msgspec.convert(fields, _Line)
        except msgspec.ValidationError as wrong:
            raise ValueError(_in_words(wrong, fields)) from None
        if said.status not in STATUSES:
            raise ValueError(f"unknown status {said.status!r:.40}")
        samples = tuple(map(float, said.samples))
        if said.status == "ok" and not (samples and min(samples) > 0):
            raise ValueError("a valid trial without positive times")
        return cls(
            id=said.id,
            seq=said.seq,
            config=fields["config"],
            status=said.status,
            time=min(samples) if samples and said.status == "ok" else None,
            samples=samples,
            median=None if said.median is None else float(said.median),
            mad=None if said.mad is None else float(said.mad),
            schedule=said.schedule,
            source=said.source,
            censored=bool(said.censored),
            compile_s=float(said.compile_s),
            run_s=float(said.run_s),
            wall_s=float(said.wall_s),
            task=fields["task"],
            target=fields["target"],
            threads=said.threads,
            cache=said.cache,
            error=fields["error"],
            fields=fields,
            quality=said.quality,
        )


def _in_words(wrong: msgspec.ValidationError, fields: JsonObject) -> str:
    """What is wrong with a trial, of a message that ends in the place of what is: "- at `$.seq`" or "- at `$.samples[3]`"."""
    reason, _, place = str(wrong).partition(" - at `$.")
    if missing := re.search(r"missing required field `(\w+)`", reason):
        return f"a trial without {missing[1]!r}"
    name, _, number = place.rstrip("`").partition("[")
    return (
        f"a malformed trial: a sample is {fields[name][int(number[:-1])]!r:.40}"
        if number
        else f"a malformed trial: {name} is {fields[name]!r:.40}"
    )


def moment(fields: Mapping[str, Any], unknown: float) -> float:
    """When a record was written, in seconds since 1970; `unknown` if it does not say."""
    try:
        return float(msgspec.convert(fields.get("time_unix"), Number))
    except msgspec.ValidationError:
        return unknown


def summary(samples: list[float]) -> dict[str, float | None]:
    """Least, median and median absolute deviation; None for no samples."""
    if not samples:
        return {"min": None, "median": None, "mad": None}
    middle = median(samples)
    return {"min": min(samples), "median": middle, "mad": median(abs(sample - middle) for sample in samples)}
