"""Kernels that outlive the process: one file each, named by what decides its code, in a folder that the user names.

    TENSORLANG_CACHE=/some/folder      there
    TENSORLANG_CACHE=on                in the user's cache folder
    TENSORLANG_CACHE=off, or unset     nowhere

An entry is a saved kernel (see `archive`), so that nothing is linked before its digest, the versions and the CPU are checked, and it
names itself, so that a file in the wrong place is not taken for another one. Whatever is wrong with an entry or the folder, the kernel is
compiled instead and written again where that is possible: a cache never raises. It says once per process what it could not do. A
program is compiled by one process at a time (see `file_locks`); one that dies meanwhile is not waited for.

Entries are machine code: those that another user owns, or that others may change, are not read. What is no regular file is neither
read nor replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from tensorlang.codegen.cache import archive
from tensorlang.codegen.cache.program import Program
from tensorlang.codegen.cache.program_key import generator
from tensorlang.errors import BuildError
from tensorlang.system import cache_folder, file_locks, files

T = TypeVar("T")

VARIABLE: Final = cache_folder.VARIABLE

LIMIT: Final = 512 << 20
"""Bytes of a folder; the entries that were not used for longest go when there are more, until three quarters are left."""

PATIENCE = 60.0
"""Seconds that a process waits for another one that compiles the same program."""

_SUFFIX: Final = ".tlk"
FOUND: Final = ".tlf"
"""What was found out about a program, beside its code: see `found_files`."""
_ABANDONED: Final = 3600.0
"""Seconds after which a temporary file belongs to a process that was ended."""

_log: Final = logging.getLogger("tensorlang")
_written: Final[dict[Path, int]] = {}
"""An upper bound of the bytes in a folder, as far as this process knows."""


def folder() -> Path | None:
    """Where kernels are kept; None where they are not."""
    return cache_folder.chosen()


def cached_program(name: str, make: Callable[[], Program]) -> Program:
    """The program of a name (see `program_key.digest`), from its file; else made, and written to it. Raises what `make` raises.

    Of several processes that ask for one at once, one makes it, and the others wait for its file.
    """
    return read_or_made(path_of(name), read, make, write)


def read_or_made(path: Path | None, read: Callable[[Path], T | None], make: Callable[[], T], write: Callable[[Path, T], object]) -> T:
    """What is kept in a file: read, else made by one of the processes that ask at once, and written. Raises what `make` raises."""
    known = None if path is None else read(path)
    if path is None or known is not None:
        return make() if known is None else known
    with only_here(path):
        known = read(path)  # another process may have been quicker
        if known is None:
            known = make()
            write(path, known)
        return known


def known_program(name: str) -> Program | None:
    """The program of a name, if its file is there and can be used."""
    path = path_of(name)
    return None if path is None else read(path)


def only_here(path: Path) -> contextlib.AbstractContextManager[bool]:
    """Make an entry in no other process meanwhile; where anybody may write, anybody could keep the lock."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & stat.S_IWOTH:
            return contextlib.nullcontext(False)
    except (OSError, ValueError):  # which `write` tells
        return contextlib.nullcontext(False)
    return file_locks.held(path.with_name(f".{path.name}.lock"), PATIENCE)


def path_of(name: str, suffix: str = _SUFFIX) -> Path | None:
    """The file of a program, or of what else is known under a name; None where nothing is kept."""
    home = folder()
    if home is None:
        return None
    code = generator()
    if code is None:
        _say("its own sources changed after this process started")
        return None
    return home / f"{hashlib.sha256(f'{name} {code}'.encode()).hexdigest()}{suffix}"


def read(path: Path) -> Program | None:
    """The program in a file; None where there is none that can be used."""
    data = contents(path)
    try:
        return None if data is None else archive.decode(data, path.stem)
    except (ValueError, BuildError, MemoryError):
        return None


def write(path: Path, program: Program) -> None:
    """Keep a program, if that is possible."""
    try:
        keep(path, archive.encode(program, path.stem))
    except (ValueError, MemoryError, BuildError) as error:
        _say(str(error))


def contents(path: Path) -> bytes | None:
    """The bytes of an entry, which is used now; None where there is none that its owner alone can change."""
    try:
        with files.opened(path) as file:
            status = os.fstat(file.fileno())
            if status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH:
                _say(f"{path} is not a file that only its owner, this user, can change")
                return None
            data = file.read()
    except (OSError, ValueError, MemoryError):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return data


def keep(path: Path, data: bytes) -> None:
    """Write an entry, whole or not at all, if that is possible."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_mode & stat.S_IWOTH:
            _say(f"everybody may write to {path.parent}")
            return
        with files.replacing(path, durable=False, private=True) as file:
            file.write(data)
        trim(path.parent, len(data))
    except files.NotRegular as error:
        _log.warning("a kernel is not kept in %s: %s; remove it", path, error.strerror)
    except OSError as error:
        _say(f"{path.parent}: {error.strerror}")


def trim(home: Path, added: int, suffixes: tuple[str, ...] = (_SUFFIX, FOUND), limit: int | None = None) -> None:
    """Keep a folder within its limit: it is looked through at the first entry, and when it may have grown too large."""
    limit = LIMIT if limit is None else limit
    known = _written.get(home)
    _written[home] = limit + 1 if known is None else known + added
    if _written[home] <= limit:
        return
    entries, now = [], time.time()
    with os.scandir(home) as found:
        for entry in found:
            with contextlib.suppress(FileNotFoundError):  # another process trims too
                status = entry.stat(follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    continue
                if entry.name.endswith(suffixes):
                    entries.append((status.st_mtime, status.st_size, entry.path))
                elif entry.name.startswith(".") and any(suffix in entry.name for suffix in suffixes) and now - status.st_mtime > _ABANDONED:
                    Path(entry.path).unlink()
    total = sum(size for _, size, _ in entries)
    if total > limit:
        for _, size, old in sorted(entries):
            with contextlib.suppress(FileNotFoundError):
                Path(old).unlink()
            total -= size
            if total <= limit * 3 // 4:
                break
    _written[home] = total


if folder() is not None:
    generator()  # as the sources are when they are loaded, and not while somebody waits for the first kernel


@cache
def _say(why: str) -> None:
    _log.warning("kernels are not kept in files: %s", why)
