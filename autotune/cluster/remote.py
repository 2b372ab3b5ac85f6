"""What Dask workers are asked to do: tell what machine they are on, take a task, build and measure candidates of it.

Dask calls these functions by name with text and bytes, and gets text and bytes: messages of `messages` and of `workers.protocol`. None
of them runs a candidate: each holds a `Runner`, whose disposable processes die of candidates, and die with the Dask worker. Processes
that nobody has used for a while are ended, since a client that was killed cannot say that it is done.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from tensorlang.autotune.cluster.messages import About, HoldTask, WorkerQuery
from tensorlang.autotune.log.status import Failure
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.protocol import (
    Build,
    Candidate,
    Facts,
    Measure,
    Outcome,
    Paired,
    Request,
    Take,
    Where,
    decode,
    encode,
    read_request,
)
from tensorlang.autotune.workers.runner import Runner, kernels_of, with_builds
from tensorlang.codegen.target import Target, target as named_target, why_foreign
from tensorlang.errors import TensorlangError, TuningError
from tensorlang.system.memory import memory

IDLE_S: Final = 120.0
KEPT: Final = 8
"""Tasks that a worker remembers."""
STRANGER: Final = "Stranger"
"""The fault of a worker that does not know the task."""


def describe(question: str) -> str:
    """The machine (`About`); for a target that is asked about (`WorkerQuery`), also why code for it cannot run here."""
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)  # Dask sets it; kernels measured under it would pay for pages at each call
    here = named_target("native")
    asked = decode(WorkerQuery, question).target
    about = About(
        here.triple,
        here.cpu,
        here.features,
        here.caches,
        host.target_fields(here)["fingerprint"],
        None if asked is None else why_foreign(wanted(asked)),
        host.machine(),
        host.software(),
    )
    return encode(about)[0].decode()


def wanted(fields: host.TargetFields) -> Target:
    """The target that `host.target_fields` describes."""
    return Target(fields["triple"], fields["cpu"], ",".join(f"+{name}" for name in fields["features"]), fields["cpu"])


def take(name: str, order: bytes, beside: list[bytes]) -> None:
    """Remember a task (`HoldTask`)."""
    with _lock:
        if name not in _held:
            _held[name] = HeldTask(decode(HoldTask, order, beside))
            while len(_held) > KEPT:
                _, former = _held.popitem(last=False)
                former.close()


def release(name: str) -> None:
    """Forget a task and end its processes."""
    with _lock:
        held = _held.pop(name, None)
    if held is not None:
        held.close()


def work(topic: str, token: str, name: str, request: bytes, beside: list[bytes]) -> tuple[bytes, list[bytes]]:
    """Do what is asked of a candidate or the finalists (`Build`, `Measure`, `Paired`); the `Outcome`, and the kernel beside it.

    Says that it has begun. Trouble of this worker, not of the candidate, is "infra".
    """
    from distributed import get_worker  # noqa: PLC0415 - only where Dask runs

    get_worker().log_event(topic, token)
    with _lock:
        held = _held.get(name)
        if held is None:
            return encode(Outcome("infra", error=Failure(STRANGER, "this worker does not know the task")))
        _held.move_to_end(name)
    try:
        outcome = held.answer(read_request(request, beside))
    except (TensorlangError, OSError) as error:
        kind = "Worker" if isinstance(error, TuningError) else type(error).__name__
        outcome = Outcome("infra", error=Failure(kind, str(error)[:500]))
    return encode(replace(outcome, where=Where(host.machine(), host.software(), host.load())))


class HeldTask:
    """One task in one Dask worker: its processes that build, and the one that measures."""

    def __init__(self, order: HoldTask) -> None:
        self._order = order
        self._limits = dataclasses.replace(order.limits, memory=memory() if order.limits.memory else 0)
        self._builders: list[Runner] = []
        self._measurer: Runner | None = None
        self._users = 0
        self._closed = False
        self._timer: threading.Timer | None = None
        self._guard = threading.Lock()

    def answer(self, request: Request) -> Outcome:
        """What came of a request. Measuring is one at a time, as the worker's resource sees to."""
        with self._used():
            match request:
                case Build(candidate):
                    return self._build(candidate)
                case Measure(candidate, kernel):
                    return self._measuring().trial(candidate, kernel)
                case Paired(candidates, _, seconds):
                    return self._paired(candidates, None if seconds is None else time.monotonic() + seconds)
                case Take():
                    raise TuningError("a task is taken by `take`")

    def _build(self, candidate: Candidate) -> Outcome:
        """Compile, away from the cores that are measured on."""
        runner = self._builder()
        try:
            return runner.build(candidate)
        finally:
            with self._guard:
                self._builders.append(runner)

    def _paired(self, candidates: Sequence[Candidate], until: float | None) -> Outcome:
        """Build the finalists, then time them in turns, in new processes."""
        built: list[Facts] = []
        for place, candidate in enumerate(candidates):
            outcome = self._build(candidate)
            if outcome.status != "ok":
                return replace(outcome, place=place)
            built.append(outcome.facts)
        return with_builds(built, self._measuring().paired(candidates, kernels_of(built), until))

    def close(self) -> None:
        """End the processes, those at work as soon as they are done."""
        self._closed = True
        self._rest()

    def _builder(self) -> Runner:
        with self._guard:
            if self._builders:
                return self._builders.pop()
        task = self._order.task.for_builder()
        usable, measured = host.cores(), host.pinned(task.threads) if self._order.measures else []
        elsewhere = tuple(core for core in usable if core not in measured)
        return Runner(replace(task, cores=elsewhere), self._limits, path=self._order.path)

    def _measuring(self) -> Runner:
        if self._measurer is None:
            self._measurer = Runner(self._order.task, self._limits, path=self._order.path)
        return self._measurer

    @contextmanager
    def _used(self) -> Iterator[None]:
        with self._guard:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
        try:
            yield
        finally:
            with self._guard:
                self._users -= 1
                self._timer = threading.Timer(IDLE_S, self._rest)
                self._timer.daemon = True
                self._timer.start()
            if self._closed:
                self._rest()

    def _rest(self) -> None:
        with self._guard:
            if self._users:
                return
            if self._timer is not None:
                self._timer.cancel()
            for runner in (*self._builders, self._measurer):
                if runner is not None:
                    runner.close()
            self._builders, self._measurer = [], None


_held: OrderedDict[str, HeldTask] = OrderedDict()
_lock = threading.Lock()
