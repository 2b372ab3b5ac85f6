"""The tuning log: append-only lines in a file, or in a folder with one file for each task.

The log is the checkpoint, so it must survive what happens to long jobs: a kill in mid-write, two writers, a full disk, a stray editor.
A record is appended by one `write` under a lock, after a newline of its own if the last line is torn; reading skips whatever is not a
whole record and says where and why in `problems`. A file that holds something else altogether is not appended to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune.log.glimpse import Glimpse
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import RecordParser, Trial, to_line
from tensorlang.autotune.log.remembered import RememberedScan
from tensorlang.autotune.log.scan import FileScan, LocatedRecord, Problem, holds_records
from tensorlang.errors import LogError
from tensorlang.system import files

__all__ = ["Log", "Problem", "locked"]

_APPENDING: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT

SYNC_S: Final = 2.0
"""What was appended reaches the disk after so many seconds at the latest of a running job; a crash of the process alone loses nothing."""

_UNSYNCABLE: Final = frozenset({errno.EINVAL, errno.EROFS, errno.ENOTSUP})


class Log:
    """A log at `path`: a file, or a folder (an existing one, or a path that ends in a separator).

    Iterating gives its trials in file order, each id once; `problems` then lists the lines that were skipped.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
        if not isinstance(text, str) or "\0" in text:
            raise LogError(f"a log is named by a path, not {path!r:.60}")
        self.path = Path(text)
        try:
            self.folder = text.endswith(os.sep) or self.path.is_dir()
        except OSError as error:
            raise LogError(f"{text!r:.60} cannot name a log: {error.strerror}") from error
        self.problems: tuple[Problem, ...] = ()
        self._written = 0
        self._synced = 0.0

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from tensorlang.autotune.log.shown import html  # noqa: PLC0415 - for notebooks alone

        return html(self)

    def __iter__(self) -> Iterator[Trial]:
        return (trial for trial in self.records("trial") if isinstance(trial, Trial))

    def records(self, *kinds: str) -> Iterator[Trial | JsonObject]:
        """The whole records of these kinds (all if none is given): trials as `Trial`, others as plain objects.

        What records of a study share is shared: do not change it. Raises `LogError` if there is no such file or it cannot be read.
        """
        problems: list[Problem] = []
        for _, record in self._distinct(self.located_records(problems), problems, frozenset(kinds)):
            yield record

    def glimpses(self) -> Iterator[Glimpse | JsonObject]:
        """All whole records, trials as far as tables need them: in a fraction of the time that `records` takes. Raises as that does."""
        problems: list[Problem] = []
        for (path, located), record in self._distinct(self._scanned(problems, RememberedScan), problems, frozenset()):
            seen = Glimpse.of(record) if isinstance(record, Trial) else record
            if isinstance(seen, Glimpse):
                seen.path, seen.offset, seen.length = path, located.offset, located.length
            yield seen

    def remember(self) -> None:
        """Let the next process on this host that asks for all of the log find it read (see `remembered`); never raises."""
        with contextlib.suppress(LogError):
            for _ in self.glimpses():
                pass

    def _distinct(
        self, found: Iterable[tuple[Path, LocatedRecord]], problems: list[Problem], kinds: frozenset[str]
    ) -> Iterator[tuple[tuple[Path, LocatedRecord], Any]]:
        """The distinct records of these kinds (all if none is given), and where each stands; the log's `problems` are set at the end."""
        seen: dict[str, bytes] = {}
        try:
            for place in found:
                path, located = place
                fields, checksum = located.fields, located.checksum
                whole = isinstance(fields, dict)
                if not located.known or (kinds and whole and fields["kind"] not in kinds):
                    continue
                id = fields.get("id") if whole else fields.id
                if id is not None and seen.setdefault(id, checksum) is not checksum:
                    if seen[id] != checksum:
                        reason = f"the id of an earlier record, {id!r:.60}, with other content"
                        problems.append(Problem(path, located.line, located.offset, reason))
                    continue
                try:
                    if whole and fields["kind"] == "trial":
                        fields = Trial.of(fields)
                except ValueError as wrong:
                    problems.append(Problem(path, located.line, located.offset, str(wrong)[:200]))
                    continue
                yield place, fields
        finally:
            self.problems = tuple(problems)

    def located_records(self, problems: list[Problem]) -> Iterator[tuple[Path, LocatedRecord]]:
        """The whole records with their places, repeated ones and those of later schemas included; adds to `problems`.

        A file of a folder that vanishes or cannot be read is a problem; raises `LogError` if the log itself is missing or unreadable.
        """
        read = RecordParser()
        yield from self._scanned(problems, lambda path, *, problems: FileScan(path, read=read, problems=problems))

    def _scanned(self, problems: list[Problem], scanned: Callable[..., FileScan | RememberedScan]) -> Iterator[tuple[Path, LocatedRecord]]:
        for path in self.files():
            scan = scanned(path, problems=problems)
            try:
                for located in scan:
                    yield path, located
            except OSError as error:
                if not self.folder:
                    raise LogError(f"cannot read {path}: {error.strerror}") from None
                problems.append(Problem(path, 0, scan.position.offset, f"cannot read the file: {error.strerror}"))

    def files(self) -> list[Path]:
        """The files to read. Raises `LogError` if there is none by this name."""
        if self.folder:
            if not self.path.is_dir():
                raise LogError(f"there is no folder of logs at {self.path}")
            try:
                return sorted(self.path / name for name in os.listdir(self.path) if name.endswith(".jsonl"))  # noqa: PTH208 - glob hides errors
            except OSError as error:
                raise LogError(f"cannot read {self.path}: {error.strerror}") from None
        if not self.path.exists():
            raise LogError(f"there is no log at {self.path}")
        return [self.path]

    def of_task(self, name: str, fingerprint: str) -> Log:
        """The log of one task: this file, or the task's file in this folder. Makes the folders above it.

        Raises `LogError` if they cannot be made or the file cannot be written, before anything is measured.
        """
        plain = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]
        path = self.path / f"{plain}-{fingerprint[:12]}.jsonl" if self.folder else self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(files.descriptor(path, _APPENDING, terminals=True))
            _require_log(path)
        except OSError as error:
            raise LogError(f"cannot write the log {path}: {error.strerror}") from None
        return Log(path)

    def append(self, fields: Mapping[str, Any]) -> None:
        """Add one record, whole or not at all.

        Raises `LogError` if the disk is full or the file cannot be written; what was there before stays. Raises `ValueError` for a
        record that is not JSON.
        """
        line = to_line(fields)
        try:
            with locked(self.path) as (descriptor, alone):
                if not self._written:
                    _require_log(self.path)
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                data = b"\n" + line if torn else line
                if (written := os.write(descriptor, data)) != len(data):
                    if alone:  # nobody else has written behind it
                        os.ftruncate(descriptor, size)
                    raise OSError(errno.ENOSPC, f"No space left after {written} of {len(data)} bytes")  # noqa: TRY301 - reported as any other
                if time.monotonic() - self._synced > SYNC_S:
                    _sync(descriptor)
                    self._synced = time.monotonic()
            self._written += 1
        except OSError as error:
            why = f"cannot append to {self.path}: {error.strerror}; the {self._written} records of this run before it are kept"
            raise LogError(why) from None


def _require_log(path: Path) -> None:
    """Raise `LogError` for a file with contents none of which is, or was, a record: somebody named the wrong file."""
    if not holds_records(path):
        raise LogError(f"{path} is no tuning log: none of its lines is a record; name another file")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[tuple[int, bool]]:
    """The file, made if it is missing, open for appending; and whether it is locked against other writers.

    A file system without locks still appends atomically. A file that was replaced while we waited is opened again.
    """
    while True:
        descriptor = files.descriptor(path, _APPENDING, terminals=True)
        try:
            alone = _lock(descriptor)
            if alone and not _is(descriptor, path):
                continue
            yield descriptor, alone
            return
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sync(descriptor: int) -> None:
    """To the disk. Raises `OSError` if it did not get there; devices and pipes have none."""
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        try:
            os.fdatasync(descriptor)
        except OSError as error:
            if error.errno not in _UNSYNCABLE:
                raise
