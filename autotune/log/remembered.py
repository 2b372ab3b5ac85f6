"""What an earlier process read of a log file, so that it need not be read again: an index in the user's cache folder.

It is a cache and never a truth. Of trials it holds what tables and look-ups need of all of them (a `Glimpse`) and where each line stands;
everything else (what the trials of a study share, final measurements, runs, jobs) is read from the log, and so is every trial that is
served, printed or replayed, with its checksum. An index counts only for the very file (device and inode) while its size and times are as
they were; where it has grown, or was touched, the bytes that were read must be the same by their sum, and what follows them is read.
Anything else, a damaged index or one that others may write to, is as if it were not there: the file is read whole.

It lies in the cache folder rather than beside the log, which may be read-only, shared by hosts, or copied without it. No index is written
for small files, nor for one that changes while it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO, Final, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tensorlang.autotune.log.glimpse import Glimpse, GlimpseParser, Shared, shared_of
from tensorlang.autotune.log.migrate import JsonObject, Newer
from tensorlang.autotune.log.record import CHECKSUM, Number, whole
from tensorlang.autotune.log.scan import BUFFER, LONGEST, FileScan, LocatedRecord, Position, Problem, located
from tensorlang.autotune.log.status import Status
from tensorlang.system import cache_folder, files
from tensorlang.system.files import NotRegular, opened

FORMAT: Final = 1
"""Changes with the fields below, and with what a glimpse is made of."""
WORTH: Final = 1 << 16
"""Bytes of a log that have to be read before remembering them is cheaper."""
SETTLED_S: Final = 2.0
"""A file that was written to more recently may be written to again without a sign: its bytes are compared."""
LIMIT: Final = 256 << 20
"""Bytes of the folder beyond which the indices that were written first are removed."""

_MAGIC: Final = b"tensorlang log index\n"
_CHUNK: Final = 1 << 20

BEGINNING: Final = Position()

_Place: TypeAlias = Annotated[int, Meta(ge=0, lt=1 << 53)]
_Positive: TypeAlias = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
_Finite: TypeAlias = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


class _Piece(NamedTuple):
    """Where the fields stand that the trials of a study share: a line of the log, and the part of it."""

    offset: _Place
    length: _Place
    start: _Place
    stop: _Place


class _Columns(Struct, array_like=True, forbid_unknown_fields=True):
    """The trials of a file, a list for each field of a glimpse and of its place."""

    lines: list[_Place]
    offsets: list[_Place]
    lengths: list[_Place]
    checksums: bytes
    pieces: list[_Place]
    ids: list[str]
    seqs: list[int | bool]
    statuses: list[Status]
    times: list[_Positive | None]
    sources: list[str]
    walls: list[_Finite]
    whens: list[Number | None]
    runs: list[str | None]
    clocks: list[JsonObject | None]


class _File(Struct, array_like=True, forbid_unknown_fields=True):
    """A file as it was found."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """The one that is open."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class _Index(Struct, array_like=True, forbid_unknown_fields=True):
    """What was read of a file: its first `offset` bytes, of the sum `crc`; other records and problems by their places."""

    format: int
    path: str
    file: _File
    settled: bool
    offset: _Place
    line: _Place
    before: bytes
    crc: int
    pieces: list[_Piece]
    trials: _Columns
    others: list[tuple[_Place, _Place, _Place]]
    problems: list[tuple[_Place, _Place, str]]


_DECODER: Final = msgspec.msgpack.Decoder(_Index)


