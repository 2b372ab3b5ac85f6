"""A function of this package, called in a process with limits: one that runs a user's file, or an evaluator that may take for ever.

The parent owns the clock and kills the process with its whole group when time is up; memory is bounded by the system. Whatever becomes of
the process, the caller gets the answer, checked field by field, or one `TuningError` that says what it came to. Functions are named,
not sent, and requests and answers are plain data (see `protocol`).
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

from msgspec import Struct

from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.channel import Broken, Closed, Late
from tensorlang.autotune.workers.process import Disposable, Limits
from tensorlang.autotune.workers.protocol import Function, Returned, decode
from tensorlang.errors import TuningError

Answered = TypeVar("Answered", bound=Struct)

CHILD: Final = "tensorlang.autotune.workers.limited_child"


def duty(function: Callable[[Any], Struct]) -> str:
    """How a function at the top of a module is named."""
    return f"{function.__module__}:{function.__qualname__}"


class LimitError(TuningError):
    """What was asked for takes more than it may have: time, memory, or the life of its process."""


class LimitedProcess:
    """One process at a time, started when it is needed and again where it died; `memory` in bytes (0: any), `path` for its imports."""

    def __init__(self, memory: int = 0, path: tuple[str, ...] = ()) -> None:
        self._limits = Limits(memory=memory)
        self._path = path
        self._process: Disposable[Frame] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.forget()

    def call(self, function: str, request: Struct, answer: type[Answered], seconds: float, what: str) -> Answered:
        """What the function (see `duty`) makes of the request within so many seconds; `what` begins the message of the error.

        Raises `TuningError` where it refuses or fails, `LimitError` where it does not return in time, or takes its process with it.
        """
        try:
            process = self._process or self._started()
        except (OSError, Closed, Late, Broken) as error:
            self.close()
            raise TuningError(f"{what}: no process can be started: {error}") from None
        deadline = time.monotonic() + seconds
        try:
            process.channel.send(Function(function), deadline)
            process.channel.send(request, deadline)
            told = decode(Returned, *process.channel.receive(deadline))
            if told.error is None:
                return decode(answer, *process.channel.receive(deadline))
        except Late:
            self.close()
            raise LimitError(f"{what}: not there after {seconds:.3g} s, when it was stopped; allow more time (timeout)") from None
        except (Broken, ValueError) as error:
            self.close()
            raise TuningError(f"{what}: the process sent {error}") from None
        except Closed:
            raise LimitError(f"{what}: {self._end()}") from None
        except BaseException:
            self.close()
            raise
        kind = LimitError if told.memory else TuningError
        raise kind(told.error if told.refused else f"{what}: {told.error}")

    def _started(self) -> Disposable[Frame]:
        process = self._process = Disposable(CHILD, _frame, self._limits, self._path, host.cores())
        process.channel.receive(time.monotonic() + self._limits.start_s)
        return process

    def _end(self) -> str:
        """What a process came to that hung up."""
        process = self._process
        assert process is not None, "it was spoken to"
        code = process.exit_code()
        words = process.last_words()[-300:]
        self.close()
        if code == -signal.SIGKILL:
            return "its process was killed, as the system does where memory runs out"
        if code >= 0:
            return f"its process ended itself with exit code {code}" + (f": {words}" if words else "")
        name = f"signal {-code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
        return f"its process died of {name}" + (f": {words}" if words else "")


Frame = tuple[bytes, list[bytes]]


def _frame(text: bytes, beside: list[bytes]) -> Frame:
    return text, beside
