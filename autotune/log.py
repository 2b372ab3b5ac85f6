"""The tuning log: append-only lines in a file, or in a folder with one file for each task.

The log is the checkpoint, so it must survive what happens to long jobs: a kill in mid-write, two writers, a full disk, a stray editor.
A record is appended by one `write` under a lock, after a newline of its own if the last line is torn; reading skips whatever is not a
whole record, says where and why in `problems`, and needs memory for one line only.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tensorlang.autotune.record import Trial, from_line, to_line
from tensorlang.errors import LogError

LONGEST: Final = 8 << 20
"""Bytes in the longest line that is looked at; canonical definitions are far shorter."""

SYNC_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that was skipped: where it is and why."""

    path: Path
    line: int
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} (byte {self.offset}): {self.reason}"


class Log:
    """A log at `path`: a file, or a folder (an existing one, or a path that ends in a separator).

    Iterating gives its trials in file order, each id once; `problems` then lists the lines that were skipped.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path)
        self.path = Path(text)
        self.folder = text.endswith(os.sep) or self.path.is_dir()
        self.problems: tuple[Problem, ...] = ()
        self._written = 0
        self._synced = 0.0

    def __repr__(self) -> str:
        return f"Log({str(self.path)!r})"

    def __iter__(self) -> Iterator[Trial]:
        return (trial for trial in self.records("trial") if isinstance(trial, Trial))

    def records(self, *kinds: str) -> Iterator[Trial | dict[str, Any]]:
        """The whole records of these kinds (all if none is given): trials as `Trial`, others as plain objects.

        Raises `LogError` if there is no such file or it cannot be read.
        """
        problems: list[Problem] = []
        self.problems = ()
        seen: set[str] = set()
        for path in self.files():
            for number, offset, line in _lines(path):
                try:
                    if line is None:
                        raise ValueError(f"a line of more than {LONGEST} bytes")  # noqa: TRY301 - one place records problems
                    fields = from_line(line)
                    record = Trial.of(fields) if fields["kind"] == "trial" else fields
                except ValueError as reason:
                    problems.append(Problem(path, number, offset, str(reason)[:200]))
                    self.problems = tuple(problems)
                    continue
                if fields.get("id") not in seen and (not kinds or fields["kind"] in kinds):
                    seen.add(fields.get("id", ""))
                    yield record

    def files(self) -> list[Path]:
        """The files to read. Raises `LogError` if there is none by this name."""
        if self.folder:
            if not self.path.is_dir():
                raise LogError(f"there is no folder of logs at {self.path}")
            return sorted(self.path.glob("*.jsonl"))
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
            os.close(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666))
        except OSError as error:
            raise LogError(f"cannot write the log {path}: {error.strerror}") from None
        return Log(path)

    def append(self, fields: Mapping[str, Any]) -> None:
        """Add one record, whole or not at all.

        Raises `LogError` if the disk is full or the file cannot be written; what was there before stays.
        """
        line = to_line(fields)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise self._failure(error) from None
        try:
            with contextlib.suppress(OSError):  # a file system without locks still appends atomically
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            data = b"\n" + line if torn else line
            if os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, size)
                raise OSError(errno.ENOSPC, "No space left for a whole record")  # noqa: TRY301 - reported as any other
            self._written += 1
            if time.monotonic() - self._synced > SYNC_S:
                with contextlib.suppress(OSError):
                    os.fdatasync(descriptor)
                self._synced = time.monotonic()
        except OSError as error:
            raise self._failure(error) from None
        finally:
            os.close(descriptor)

    def _failure(self, error: OSError) -> LogError:
        return LogError(f"cannot append to {self.path}: {error.strerror}; the {self._written} records of this run before it are kept")


def _lines(path: Path) -> Iterator[tuple[int, int, bytes | None]]:
    """Line number, byte offset and content of each line; None for one that is too long.

    Devices and pipes hold no records and may have no end.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            number = offset = 0
            while line := file.readline(LONGEST):
                number, start, whole = number + 1, offset, True
                offset += len(line)
                while not line.endswith(b"\n") and (line_more := file.readline(LONGEST)):
                    whole = False
                    offset += len(line_more)
                    line = line_more
                yield number, start, line if whole else None
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror}") from None
