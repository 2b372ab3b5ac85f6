"""A function that cannot be named, called in a fork of this process: a user's lambda over tensors of his, which may loop, exit or crash.

The parent owns the clock and kills the child with its group when time is up; memory is bounded by what the child may grow by. It dies with
its parent, reads nothing from the terminal, and serves one call after another until it is lost; the next call then forks another one. Only
plain data comes back. What the function changes in its process, it changes in the child's.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import resource
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, NoReturn, TypeVar

from msgspec import Struct

from tensorlang.autotune.log.status import Failure, Status
from tensorlang.autotune.workers.channel import Broken, Channel, Closed, Late
from tensorlang.autotune.workers.isolation import isolate
from tensorlang.autotune.workers.protocol import decode
from tensorlang.system.memory import memory

Asked = TypeVar("Asked", bound=Struct)
Answered = TypeVar("Answered", bound=Struct)

MEMORY: Final = 4 << 30
"""Bytes by which the child may grow, where there is twice as much."""
WAIT_S: Final = 1.0
"""Seconds in which a child that hung up has to end."""


class _Reply(Struct, frozen=True):
    """What the child says first: nothing if an answer follows, else why there is none."""

    fault: str = ""
    memory: bool = False


Frame = tuple[bytes, list[bytes]]


class Lost(Exception):  # noqa: N818 - a state of the child, told as the outcome of what was asked
    """The call came to nothing: what a record says of it."""

    def __init__(self, status: Status, failure: Failure) -> None:
        super().__init__(failure.message)
        self.status = status
        self.failure = failure


class Forked(Generic[Asked, Answered]):
    """Calls `function` elsewhere, with limits; `answer` is the type of what it returns. One call at a time."""

    def __init__(self, function: Callable[[Asked], Answered], asked: type[Asked], answer: type[Answered]) -> None:
        self._function = function
        self._asked = asked
        self._answer = answer
        self._pid = 0
        self._channel: Channel[Frame] | None = None

    def __del__(self) -> None:
        """No child outlives what it is for."""
        self.close()

    def begin(self) -> None:
        """Fork now, before there are threads that hold what a child would wait for. Raises `OSError` where there can be no process."""
        if self._channel is not None:
            return
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # what is in a buffer would be written twice
                stream.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: ours are waited for, see `system.forks`
            pid = os.fork()
        if pid == 0:
            self._serve(theirs, ours, parent)
        theirs.close()
        self._pid, self._channel = pid, Channel(ours, _frame)

    def call(self, request: Asked, seconds: float) -> Answered:
        """What the function makes of the request within so many seconds. Raises `Lost` where there is no answer."""
        deadline = time.monotonic() + seconds
        try:
            self.begin()
        except OSError as error:
            raise Lost("infra", Failure("OSError", f"no process can be started: {error}")) from None
        assert self._channel is not None, "it was begun"
        try:
            self._channel.send(request, deadline)
            reply = decode(_Reply, *self._channel.receive(deadline))
            if not reply.fault:
                return decode(self._answer, *self._channel.receive(deadline))
        except Late:
            self.close()
            raise Lost("compile_timeout", Failure("Timeout", f"not there after {seconds:.3g} s, when it was stopped")) from None
        except (Broken, Closed, ValueError):
            raise self._end() from None
        except BaseException:
            self.close()
            raise
        raise Lost("oom" if reply.memory else "compile_crash", Failure("MemoryError" if reply.memory else "Exit", reply.fault))

    def close(self) -> None:
        """Kill the child, if there is one, with its group."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        channel.close()
        self._reap(kill=True)

    def _end(self) -> Lost:
        """What a child came to that hung up."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        code = self._reap(kill=False)
        if code == -signal.SIGKILL:
            return Lost("oom", Failure("Killed", "its process was killed, as the system does where memory runs out", signal.SIGKILL))
        if code >= 0:
            return Lost("compile_crash", Failure("Exit", f"its process ended itself with exit code {code}"))
        name = f"signal {-code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
        return Lost("compile_crash", Failure("Crash", f"its process died of {name}", -code))

    def _reap(self, *, kill: bool) -> int:
        """The exit code of the child (negative: a signal), which is killed at once or when it does not end."""
        pid, self._pid = self._pid, 0
        end = time.monotonic() + WAIT_S
        while True:
            if kill or time.monotonic() > end:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)  # before it has a group of its own
            try:
                done, status = os.waitpid(pid, 0 if kill else os.WNOHANG)
            except ChildProcessError:  # somebody else waits for all children
                return 0
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.01)

    def _serve(self, end: socket.socket, parents: socket.socket, parent: int) -> NoReturn:
        """Answer until the parent hangs up; nothing of the parent's own work is gone on with here."""
        try:
            os.setsid()
            faulthandler.disable()  # a crash is told in a line
            parents.close()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            isolate(parent, _taken() + min(memory() // 2 or MEMORY, MEMORY))
            channel = Channel(end, _frame, longest=None)
            while True:
                for message in self._answered(decode(self._asked, *channel.receive())):
                    channel.send(message)
        except Closed:
            pass
        except BaseException:  # noqa: BLE001 - a fault of ours, of which the parent is told the exit code alone
            traceback.print_exc()
        finally:
            os._exit(1)

    def _answered(self, request: Asked) -> tuple[Struct, ...]:
        try:
            return _Reply(), self._function(request)
        except MemoryError as error:
            return (_Reply(f"out of memory: {error}".rstrip(": "), memory=True),)
        except SystemExit as error:
            return (_Reply(f"it called exit({'' if error.code is None else error.code})"),)
        except BaseException as error:  # noqa: BLE001 - a user's code may raise anything
            return (_Reply(f"{type(error).__name__}: {error}".partition("\n")[0][:500]),)


def _frame(text: bytes, beside: list[bytes]) -> Frame:
    return text, beside


def _taken() -> int:
    """Bytes of address space that this process has, which a fork has too."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return 0
