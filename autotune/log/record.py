"""One line of a tuning log: a self-contained JSON object that ends in its own checksum.

Why so: a record that carries its whole task, target and outcome can be concatenated, sorted, merged and read years later without any
other line; the checksum turns a torn, interleaved or edited line into a skipped one instead of a wrong schedule. Nothing is pickled and
no path, module or code is ever taken from a record.

    trial      one candidate: configuration, schedule, status, all samples
    final      the paired re-measurement of the finalists against the default, and the winner
    run_start  run_end                        what a run set out to do, and why and how it ended

Most of a line says what all lines of a study say. It stands in one piece, from `task` to `software`, so that a `Reader` parses it once.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from tensorlang.autotune.log.migrate import migrate

SCHEMA: Final = 1
KINDS: Final = ("run_start", "trial", "final", "run_end")
STATUSES: Final = (
    "ok",
    "compile_error",
    "compile_crash",
    "compile_timeout",
    "run_timeout",
    "crash",
    "wrong_result",
    "oom",
    "killed",
    "infra",
)
SHARED: Final = ("task", "strategy", "target", "threads", "cache", "policy", "machine", "software")
"""What the lines of a study have in common, in the order in which it is written."""

_ORDER: Final = ("id", "run", "time_unix", *SHARED, "kind")
_OWN: Final = re.compile(rb'\{"v":\d+(?:,"(?:id|run)":"[^"\\]*"|,"time_unix":[-+.\deE]+)*,(?="task":)')
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


class Reader:
    """Parses lines. What the lines of a study share is parsed once, and then is the same object in all their records."""

    def __init__(self) -> None:
        self._shared: dict[bytes, dict[str, Any]] = {}

    def __call__(self, line: bytes) -> dict[str, Any]:
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
        own = _OWN.match(body)
        stop = body.find(_NEXT, own.end()) if own else -1
        if own is not None and stop >= 0:
            middle = body.find(_TARGET, own.end(), stop)
            bounds = [own.end(), *([middle + 1] if middle >= 0 else []), stop + 1]
            try:
                pieces = [self._piece(body[start : end - 1]) for start, end in itertools.pairwise(bounds)]
                pieces.append(_JSON.decode((body[: own.end()] + body[stop + 1 :] + b"}").decode()))
            except ValueError:  # the pieces were not where they seemed to be
                pass
            else:
                fields = {name: value for piece in pieces for name, value in piece.items()}
                if len(fields) == sum(map(len, pieces)):
                    return fields
        return _JSON.decode((body + b"}").decode())

    def _piece(self, piece: bytes) -> dict[str, Any]:
        """The members of an object, which are complete in themselves."""
        known = self._shared.get(piece)
        if known is None:
            known = _JSON.decode(f"{{{piece.decode()}}}")
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            self._shared[piece] = known
        return known


def from_line(line: bytes) -> dict[str, Any]:
    """The record on a single line. Raises as `Reader` does."""
    return Reader()(line)


def whole(line: bytes) -> bytes:
    """A line up to its checksum, which is right. Raises `ValueError` with the reason why the line is not whole."""
    line = line.rstrip(b"\r\n")
    body, tail = line[:-CHECKSUM], line[-CHECKSUM:]
    if tail.startswith(_MARK) and tail.endswith(b'"}') and tail[len(_MARK) : -2] == _digest(body) and b"\0" not in body:
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


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured or failed candidate, as the log has it. `time` is the least of `samples`, in seconds; None unless `status` is "ok"."""

    id: str
    seq: int
    config: dict[str, Any]
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
    task: dict[str, Any]
    target: dict[str, Any]
    threads: int
    cache: str
    error: dict[str, Any] | None
    fields: dict[str, Any] = field(repr=False)

    @property
    def noise(self) -> float:
        """The relative spread of the samples: 1.4826 MAD / median, which estimates a standard deviation; 0 where unknown."""
        return 1.4826 * self.mad / self.median if self.mad and self.median else 0.0

    @property
    def why(self) -> str:
        """The error as one line; empty for a valid trial."""
        if self.error is None:
            return ""
        return f"{self.error.get('type') or self.status}: {self.error.get('message', '')}".strip()

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Trial:
        """The trial in a record. Raises `ValueError` if a field is missing or is not what its name says."""
        try:
            samples = tuple(_number(sample, "a sample") for sample in _typed(fields, "samples", list))
            status = _typed(fields, "status", str)
            trial = cls(
                id=_typed(fields, "id", str),
                seq=_typed(fields, "seq", int),
                config=_typed(fields, "config", dict),
                status=status,
                time=min(samples) if samples and status == "ok" else None,
                samples=samples,
                median=_optional(fields, "median"),
                mad=_optional(fields, "mad"),
                schedule=None if fields["schedule"] is None else _typed(fields, "schedule", str),
                source=_typed(fields, "source", str),
                censored=bool(fields["censored"]),
                compile_s=_number(fields["compile_s"], "compile_s"),
                run_s=_number(fields["run_s"], "run_s"),
                wall_s=_number(fields["wall_s"], "wall_s"),
                task=_typed(fields, "task", dict),
                target=_typed(fields, "target", dict),
                threads=_typed(fields, "threads", int),
                cache=_typed(fields, "cache", str),
                error=None if fields["error"] is None else _typed(fields, "error", dict),
                fields=fields,
            )
        except KeyError as missing:
            raise ValueError(f"a trial without {missing}") from None
        except TypeError as wrong:
            raise ValueError(f"a malformed trial: {wrong}") from None
        if status not in STATUSES:
            raise ValueError(f"unknown status {status!r:.40}")
        if status == "ok" and not (samples and min(samples) > 0):
            raise ValueError("a valid trial without positive times")
        return trial


def _typed(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r:.40}")
    return value


def _optional(fields: Mapping[str, Any], name: str) -> float | None:
    return None if fields[name] is None else _number(fields[name], name)


def _number(value: object, name: str) -> float:
    if type(value) is float and -math.inf < value < math.inf:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53:
        return float(value)
    raise TypeError(f"{name} is {value!r:.40}")


def moment(fields: Mapping[str, Any], unknown: float) -> float:
    """When a record was written, in seconds since 1970; `unknown` if it does not say."""
    try:
        return _number(fields.get("time_unix"), "time_unix")
    except TypeError:
        return unknown


def summary(samples: list[float]) -> dict[str, float | None]:
    """Least, median and median absolute deviation; None for no samples."""
    if not samples:
        return {"min": None, "median": None, "mad": None}
    median = _median(samples)
    return {"min": min(samples), "median": median, "mad": _median([abs(sample - median) for sample in samples])}


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
