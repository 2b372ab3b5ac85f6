"""One place for a worker, and the conversation with it: deadlines, kills, and what a death means.

The tuner never compiles or runs a candidate itself. It owns the clock: a worker that does not answer in time is killed with its whole
process group, since neither a signal handler nor a timer inside a process that is stuck in native code can be relied on. A death is
classified by what the worker was doing, by its signal and by what it last wrote to stderr; then a new worker takes over. A candidate
that killed a worker which had served others before is tried once more, alone, since memory that an earlier one damaged may be to blame.

A conversation is a generator that is sent messages and yields the deadline for the next one, so that one thread holds several.
"""

from __future__ import annotations

import contextlib
import math
import select
import signal
import time
from collections.abc import Callable, Generator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from tensorlang.autotune.log.status import Failure, Status
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.channel import Broken, Closed, Late
from tensorlang.autotune.workers.process import Limits, Worker
from tensorlang.autotune.workers.protocol import NOTHING, Answer, Compiling, Facts, Hello, Outcome, Request, Running, Take, WorkerTask
from tensorlang.errors import TuningError

_OOM: Final = ("out of memory", "MemoryError", "bad_alloc", "Cannot allocate memory")
_RETRIED: Final = frozenset({"crash", "compile_crash", "killed"})


_Talk: TypeAlias = "Generator[float, Answer, Outcome]"


