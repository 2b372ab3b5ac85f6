"""One writer for a log at a time: who holds it stands in a file beside it, `LOG.lock`.

Two runs on one log would measure the same points twice, and on the same cores. `flock` cannot tell who has it, and on network file
systems often has no effect between hosts. So the lock is a file with its owner in it, made by a hard link, which is atomic on all of them.
An owner on this machine is alive or not: its process is there, with the same start, since the same boot, in the same namespace of
processes. Of an owner elsewhere only the heartbeat is known, the time of the file, which its owner moves; it is compared with the time
that the file system gives a new file, so no clock but the file system's counts.

A lock whose owner is dead is taken over. Of several that try, the one whose link is first may, and only while the lock still is the one
that was found dead; so a lock that somebody else has just taken over is never taken from him.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from tensorlang.autotune.log.clock import boot_id
from tensorlang.errors import LogError
from tensorlang.system import files

BEAT_S: Final = 10.0
"""Seconds between signs of life."""
SILENT_S: Final = 300.0
"""Without a sign of life for so long, an owner on another machine counts as dead: a machine that pauses is back by then."""
SUFFIX: Final = ".lock"
_ATTEMPTS: Final = 20
_LONGEST: Final = 1 << 12

State: TypeAlias = Literal["alive", "dead", "unknown"]
_Text: TypeAlias = Annotated[str, Meta(max_length=300)]


class LogBusyError(LogError):
    """Somebody else writes the log; the message says who and since when."""


class Owner(Struct, frozen=True, kw_only=True):
    """Who holds a lock: a process, when it started (in ticks since the boot) and in which namespace; `mark` is the lock's own."""

    host: _Text
    pid: int
    boot: _Text = ""
    start: int = 0
    namespace: _Text = ""
    since: float = 0.0
    mark: _Text = ""

    @property
    def is_here(self) -> bool:
        """Is it a process that can be seen from here?"""
        here = this_process()
        return bool(self.boot) and (self.host, self.namespace) == (here.host, here.namespace)

    def state(self, silence: float | None = None) -> State:
        """Is it alive, as far as can be told? `silence` are the seconds since its last sign of life, for one elsewhere."""
        if self.is_here:
            here = this_process()
            return "alive" if self.boot == here.boot and _start_of(self.pid) == self.start else "dead"
        if silence is None:
            return "unknown"
        return "dead" if silence > SILENT_S else "alive"

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def this_process() -> Owner:
    """The owner that this process would be."""
    pid = os.getpid()
    try:
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - no path of a file
    except OSError:
        namespace = ""
    return Owner(host=platform.node(), pid=pid, boot=boot_id(), start=_start_of(pid) or 0, namespace=namespace)


