"""One line of a tuning log: a self-contained JSON object that ends in its own checksum.

Why so: a record that carries its whole task, target and outcome can be concatenated, sorted, merged and read years later without any
other line; the checksum turns a torn, interleaved or edited line into a skipped one instead of a wrong schedule. Nothing is pickled and
no path, module or code is ever taken from a record.

    trial      one candidate: configuration, schedule, status, all samples
    final      the paired re-measurement of the finalists against the default, and the winner
    run_start  run_end                        what a run set out to do, and why and how it ended
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

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

_MARK: Final = b',"sum":"'
_SUM: Final = 16
_TAIL: Final = len(_MARK) + _SUM + len(b'"}')


def to_line(fields: Mapping[str, Any]) -> bytes:
    """The record as one line, checksum and newline included. Raises `ValueError` for NaN, infinity or a value that is not JSON."""
    body = json.dumps({"v": SCHEMA, **fields}, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return body + _MARK + _digest(body) + b'"}\n'


def from_line(line: bytes) -> dict[str, Any]:
    """The record on a line. Raises `ValueError` with the reason why it is not one of ours, or not whole."""
    line = line.rstrip(b"\r\n")
    if not line.strip():
        raise ValueError("blank line")
    if b"\0" in line:
        raise ValueError("NUL bytes")
    body, tail = line[:-_TAIL], line[-_TAIL:]
    if not (tail.startswith(_MARK) and tail.endswith(b'"}')):
        raise ValueError("no checksum: a torn or foreign line")
    if tail[len(_MARK) : -2] != _digest(body):
        raise ValueError("the checksum does not match the line")
    try:
        fields = json.loads(body + b"}", parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict) or fields.get("kind") not in KINDS:
        raise ValueError("not a record of this log")
    if fields.get("v") != SCHEMA:
        raise ValueError(f"schema version {fields.get('v')!r}; this is version {SCHEMA}")
    return fields


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_SUM].encode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


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
            samples = tuple(map(float, fields["samples"]))
            trial = cls(
                id=_typed(fields, "id", str),
                seq=_typed(fields, "seq", int),
                config=_typed(fields, "config", dict),
                status=_typed(fields, "status", str),
                time=min(samples) if samples and fields["status"] == "ok" else None,
                samples=samples,
                median=fields["median"],
                mad=fields["mad"],
                schedule=fields["schedule"],
                source=_typed(fields, "source", str),
                censored=bool(fields["censored"]),
                compile_s=float(fields["compile_s"]),
                run_s=float(fields["run_s"]),
                wall_s=float(fields["wall_s"]),
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
        if trial.status not in STATUSES:
            raise ValueError(f"unknown status {trial.status!r:.40}")
        if trial.status == "ok" and (trial.time is None or not all(0 < sample < math.inf for sample in samples)):
            raise ValueError("a valid trial without positive times")
        return trial


def _typed(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields[name]
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r:.40}")
    return value


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
