"""The parent's side of the disposable process: deadlines, kills, and what a death means.

The tuner never compiles or runs a candidate itself. It owns the clock: a worker that does not answer in time is killed with its whole
process group, since neither a signal handler nor a timer inside a process that is stuck in native code can be relied on. A death is
classified by what the worker was doing, by its signal and by what it last wrote to stderr; then a new worker takes over. A candidate
that killed a worker which had served others before is tried once more, alone, since memory that an earlier one damaged may be to blame.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self

from tensorlang.autotune.protocol import Broken, Channel, Closed, Late
from tensorlang.errors import TuningError

_OOM: Final = ("out of memory", "MemoryError", "bad_alloc", "Cannot allocate memory")
_RETRIED: Final = frozenset({"crash", "compile_crash", "killed"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds to start, to compile and to run; candidates before a worker is recycled; bytes of address space (0: no bound)."""

    start_s: float = 60.0
    compile_s: float = 30.0
    run_s: float = 30.0
    recycle: int = 100
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a request: a status of the log's, and what the worker told (samples, schedule, seconds)."""

    status: str
    told: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    place: int = 0


class Worker:
    """One process and the channel to it."""

    def __init__(self, limits: Limits, path: tuple[str, ...] = ()) -> None:
        ours, theirs = socket.socketpair()
        self.served = 0
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        root = _root()
        paths = [*path, root, *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [sys.executable, "-P", "-m", "tensorlang.autotune.worker", str(theirs.fileno()), str(os.getpid()), str(limits.memory)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": ""},
            )
        finally:
            theirs.close()
        self.channel = Channel(ours)
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


class Runner:
    """Runs requests on one task, one at a time, each in a worker that may die of it. `task` is set before the first request."""

    def __init__(self, limits: Limits, *, path: tuple[str, ...] = ()) -> None:
        self.task: dict[str, Any] = {}
        self.limits = limits
        self.started = 0
        self._path = path
        self._worker: Worker | None = None
        self._spare: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prestart(self) -> None:
        """Let a worker start while the caller does something else."""
        with contextlib.suppress(OSError):  # reported when the worker is needed
            self._spare = self._spare or Worker(self.limits, self._path)

    def close(self) -> None:
        """Kill the worker, if there is one."""
        for worker in (self._worker, self._spare):
            if worker is not None:
                worker.kill()
                worker.forget()
        self._worker = self._spare = None

    def trial(self, candidate: dict[str, Any], meanwhile: Callable[[], None] | None = None, run_s: float = math.inf) -> Outcome:
        """Build, verify and time one candidate, in at most `run_s` seconds of running if that is less than the limit.

        `meanwhile` is called once while the worker compiles; measuring waits for its end.
        """
        outcome, alone = self._once({"trial": candidate}, meanwhile, run_s)
        if outcome.status in _RETRIED and not alone:
            outcome, _ = self._once({"trial": candidate}, None, run_s)
        return outcome

    def paired(self, candidates: list[dict[str, Any]]) -> Outcome:
        """Build, verify and time several candidates in a new worker, their samples interleaved. `place` tells which one failed."""
        self.close()
        return self._once({"paired": candidates}, None, math.inf)[0]

    def _once(self, request: dict[str, Any], meanwhile: Callable[[], None] | None, run_s: float) -> tuple[Outcome, bool]:
        if self._worker is not None and self._worker.served >= self.limits.recycle:
            self.close()
        worker = self._worker or self._start()
        alone = worker.served == 0
        worker.served += 1
        try:
            return self._converse(worker, request, meanwhile, min(run_s, self.limits.run_s)), alone
        except BaseException:
            self.close()
            raise

    def _converse(self, worker: Worker, request: dict[str, Any], meanwhile: Callable[[], None] | None, run_s: float) -> Outcome:
        phase, place, told = "compiling", 0, dict[str, Any]()
        deadline = time.monotonic() + self.limits.compile_s
        try:
            worker.channel.send(request)
            if meanwhile is not None:
                meanwhile()
            while True:
                message = worker.channel.receive(deadline)
                match message:
                    case {"phase": "ready"}:
                        worker.channel.send({"go": True})
                    case {"phase": "compiling"}:
                        phase, place = "compiling", message.get("place", place)
                        deadline = time.monotonic() + self.limits.compile_s
                    case {"phase": "running"}:
                        phase, told = "running", {name: message[name] for name in message.keys() - {"phase"}}
                        deadline = time.monotonic() + run_s
                    case {"reply": dict(reply)}:
                        return _answered(reply, phase, place, told)
                    case _:
                        raise Broken("a message that is not known")  # noqa: TRY301 - as any other garbage
        except Late:
            limit = self.limits.compile_s if phase == "compiling" else run_s
            self.close()
            status = "compile_timeout" if phase == "compiling" else "run_timeout"
            return Outcome(status, told, _error("Timeout", f"killed after {limit:g} s of {phase}", signal.SIGKILL), place)
        except Broken as error:
            self.close()
            return Outcome("crash", told, _error("Protocol", f"the worker sent {error}", None), place)
        except Closed:
            return self._died(worker, phase, place, told)

    def _died(self, worker: Worker, phase: str, place: int, told: dict[str, Any]) -> Outcome:
        code = worker.exit_code()
        words = worker.last_words()
        self.close()
        number = -code if code < 0 else None
        name = signal.Signals(number).name if number is not None else f"exit({code})"
        if any(mark in words for mark in _OOM):
            status = "oom"
        elif number == signal.SIGKILL:
            status = "killed"  # not by us: the kernel's out-of-memory killer, or a person
        else:
            status = "compile_crash" if phase == "compiling" else "crash"
        return Outcome(status, told, _error(name, f"the worker died while {phase}: {words[-400:] or name}", number), place)

    def _start(self) -> Worker:
        """A worker that has the task. Raises `TuningError` if none can be started."""
        trouble = ""
        for attempt in range(3):
            if attempt:
                time.sleep(0.5 * attempt)
            try:
                worker = self._worker = self._spare or Worker(self.limits, self._path)
            except OSError as error:
                trouble = str(error)
                continue
            self._spare = None
            self.started += 1
            try:
                deadline = time.monotonic() + self.limits.start_s
                worker.channel.receive(deadline)
                worker.channel.send({"task": self.task})
                reply = worker.channel.receive(deadline)["reply"]
                if reply["status"] == "ok":
                    return worker
                trouble = reply["error"]["message"]
            except (Closed, Late, Broken, KeyError) as error:
                worker.exit_code()
                trouble = worker.last_words() or type(error).__name__
            except BaseException:
                self.close()
                raise
            self.close()
        raise TuningError(f"no worker process can be started: {trouble[-500:]}")


def _answered(reply: dict[str, Any], phase: str, place: int, told: dict[str, Any]) -> Outcome:
    status = str(reply.pop("status", "infra"))
    if status == "error":
        status = "compile_error" if phase == "compiling" else "crash"
    return Outcome(status, {**told, **reply}, reply.pop("error", None), place)


def _error(kind: str, message: str, number: int | None) -> dict[str, Any]:
    return {"type": kind, "message": message[:500], "signal": None if number is None else int(number)}


def _root() -> str:
    """The folder that holds the package, so that the worker imports the same one."""
    import tensorlang  # noqa: PLC0415

    return str(Path(next(iter(tensorlang.__path__))).resolve().parent)
