"""Locks between processes: files that the system unlocks when who holds one ends, however it ends.

Nobody waits for a holder that is gone. One that lives and does not come on (stopped, or its lock inherited by a child that stays) is
waited for as long as the caller has patience, and then done without. So a lock saves work; nothing may depend on it.

A lock file is removed by its holder. Who then gets the lock of a file that is not there any more tries again with the one that is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tensorlang.system import files

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05
"""Seconds between looks at a lock that somebody has."""


@contextlib.contextmanager
def held(path: Path, patience: float) -> Iterator[bool]:
    """Hold the lock of a path for the block, waiting at most `patience` seconds for who has it; is it held?

    Where the file cannot be had, the block runs without a lock.
    """
    descriptor = _acquired(path, time.monotonic() + patience)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                path.unlink()
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing alone would leave it with a forked child
            os.close(descriptor)


def _acquired(path: Path, deadline: float) -> int | None:
    """A descriptor that has the lock."""
    pause = _FIRST_PAUSE
    while True:
        try:
            descriptor = files.descriptor(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BlockingIOError:
            pass
        except OSError as error:
            if not isinstance(error, FileNotFoundError):  # a file system without locks
                os.close(descriptor)
                return None
        os.close(descriptor)
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
