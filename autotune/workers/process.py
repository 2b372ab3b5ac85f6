"""A disposable process as the tuner sees it: in a session of its own, spoken to over a private socket, killed with its whole group."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Generic, TypeVar

from tensorlang.autotune.workers.channel import Channel
from tensorlang.autotune.workers.protocol import Answer, read_answer

Heard = TypeVar("Heard")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a worker may take: seconds to start, compile and run, candidates before it is recycled, bytes of address space (0: any)."""

    start_s: float = 60.0
    compile_s: float = 30.0
    run_s: float = 30.0
    recycle: int = 100
    memory: int = 0


class Disposable(Generic[Heard]):
    """One process that runs `module` and the channel to it, of whose frames `read` makes messages."""

    def __init__(
        self, module: str, read: Callable[[bytes, list[bytes]], Heard], limits: Limits, path: tuple[str, ...], cores: Sequence[int]
    ) -> None:
        ours, theirs = socket.socketpair()
        self.served = 0
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        paths = [*path, _root(), *filter(None, [os.environ.get("PYTHONPATH")])]
        facts = (theirs.fileno(), os.getpid(), limits.memory, ",".join(map(str, cores)))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *map(str, facts)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": ""},
            )
        except BaseException:
            ours.close()
            self._stderr.close()
            raise
        finally:
            theirs.close()
        self.channel: Channel[Heard] = Channel(ours, read)
        self.pid = self._process.pid

    def kill(self) -> int:
        """End the process group, whatever it is doing; the exit code (negative: a signal)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self.channel.close()
        return code

    def exit_code(self) -> int:
        """The exit code of a process whose channel closed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return self.kill()

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(size - 2000, 0))
        return self._stderr.read().decode(errors="replace").strip()

    def forget(self) -> None:
        """Release the file that held its last words."""
        self._stderr.close()


class Worker(Disposable[Answer]):
    """A process that builds candidates, or checks and times them."""

    def __init__(self, limits: Limits, path: tuple[str, ...], cores: Sequence[int]) -> None:
        super().__init__("tensorlang.autotune.workers.worker", read_answer, limits, path, cores)


def _root() -> str:
    """The folder that holds the package, so that the worker imports the same one."""
    import tensorlang  # noqa: PLC0415

    return str(Path(next(iter(tensorlang.__path__))).resolve().parent)