@dataclass(slots=True)
class RememberedScan:
    """As `FileScan` with a `GlimpseParser`; where it begins at the beginning, an index is used and written if `remembered`.

    Iterating raises `OSError` if the file cannot be read.
    """

    path: Path
    position: Position = BEGINNING
    problems: list[Problem] = field(default_factory=list)
    remembered: bool = True
    _settled: list[Problem] = field(default_factory=list)

    def __iter__(self) -> Iterator[LocatedRecord]:
        if self.position != BEGINNING or not self.remembered:
            yield from self._scanned(None)
            return
        try:
            stream = opened(self.path, BUFFER)
        except NotRegular:
            return
        with stream as file:
            found = os.fstat(file.fileno())
            place = _place(self.path) if found.st_size >= WORTH else None
            index = None if place is None else _load(place, self.path, file, found)
            records, new = [] if index is None else index[1], list[LocatedRecord]()
            if index is not None:
                self.position = Position(index[0].offset, index[0].line, index[0].before, (found.st_dev, found.st_ino))
                self._settled = [Problem(self.path, *problem) for problem in index[0].problems]
                self.problems += self._settled
            yield from records
            if place is None or found.st_size - self.position.offset < WORTH:
                yield from self._scanned(file)
                return
            for record in self._scanned(file):
                new.append(record.bare())
                yield record
            settled = [problem for problem in self._settled if problem.offset < self.position.offset]
            _store(place, self.path, file, found, self.position, [*records, *new], settled)

    def _scanned(self, file: BinaryIO | None) -> Iterator[LocatedRecord]:
        scan = FileScan(self.path, self.position, GlimpseParser())
        try:
            yield from scan if file is None else scan.of(file)
        finally:
            self.position = scan.position
            self.problems += scan.problems
            self._settled += scan.problems


def _place(path: Path) -> Path | None:
    """Where the index of a file is; None where there is to be none."""
    try:
        folder = cache_folder.unless_off()
        name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    except (OSError, RuntimeError):  # no home, or a loop of links
        return None
    return None if folder is None else folder / "logs" / f"{name}.index"


# Reading it --------------------------------------------------------------------------------------------------------------------------


def _load(place: Path, path: Path, file: BinaryIO, found: os.stat_result) -> tuple[_Index, list[LocatedRecord]] | None:
    """What is remembered of an open file; None where that is nothing, or does not hold any more."""
    try:
        with opened(place) as stored:
            owner = os.fstat(stored.fileno())
            if owner.st_uid != os.getuid() or owner.st_mode & 0o022 or owner.st_size > 2 * found.st_size + _CHUNK:
                return None
            text = stored.read()
        payload = text[len(_MAGIC) + 32 :]
        if text[: len(_MAGIC) + 32] != _MAGIC + hashlib.sha256(payload).digest():
            return None
        index = _DECODER.decode(payload)
        if index.format != FORMAT or index.path != os.fsdecode(path.resolve()) or not _holds(index, file, found):
            return None
        return index, _records(index, file)
    except (OSError, ValueError, msgspec.MsgspecError, RecursionError):
        return None


def _holds(index: _Index, file: BinaryIO, found: os.stat_result) -> bool:
    """Are the first bytes of the file those that were read?"""
    now = _File.of(found)
    if (now.device, now.inode) != (index.file.device, index.file.inode) or now.size < index.offset:
        return False
    return (index.settled and now == index.file) or _sum(file, index.offset) == index.crc


def _records(index: _Index, file: BinaryIO) -> list[LocatedRecord]:
    """The records, trials as glimpses. Raises `ValueError` for an index that contradicts itself or the log."""
    trials, count = index.trials, len(index.trials.ids)
    columns = (
        trials.lines, trials.offsets, trials.lengths, trials.pieces, trials.ids, trials.seqs, trials.statuses, trials.times,
        trials.sources, trials.walls, trials.whens, trials.runs, trials.clocks,
    )  # fmt: skip
    odd = ((when is None) is (status == "ok") for when, status in zip(trials.times, trials.statuses, strict=True))
    if len(trials.checksums) != count * CHECKSUM or any(odd):
        raise ValueError("an index that contradicts itself")
    shared = [_shared(file, piece, index.offset) for piece in index.pieces]
    found: list[LocatedRecord] = []
    at = 0
    for line, offset, length, piece, id, seq, status, time_, source, wall_s, when, run, clock in zip(*columns, strict=True):
        if piece >= len(shared) or offset + length > index.offset:
            raise ValueError("an index of another file")
        glimpse = Glimpse(id, seq, status, time_, source, wall_s, when, run, shared[piece], clock)
        found.append(LocatedRecord(line, offset, length, trials.checksums[at : at + CHECKSUM], glimpse))
        at += CHECKSUM
    if index.others:
        parser = GlimpseParser()
        found += [_other(parser, file, line, offset, length) for line, offset, length in index.others]
        found.sort(key=lambda record: record.offset)
    return found