def _start_of(pid: int) -> int | None:
    """When a process started, in ticks since the boot; None if there is none, or it has ended and only its entry is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, ValueError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class LockState:
    """A lock as it was found: its owner, and the seconds since its last sign of life by the clock of the file system (None: unknown)."""

    owner: Owner
    silence: float | None

    @property
    def state(self) -> State:
        """Is the owner alive?"""
        return self.owner.state(self.silence)


def holder(log: Path) -> LockState | None:
    """Who holds the lock of a log, dead or alive; None if nobody does. Needs no right to write, then nothing is known of silence."""
    lock = _lock_of(log)
    owner = _owner(lock)
    return None if owner is None else LockState(owner, None if owner.is_here else _silence(lock))


class WriterLock:
    """The lock of the log at `path`, to be entered; may be entered again by the same thread while it is held.

    Entering raises `LogBusyError` where somebody else holds it, `LogError` where the disk is full. What is no regular file is not locked.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key = os.path.realpath(path)
        self.entered = False

    def __enter__(self) -> Self:
        """Take it, unless this lock is taken already."""
        if not self.entered and _lockable(self._path):
            with _mutex:
                mine = (os.getpid(), threading.get_ident())
                beat = _beats.get(self._key)
                if beat is None or beat.owner != mine:
                    beat = _beats[self._key] = _Beat(mine, _lock_of(self._path), _taken(self._path))
                    beat.start()
                beat.count += 1
                self.entered = True
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it. May be called again."""
        with _mutex:
            beat = _beats.get(self._key)
            if self.entered and beat is not None:
                beat.count -= 1
                if not beat.count:
                    del _beats[self._key]
                    beat.end()
            self.entered = False


class _Beat:
    """A lock that this process holds, and the thread that shows it is alive."""

    def __init__(self, owner: tuple[int, int], lock: Path, mark: str) -> None:
        self.owner = owner
        self.count = 0
        self._lock = lock
        self._token = mark
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._beat, name="tuning-log-heartbeat", daemon=True).start()

    def end(self) -> None:
        """Let go of the lock, if it still is this one."""
        self._over.set()
        if self.owner[0] == os.getpid() and (owner := _owner(self._lock)) is not None and owner.mark == self._token:
            with contextlib.suppress(OSError):
                self._lock.unlink()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError):
                os.utime(self._lock)


_mutex = threading.Lock()
_beats: dict[str, _Beat] = {}


def _lock_of(log: Path) -> Path:
    real = Path(os.path.realpath(log))
    return real.with_name(real.name + SUFFIX)


def _lockable(log: Path) -> bool:
    try:
        return stat.S_ISREG(log.stat().st_mode)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _taken(log: Path) -> str:
    """Take the lock; the mark by which it is known, empty where no file can be made."""
    lock, me = _lock_of(log), msgspec.structs.replace(this_process(), since=round(time.time(), 3), mark=uuid.uuid4().hex)
    try:
        with _written(lock, me) as own:
            for _ in range(_ATTEMPTS):
                if _linked(own, lock):
                    return me.mark
                if (found := _owner(lock)) is None:
                    if lock.exists() and (_silence(lock) or 0.0) > BEAT_S:  # torn: its maker died, or it is none
                        raise LogError(f"{lock} is no lock of a log; remove it if nobody writes {log}")
                    time.sleep(0.05)
                    continue
                silence = _silence(lock)
                if found.state(silence) != "dead":
                    raise LogBusyError(_who(log, found, silence))
                _taken_over(own, lock, found)
    except PermissionError:  # a log in a folder of somebody else: it can be written, but not locked
        return ""
    except OSError as error:
        raise LogError(f"cannot lock the log {log}: {error.strerror}") from None
    raise LogBusyError(f"the log {log} changes hands all the time; try again")


def _who(log: Path, owner: Owner, silence: float | None) -> str:
    if owner.is_here and owner.pid == os.getpid():
        return f"the log {log} is being written by another thread of this process; wait for it, or name another log"
    sign = "" if owner.is_here or silence is None else f", last sign of life {silence:.0f} s ago"
    return f"the log {log} is being written by {owner}{sign}; wait until it is done, or name another log"


def _taken_over(own: Path, lock: Path, dead: Owner) -> None:
    """Put the own lock in the place of a dead one, unless somebody else does or did."""
    claim = lock.with_name(f"{lock.name}.{dead.mark[:32]}")
    if not _linked(own, claim):
        other = _owner(claim)
        if other is not None and other.state(_silence(claim)) == "dead":  # it died between the two steps
            _taken_over(own, claim, other)
        else:
            time.sleep(0.05)
        return
    try:
        if (now := _owner(lock)) is not None and now.mark == dead.mark:
            lock.unlink()
    finally:
        with contextlib.suppress(FileNotFoundError):
            claim.unlink()


def _linked(own: Path, place: Path) -> bool:
    """Make `place` a name of the file `own`, if there is nothing; was there nothing?"""
    try:
        os.link(own, place)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(handle, "wb") as file:
            file.write(own.read_bytes())
    return True


@contextlib.contextmanager
def _written(lock: Path, owner: Owner) -> Iterator[Path]:
    """A file beside the lock that says who this is, as long as the block lasts."""
    own = lock.with_name(f".{lock.name[:60]}.{owner.mark}")
    own.write_bytes(msgspec.json.encode(owner))
    try:
        yield own
    finally:
        own.unlink(missing_ok=True)


def _owner(lock: Path) -> Owner | None:
    """Who is said to hold a lock; None if there is none, or it says nothing that can be."""
    try:
        with files.opened(lock) as file:
            return msgspec.json.decode(file.read(_LONGEST), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return None


def _silence(lock: Path) -> float | None:
    """Seconds since the lock's time was moved, by the clock of its file system; None where no file can be made there to ask for that."""
    probe = lock.with_name(f".{lock.name[:60]}.{uuid.uuid4().hex}.now")
    try:
        probe.touch(exist_ok=False)
        try:
            return max(probe.stat().st_mtime - lock.stat().st_mtime, 0.0)
        finally:
            probe.unlink()
    except OSError:
        return None
