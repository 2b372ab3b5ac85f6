"""LLVM in a process that may die: what is not proven to compile is compiled there (see `safe_compilation`).

    ours                                   the process that may die (`isolated_server`)
    {"kind", "words", "size"} + text  ->   LLVM
                                      <-   {"status", "size"} + what was asked for

LLVM ends its process where it cannot select instructions, is out of memory or meets a fault of its own, and nobody can interrupt it.
So a request has a deadline, and the death of the process is an answer: `Died`, with LLVM's last words. The process is started when it is
first needed and serves until ours ends; it closes with its socket, and ends itself where it computes for nobody. A child that is forked
has one of its own. One request is served at a time, whichever thread it comes from, as LLVM itself does.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Final

from tensorlang.errors import BuildError, InternalError
from tensorlang.system import forks

LIMIT: Final = 300.0
"""Seconds that one request may take: thirty times what the largest program needs, on a machine that does nothing else."""

_NAME: Final = "tensorlang.codegen.llvm.isolated_server"


class Died(Exception):  # noqa: N818 - not an error of the program: an answer
    """LLVM did not come back; the text says how it ended."""


class _Helper:
    """The process, our end of the socket, and the file that holds what LLVM prints."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _NAME, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self.log,
                stderr=self.log,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path), "PYTHONFAULTHANDLER": ""},  # noqa: PTH109
            )
        except BaseException:
            self.socket.close()
            self.log.close()
            raise
        finally:
            theirs.close()

    def ask(self, kind: str, words: tuple[str, ...], text: str, limit: float) -> tuple[str, bytes]:
        """The status of a request and what it gave. Raises `OSError` where the process ends or the time is up."""
        until, given = time.monotonic() + limit, text.encode()
        self.log.seek(0)
        self.log.truncate()
        head = json.dumps({"kind": kind, "words": words, "size": len(given), "limit": limit}).encode()
        self.socket.settimeout(limit)
        self.socket.sendall(head + b"\n" + given)
        buffer = b""
        while b"\n" not in buffer:
            buffer += self._some(until)
        head, _, rest = buffer.partition(b"\n")
        answer, parts = json.loads(head), [rest]
        while sum(map(len, parts)) < answer["size"]:
            parts.append(self._some(until))
        return answer["status"], b"".join(parts)

    def _some(self, until: float) -> bytes:
        self.socket.settimeout(max(until - time.monotonic(), 0.001))
        found = self.socket.recv(1 << 16)
        if not found:
            raise ConnectionResetError
        return found

    def printed(self) -> str:
        """What LLVM printed since the last request."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def end(self, *, kill: bool) -> int:
        """Close the socket, at which the process ends, or kill it; its exit code."""
        self.socket.close()
        if not kill:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.process.wait(1.0)
        self.process.kill()
        return self.process.wait()

    def forget(self) -> None:
        """Leave the process to our parent, who started it."""
        self.socket.close()
        self.log.close()
        self.process.returncode = 0


class _HelperSlot:
    """The helper of this process, if there is one, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helper: _Helper | None = None

    def renew(self) -> None:
        """In a forked child: share no process, and no lock that a thread of the parent holds."""
        self.lock = threading.Lock()
        if self.helper is not None:
            self.helper.forget()
        self.helper = None

    def end(self) -> None:
        """Let the process go."""
        helper, self.helper = self.helper, None
        if helper is not None:
            helper.end(kill=False)
            helper.log.close()


_slot: Final = _HelperSlot()
forks.anew(_slot)
atexit.register(_slot.end)


def ask(kind: str, *words: str, text: str = "", limit: float = LIMIT, fresh: bool = False) -> tuple[bytes, str]:
    """What the process (a `fresh` one: some things LLVM prints once) gives for a request, and what LLVM printed meanwhile.

    Raises `Died` where LLVM ends or takes longer than `limit` seconds, `BuildError` where no process can be started, and what LLVM or
    our use of it raised there.
    """
    with _slot.lock:
        if fresh:
            _slot.end()
        try:
            helper = _slot.helper = _slot.helper or _Helper()
        except OSError as error:
            raise BuildError(f"the process in which LLVM runs cannot be started: {error}") from None
        try:
            status, found = helper.ask(kind, words, text, limit)
        except BaseException as error:
            _slot.helper = None
            code = helper.end(kill=not isinstance(error, (ConnectionError, BrokenPipeError)))
            last = _last_words(helper.printed())
            helper.log.close()
            if isinstance(error, TimeoutError):
                raise Died(f"LLVM was not done after {limit:.0f} s") from None
            if isinstance(error, OSError):
                raise Died(f"LLVM ended on {_cause(code)}{last}") from None
            raise
        match status:
            case "ok":
                return found, helper.printed()
            case "refused":
                raise BuildError(found.decode())
            case _:
                raise InternalError(found.decode())


def _cause(code: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


def _last_words(printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    told = next((line for line in lines if "LLVM ERROR" in line or "Assertion" in line), lines[-1] if lines else "")
    return f": {told.removeprefix('LLVM ERROR: ')[:200]}" if told else ""