def _shared(file: BinaryIO, piece: _Piece, end: int) -> Shared:
    line = _line(file, piece.offset, piece.length)
    if piece.offset + piece.length > end or not piece.start < piece.stop <= piece.length:
        raise ValueError("an index of another file")
    return shared_of(whole(line)[piece.start : piece.stop])


def _other(parser: GlimpseParser, file: BinaryIO, line: int, offset: int, length: int) -> LocatedRecord:
    data = _line(file, offset, length)
    try:
        return located(line, offset, data, parser(data))
    except Newer as newer:
        return located(line, offset, data, newer.fields, known=False)


def _line(file: BinaryIO, offset: int, length: int) -> bytes:
    if length > LONGEST:
        raise ValueError("an index of another file")
    file.seek(offset)
    return file.read(length)


def _sum(file: BinaryIO, size: int) -> int:
    """The sum of the first bytes of a file."""
    file.seek(0)
    found, left = 0, size
    while left and (chunk := file.read(min(_CHUNK, left))):
        found, left = zlib.crc32(chunk, found), left - len(chunk)
    return found


# Writing it --------------------------------------------------------------------------------------------------------------------------


def _store(
    place: Path,
    path: Path,
    file: BinaryIO,
    found: os.stat_result,
    position: Position,
    records: list[LocatedRecord],
    problems: list[Problem],
) -> None:
    """Remember what was read, if that may be done and the file stood still meanwhile."""
    before = _File.of(found)
    records = [record for record in records if record.offset < position.offset]
    trials = [record for record in records if isinstance(record.fields, Glimpse)]
    pieces: dict[int, _Piece] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, OverflowError):  # without one the log is read again
        for record in trials:
            if (known := id(record.fields.shared)) not in pieces:
                line = _line(file, record.offset, record.length)
                pieces[known] = _Piece(record.offset, record.length, *GlimpseParser.shared_part(line))
        crc = _sum(file, position.offset)
        if _File.of(os.fstat(file.fileno())) != before:
            return
        numbers = {known: number for number, known in enumerate(pieces)}
        index = _Index(
            FORMAT, os.fsdecode(path.resolve()), before, time.time() - found.st_ctime > SETTLED_S, position.offset, position.line,
            position.before, crc, list(pieces.values()), _columns(trials, numbers),
            [(record.line, record.offset, record.length) for record in records if not isinstance(record.fields, Glimpse)],
            [(problem.line, problem.offset, problem.reason) for problem in problems],
        )  # fmt: skip
        payload = msgspec.msgpack.encode(index)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with files.replacing(place, durable=False, private=True) as stored:
            stored.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        _prune(place.parent)


def _columns(trials: list[LocatedRecord], numbers: dict[int, int]) -> _Columns:
    seen: list[Glimpse] = [record.fields for record in trials]
    return _Columns(
        [record.line for record in trials], [record.offset for record in trials], [record.length for record in trials],
        b"".join(record.checksum for record in trials), [numbers[id(one.shared)] for one in seen],
        [one.id for one in seen], [one.seq for one in seen], [one.status for one in seen],  # type: ignore[misc]
        [one.time for one in seen], [one.source for one in seen], [one.wall_s for one in seen], [one.time_unix for one in seen],
        [one.run for one in seen], [one.clock for one in seen],
    )  # fmt: skip


_pruned: set[Path] = set()


def _prune(folder: Path) -> None:
    """Once in a process: keep what was written last, of half as many bytes as there may be."""
    if folder in _pruned:
        return
    _pruned.add(folder)
    with os.scandir(folder) as entries:
        kept = [(found.st_mtime, found.st_size, entry.path) for entry in entries if (found := entry.stat(follow_symlinks=False))]
    if sum(size for _, size, _ in kept) <= LIMIT:
        return
    total = 0
    for _, size, name in sorted(kept, reverse=True):
        total += size
        if total > LIMIT // 2:
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108 - names of a listing
