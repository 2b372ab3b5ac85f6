"""Reading a log file: whole records with their place, and the reasons why other lines are not records.

Needs memory for one line, never raises for what a line holds, and can go on where an earlier scan stopped, since logs only grow. A line
that is not whole may still hold whole records: behind the torn end of another when files were concatenated, between the NUL bytes that a
crash of the system leaves, on both sides of a newline that was overwritten. They are found by their checksums.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from msgspec import Struct

from tensorlang.autotune.log.migrate import Newer
from tensorlang.autotune.log.record import CHECKSUM, SCHEMA, RecordParser, whole
from tensorlang.system.files import NotRegular, opened

LONGEST: Final = 8 << 20
"""Bytes in the longest line that is looked at; canonical definitions are far shorter."""

BUFFER: Final = 1 << 18

_START: Final = b'{"v":'
_BEGINNINGS: Final = tuple(b'{"v":%d,"id":"' % version for version in range(1, SCHEMA + 1))
_LOOKED_AT: Final = 1 << 16
"""Bytes of the beginning of a file: the first line of a log is shorter, or it is a torn one."""
_END: Final = re.compile(rb',"sum":"[0-9a-f]{16}"\}')
_GUESSES: Final = 4
_MISSES: Final = 16


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that was skipped: where it is and why."""

    path: Path
    line: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} (byte {self.offset}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Position:
    """A place between two lines of a file: how many bytes and lines are before it, the last of the bytes, and which file it is.

    A file that has other bytes there is another file, or was rewritten.
    """

    offset: int = 0
    line: int = 0
    before: bytes = b""
    file: tuple[int, int] | None = None

    def stands(self, path: Path) -> bool:
        """Is the file at `path` the one that was read, with at most more lines?"""
        try:
            found = path.stat()
            if (found.st_dev, found.st_ino) != self.file or found.st_size < self.offset:
                return False
            if not self.before:
                return True
            with opened(path) as file:
                file.seek(self.offset - len(self.before))
                return file.read(len(self.before)) == self.before
        except OSError:
            return False


class LocatedRecord(Struct, eq=False, gc=False):
    """A whole record: line number, byte offset and length, its checksum, its bytes without the newline; `known` unless of a later schema.

    `fields` is what the scan's `read` made of it: the record's fields, or a `Glimpse` of a trial. Of a trial that an earlier process read
    (see `remembered`) there are no bytes.
    """

    line: int
    offset: int
    length: int
    checksum: bytes
    fields: Any
    known: bool = True
    data: bytes = b""

    def bare(self) -> LocatedRecord:
        """The same without its bytes, and of other records than glimpses without what they say."""
        fields = None if isinstance(self.fields, dict) else self.fields
        return LocatedRecord(self.line, self.offset, self.length, self.checksum, fields, self.known)


def located(line: int, offset: int, data: bytes, fields: Any, *, known: bool = True) -> LocatedRecord:
    """A record that was just read."""
    return LocatedRecord(line, offset, len(data), data[-CHECKSUM:], fields, known, data)


@dataclass(slots=True)
class FileScan:
    """The records of a file from `position` on, in order, as `read` makes them of lines (a `RecordParser`, or a `GlimpseParser`).

    `problems` and the new `position` are there when they are consumed.

    The position stays before a last line without its newline: it may still be written to. A device or a pipe holds no records, since it
    may have no end. Iterating raises `OSError` if the file cannot be read.
    """

    path: Path
    position: Position = Position()
    read: Callable[[bytes], Any] = field(default_factory=RecordParser)
    problems: list[Problem] = field(default_factory=list)

    def __iter__(self) -> Iterator[LocatedRecord]:
        try:
            stream = opened(self.path, BUFFER)
        except NotRegular:
            return
        with stream as file:
            yield from self.of(file)

    def of(self, file: BinaryIO) -> Iterator[LocatedRecord]:
        """The same of the file when it is open."""
        found = os.fstat(file.fileno())
        identity = (found.st_dev, found.st_ino)
        self.position = replace(self.position, file=identity)
        file.seek(self.position.offset)
        offset, number = self.position.offset, self.position.line
        reached = offset, number, self.position.before
        read = self.read
        try:
            while line := file.readline(LONGEST):
                number, start, offset = number + 1, offset, offset + len(line)
                ended, excess = line.endswith(b"\n"), 0
                if not ended and len(line) == LONGEST:
                    excess, ended = _rest(file)
                    offset += excess
                if excess:
                    self._problem(number, start, f"a line of more than {LONGEST} bytes")
                else:
                    try:
                        fields = read(data := line.rstrip(b"\r\n"))
                    except ValueError as reason:
                        yield from self._otherwise(number, start, line, reason)
                    else:
                        yield LocatedRecord(number, start, len(data), data[-CHECKSUM:], fields, data=data)
                if ended:
                    reached = offset, number, b"\n" if excess else line[-CHECKSUM - 1 :]
        finally:
            self.position = Position(*reached, identity)

    def _otherwise(self, number: int, offset: int, line: bytes, reason: ValueError) -> Iterator[LocatedRecord]:
        """What a line holds that is no record of this schema."""
        if isinstance(reason, Newer):
            self._problem(number, offset, str(reason))
            yield located(number, offset, line.rstrip(b"\r\n"), reason.fields, known=False)
            return
        found = list(self._salvaged(number, offset, line))
        kept = f"; {len(found)} whole records in it are kept" if found else ""
        self._problem(number, offset, f"{str(reason)[:200]}{kept}")
        yield from found

    def _salvaged(self, number: int, offset: int, line: bytes) -> Iterator[LocatedRecord]:
        for at, data in pieces(line):
            try:
                yield located(number, offset + at, data, self.read(data))
            except Newer as newer:
                yield located(number, offset + at, data, newer.fields, known=False)
            except ValueError:
                continue

    def _problem(self, number: int, offset: int, reason: str) -> None:
        self.problems.append(Problem(self.path, number, offset, reason))


def holds_records(path: Path) -> bool:
    """May the file be a log: does it hold a record, or nothing, or the torn beginning of the first one? Raises `OSError`."""
    try:
        with opened(path) as file:
            first, more = file.read(_LOOKED_AT), bool(file.read(1))
    except NotRegular:
        return True
    begun = first.strip(b"\0 \t\r\n")  # a crash of the system leaves NUL bytes
    blank = not begun and not more
    short = any(len(begun) < len(beginning) and beginning.startswith(begun) for beginning in _BEGINNINGS)
    return blank or (short and not more) or _holds_record(path, begun)


def _holds_record(path: Path, begun: bytes) -> bool:
    torn = begun.startswith(_BEGINNINGS) and b"\n" not in begun
    return torn or next(iter(FileScan(path)), None) is not None


def _rest(file: BinaryIO) -> tuple[int, bool]:
    """Pass over what is left of a line: its bytes, and whether it ended."""
    length = 0
    while more := file.readline(LONGEST):
        length += len(more)
        if more.endswith(b"\n"):
            return length, True
    return length, False


def pieces(line: bytes) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each whole record inside a line that is not one. Bounded work, whatever the line holds."""
    start, misses = 0, 0
    for end in (match.end() for match in _END.finditer(line)):
        at = end
        for _ in range(_GUESSES):
            at = line.rfind(_START, start, at)
            if at < 0 or (at == 0 and end == len(line.rstrip(b"\r\n"))):
                break
            try:
                whole(line[at:end])
            except ValueError:
                continue
            yield at, line[at:end]
            start, misses = end, misses - 1
            break
        misses += 1
        if misses > _MISSES:
            return