class WorkerSlot:
    """Holds one request at a time. `task` is what a new worker is told first; it is set before the first request."""

    def __init__(self, limits: Limits, path: tuple[str, ...] = ()) -> None:
        self.task: WorkerTask | None = None
        self.limits = limits
        self.started = 0
        self.began = 0.0
        """When the worker was given the request, of `time.monotonic`."""
        self.worker: Worker | None = None
        self._path = path
        self._cores = host.cores()  # those of the tuner may be fewer when a later worker starts
        self._spare: Worker | None = None
        self._talk: Generator[float, Answer, Outcome | None] | None = None
        self._requested = False
        self._then: tuple[Request, float] | None = None
        self._deadline = math.inf
        self._outcome: Outcome | None = None

    @property
    def busy(self) -> bool:
        """Is a request under way, or its outcome not yet taken?"""
        return self._requested

    @property
    def talking(self) -> bool:
        """Is there anything to wait for, be it the start of a worker?"""
        return self._talk is not None or self._outcome is not None

    def prestart(self) -> None:
        """Let a worker start while the caller does something else."""
        if self.worker is None:
            with contextlib.suppress(OSError):  # reported when the worker is needed
                self._spare = self._spare or Worker(self.limits, self._path, self._cores)

    def close(self) -> None:
        """Kill the worker, if there is one."""
        talk, self._talk, self._outcome = self._talk, None, None
        self._requested, self._then = False, None
        self._end()
        if talk is not None:
            talk.close()

    def begin(self, request: Request, run_s: float = math.inf) -> None:
        """Send a request: what it compiles has the limit's seconds for that, what it runs at most `run_s`. Raises `TuningError`."""
        self._requested = True
        if self._talk is not None:  # the worker is about to be ready
            self._then = request, run_s
            return
        talk = self._conversation(request, min(run_s, self.limits.run_s))
        self._talk = talk
        self._resume(lambda: next(talk))

    def ready(self) -> None:
        """Have the worker take the task before the first request, as far as that goes without waiting. Raises `TuningError`."""
        if self.worker is None and self._talk is None:
            talk = self._readied()
            self._talk = talk
            self._resume(lambda: next(talk))

    def step(self) -> Outcome | None:
        """Go on as far as that goes without waiting; the outcome if there is one. Raises `TuningError` if no worker can be started."""
        while (talk := self._talk) is not None and self.worker is not None:
            try:
                message = self.worker.channel.arrived()
            except (Broken, Closed) as end:
                self._resume(lambda end=end, talk=talk: talk.throw(end))  # type: ignore[misc]
                continue
            if message is not None:
                self._resume(lambda message=message, talk=talk: talk.send(message))  # type: ignore[misc]
            elif time.monotonic() >= self._deadline:
                self._resume(lambda talk=talk: talk.throw(Late()))  # type: ignore[misc]
            else:
                return None
        outcome, self._outcome = self._outcome, None
        self._requested = self._requested and outcome is None
        return outcome

    def _resume(self, resume: Callable[[], float]) -> None:
        try:
            self._deadline = resume()
        except StopIteration as end:
            self._talk, self._outcome = None, end.value
            if self._then is not None:
                then, self._then = self._then, None
                self.begin(*then)
        except BaseException:
            self._talk = None
            self._end()
            raise

    def _end(self) -> None:
        workers, self.worker, self._spare = (self.worker, self._spare), None, None
        for worker in workers:
            if worker is not None:
                worker.kill()
                worker.forget()

    # The conversation ------------------------------------------------------------------------------------------------------------

    def _readied(self) -> Generator[float, Answer, None]:
        yield from self._start()

    def _conversation(self, request: Request, run_s: float) -> _Talk:
        if self.worker is not None and self.worker.served >= self.limits.recycle:
            self._end()
        alone = self.worker is None or self.worker.served == 0
        outcome = yield from self._once(request, run_s)
        if outcome.status in _RETRIED and not alone:
            outcome = yield from self._once(request, run_s)
        return outcome

    def _once(self, request: Request, run_s: float) -> _Talk:
        worker = self.worker or (yield from self._start())
        worker.served += 1
        phase, place, facts = "compiling", 0, NOTHING
        self.began = time.monotonic()
        deadline = self.began + self.limits.compile_s
        try:
            worker.channel.send(request, deadline)
            while True:
                message = yield deadline
                match message:
                    case Compiling(place):
                        phase = "compiling"
                        deadline = time.monotonic() + self.limits.compile_s
                    case Running(facts):
                        phase = "running"
                        deadline = time.monotonic() + run_s
                    case Outcome():
                        return _answered(message, phase, place, facts)
                    case Hello():
                        raise Broken("a greeting in the middle")  # noqa: TRY301 - as any other garbage
        except Late:
            limit = self.limits.compile_s if phase == "compiling" else run_s
            self._end()
            ran_out: Status = "compile_timeout" if phase == "compiling" else "run_timeout"
            return Outcome(ran_out, facts, _fault("Timeout", f"killed after {limit:g} s of {phase}", signal.SIGKILL), place)
        except Broken as error:
            self._end()
            return Outcome("crash", facts, _fault("Protocol", f"the worker sent {error}", None), place)
        except Closed:
            return self._died(worker, phase, place, facts)

    def _died(self, worker: Worker, phase: str, place: int, facts: Facts) -> Outcome:
        code = worker.exit_code()
        words = worker.last_words()
        self._end()
        number = -code if code < 0 else None
        name = f"exit({code})" if number is None else _signal(number)
        status: Status
        if any(mark in words for mark in _OOM):
            status = "oom"
        elif number == signal.SIGKILL:
            status = "killed"  # not by us: the kernel's out-of-memory killer, or a person
        else:
            status = "compile_crash" if phase == "compiling" else "crash"
        return Outcome(status, facts, _fault(name, f"the worker died while {phase}: {words[-400:] or name}", number), place)

    def _start(self) -> Generator[float, Answer, Worker]:
        """A worker that has the task. Raises `TuningError` if none can be started."""
        assert self.task is not None, "a task is set first"
        trouble = ""
        for attempt in range(3):
            if attempt:
                time.sleep(0.5 * attempt)
            try:
                worker = self.worker = self._spare or Worker(self.limits, self._path, self._cores)
            except OSError as error:
                trouble = str(error)
                continue
            self._spare = None
            self.started += 1
            try:
                deadline = time.monotonic() + self.limits.start_s
                yield deadline
                worker.channel.send(Take(self.task), deadline)
                answer = yield deadline
                if isinstance(answer, Outcome) and answer.status == "ok":
                    return worker
                trouble = answer.error.message if isinstance(answer, Outcome) and answer.error is not None else "it answered nonsense"
            except (Closed, Late, Broken) as error:
                worker.exit_code()
                trouble = worker.last_words() or type(error).__name__
            self._end()
        raise TuningError(f"no worker process can be started: {trouble[-500:]}")

    @property
    def deadline(self) -> float:
        """When the worker must have said more, of `time.monotonic`."""
        return self._deadline


def wait(slots: Sequence[WorkerSlot], until: float = math.inf) -> None:
    """Return when one of the busy slots has something to do, or at `until`."""
    poll = select.poll()  # not select: descriptors may be above 1023
    for slot in slots:
        if slot.talking and slot.worker is None:
            return
        if slot.talking and slot.worker is not None:
            poll.register(slot.worker.channel, select.POLLIN)
            until = min(until, slot.deadline)
    left = until - time.monotonic()
    poll.poll(None if left == math.inf else math.ceil(max(left, 0) * 1000))


def finish(slot: WorkerSlot) -> Outcome:
    """Wait for the outcome of the request under way."""
    while (outcome := slot.step()) is None:
        wait([slot])
    return outcome


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"


def _answered(outcome: Outcome, phase: str, place: int, facts: Facts) -> Outcome:
    status: Status | Literal["error"] = outcome.status
    if status == "error":
        status = "compile_error" if phase == "compiling" else "crash"
    return msgspec.structs.replace(outcome, status=status, facts=facts.then(outcome.facts), place=place)


def _fault(kind: str, message: str, number: int | None) -> Failure:
    return Failure(kind, message[:500], None if number is None else int(number))
