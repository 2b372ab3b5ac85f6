"""Files by path: only regular ones are read, and only regular ones, or nothing, are replaced.

A path comes from a user or lies in a folder that others write to, so it may name anything. Opening a FIFO waits for whoever is at its
other end, perhaps for ever; opening a device can do what the device is for; and a rename puts a file in the place of either. So a path is
looked at before it is opened, opened without waiting, and looked at again when it is open. What is written is there whole or not
at all: written beside, then renamed. A link is followed: it stays, and what it leads to is read or replaced. Only in a folder that is ours
alone is a link no way to somewhere else: it is replaced itself.

All that can go wrong is an `OSError`, whose `strerror` says what is in the way.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO, Final, TypeAlias

AnyPath: TypeAlias = str | PathLike[str]

_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):  # noqa: N818 - as FileNotFoundError is named
    """What a path names is no regular file."""


def kind(mode: int) -> str:
    """What there is, by its mode: "a folder", "a FIFO", ..."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def require_regular(status: os.stat_result, path: AnyPath, *, terminals: bool = False) -> None:
    """Raise `NotRegular` for anything else; with `terminals` also for what is no character device."""
    if not (stat.S_ISREG(status.st_mode) or (terminals and stat.S_ISCHR(status.st_mode))):
        number = errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.EINVAL
        raise NotRegular(number, f"it is {kind(status.st_mode)}, not a regular file", os.fspath(path))


def descriptor(path: AnyPath, flags: int = os.O_RDONLY, *, terminals: bool = False) -> int:
    """An open regular file; one that is missing is made where `flags` say so. Never waits. Raises `OSError`.

    `terminals`: character devices too, for what is only appended to, which replaces nothing (`/dev/null`, `/dev/full`).
    """
    with _as_os_error(path):
        path = os.fspath(path)  # a number would be an open file of somebody else
        with contextlib.suppress(FileNotFoundError):
            require_regular(os.stat(path), path, terminals=terminals)  # noqa: PTH116 - text or bytes
        opened = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    try:
        require_regular(os.fstat(opened), path, terminals=terminals)
    except OSError:
        os.close(opened)
        raise
    return opened


def opened(path: AnyPath, buffering: int = io.DEFAULT_BUFFER_SIZE) -> BinaryIO:
    """A regular file, open for reading. Raises `OSError`."""
    return os.fdopen(descriptor(path), "rb", buffering)


def contents(path: AnyPath) -> bytes:
    """The bytes of a regular file. Raises `OSError`."""
    with opened(path) as file:
        return file.read()


@contextlib.contextmanager
def replacing(path: AnyPath, *, durable: bool = True, private: bool = False) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends; where it raises, `path` stays as it was.

    `durable`: it outlives a crash of the system. `private`: an entry of a folder of ours, which nobody else may read, and in whose place a
    link is replaced; else it has the permissions of the file that it replaces, or those of any new file. Raises `OSError`, before the block
    where what is at `path` is not to be replaced.
    """
    with _as_os_error(path):
        goal = Path(path)
        goal = goal.parent.resolve() / goal.name if private else goal.resolve()
        with contextlib.suppress(FileNotFoundError):
            status = goal.lstat()
            if not stat.S_ISLNK(status.st_mode):
                require_regular(status, path)
        handle, name = tempfile.mkstemp(prefix=f".{goal.name[:60]}.", suffix=".tmp", dir=goal.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if not private:
                os.fchmod(file.fileno(), _mode(goal))
            if durable:
                os.fsync(file.fileno())
        temporary.replace(goal)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        _sync_folder(goal.parent)


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, else those of any new file."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """The new name to the disk; some file systems have no such thing."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _as_os_error(path: object) -> Iterator[None]:
    """What is no path at all, and one that goes in circles, as any other trouble with a file."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise OSError(errno.EINVAL, str(error), repr(path)) from None
