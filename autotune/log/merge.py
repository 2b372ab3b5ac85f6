"""`autotune merge`: many logs into one, which then has each record once.

The union of lines: a record is never changed, chosen among or thrown away, so it does not matter in which order, how often or in how many
steps logs are merged. Records of later schemas, which this software cannot read, are kept as they are for one that can; only what is not
a whole record is left behind, and reported. Lines are ordered by run, then as their run wrote them.

The result takes the place of the old file at once, while writers to it wait (see `log.locked`), so a running job may be merged into.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from tensorlang.autotune.log.log import Log, locked
from tensorlang.autotune.log.record import KINDS, moment
from tensorlang.autotune.log.scan import LocatedRecord, Problem, holds_records
from tensorlang.errors import LogError
from tensorlang.system import files

Key: TypeAlias = tuple[float, str, int, int, float, str, bytes]

_ENDLESS: Final = math.inf


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of a merge: records in the result, those of them that it did not have, repetitions met, lines that were not records."""

    records: int
    added: int
    duplicates: int
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Union:
    """The distinct lines of some logs, by their digests: where each stands, and what it is ordered by."""

    lines: dict[bytes, tuple[Path, int, int, Key]] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    met: int = 0

    def add(self, log: Log) -> None:
        """The lines of one log."""
        for path, located in log.located_records(self.problems):
            self.met += 1
            digest = hashlib.sha256(located.data).digest()[:16]
            if digest not in self.lines:
                key = _key(located, digest)
                self.lines[digest] = (path, located.offset, len(located.data), key)
                self.starts[key[1]] = min(self.starts.get(key[1], _ENDLESS), key[0])

    def ordered(self) -> Iterable[tuple[Path, int, int]]:
        """Where the lines stand, in the order of the result."""
        found = sorted(self.lines.values(), key=lambda line: (self.starts[line[3][1]], *line[3][1:]))
        return ((path, offset, length) for path, offset, length, _ in found)


def merge(sources: Sequence[Path], into: Path) -> Merged:
    """Put the records of logs (files or folders) into the file `into`, with those that it has. Idempotent and atomic.

    Raises `LogError` if a source is missing or unreadable, or the result cannot be written; `into` is then as it was.
    """
    if into.is_dir():
        raise LogError(f"{into} is a folder; name a file to merge into, as {into / 'merged.jsonl'}")
    union = _Union()
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        existed = into.exists()
        if existed:
            files.require_regular(into.stat(), into)
            if not holds_records(into):
                raise LogError(f"{into} is no tuning log: none of its lines is a record; name another file to merge into")
        with locked(into):
            try:
                union.add(Log(into))
                before = len(union.lines)
                for source in sources:
                    union.add(Log(source))
                _write(union, into)
            except BaseException:
                if not existed:
                    into.unlink()
                raise
    except OSError as error:
        raise LogError(f"cannot merge into {into}: {error.strerror}; it is as it was") from None
    return Merged(len(union.lines), len(union.lines) - before, union.met - len(union.lines), tuple(union.problems))


def _write(union: _Union, into: Path) -> None:
    handles: dict[Path, Any] = {}
    try:
        with files.replacing(into) as result:
            for path, offset, length in union.ordered():
                if path not in handles:
                    if len(handles) >= 100:
                        handles.pop(next(iter(handles))).close()
                    handles[path] = files.opened(path)
                handles[path].seek(offset)
                line = handles[path].read(length)
                if hashlib.sha256(line).digest()[:16] not in union.lines:
                    raise LogError(f"{path} was rewritten while it was read; {into} is as it was")
                result.write(line + b"\n")
    finally:
        for handle in handles.values():
            handle.close()


def _key(located: LocatedRecord, digest: bytes) -> Key:
    fields = located.fields
    seq, kind, when = fields.get("seq"), fields.get("kind"), moment(fields, _ENDLESS)
    rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
    place = seq if isinstance(seq, int) else 0
    return when, str(fields.get("run")), rank, place, when, str(fields.get("id")), digest
