"""What Dask workers are asked to do: tell what machine they are on, take a task, build and measure candidates of it.

Dask calls these functions by name with text and bytes, and gets text and bytes. None of them runs a candidate: each holds a `Runner`,
whose disposable processes die of candidates, and die with the Dask worker. Processes that nobody has used for a while are ended, since a
client that was killed cannot say that it is done.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.runner import Limits, Outcome, Runner
from tensorlang.codegen.target import Target, why_foreign
from tensorlang.codegen.target import target as named_target
from tensorlang.errors import TensorlangError, TuningError

IDLE_S: Final = 120.0
KEPT: Final = 8
"""Tasks that a worker remembers."""


def describe(question: str) -> str:
    """The machine, as JSON; with `{"target": fields}`, also why code for that target cannot run here (None where it can)."""
    os.environ.pop("MALLOC_TRIM_THRESHOLD_", None)  # Dask sets it; kernels measured under it would pay for pages at each call
    here = named_target("native")
    asked = json.loads(question)["target"]
    caches = here.caches
    return json.dumps(
        {
            "target": {"triple": here.triple, "cpu": here.cpu, "features": here.features},
            "caches": [caches.l1, caches.l2, caches.l3, caches.cores],
            "fingerprint": host.target_fields(here)["fingerprint"],
            "foreign": None if asked is None else why_foreign(wanted(asked)),
            "machine": host.machine(),
            "software": host.software(),
        }
    )


def wanted(fields: dict[str, Any]) -> Target:
    """The target that `host.target_fields` describes."""
    return Target(fields["triple"], fields["cpu"], ",".join(f"+{name}" for name in fields["features"]), fields["cpu"])


def take(name: str, order: str, blobs: list[bytes]) -> None:
    """Remember a task: `order` has "task", "limits", "path" and whether this worker measures."""
    with _lock:
        if name not in _desks:
            _desks[name] = Desk(json.loads(order), blobs)
            while len(_desks) > KEPT:
                _, former = _desks.popitem(last=False)
                former.close()


def release(name: str) -> None:
    """Forget a task and end its processes."""
    with _lock:
        desk = _desks.pop(name, None)
    if desk is not None:
        desk.close()


def build(topic: str, token: str, name: str, candidate: str) -> tuple[str, bytes]:
    """The outcome of a build as JSON, and the kernel."""
    outcome = _answer(topic, token, name, lambda desk: desk.build(json.loads(candidate)))
    kernel: bytes = outcome.told.pop("kernel", b"")
    return _spelled(outcome), kernel


def measure(topic: str, token: str, name: str, candidate: str, kernel: bytes) -> str:
    """The outcome of a measurement, as JSON."""
    return _spelled(_answer(topic, token, name, lambda desk: desk.trial({**json.loads(candidate), "kernel": kernel})))


def paired(topic: str, token: str, name: str, order: str) -> str:
    """The outcome of the finalists' measurement, as JSON; `order` has "candidates" and "seconds"."""
    return _spelled(_answer(topic, token, name, lambda desk: desk.paired(**json.loads(order))))


class Desk:
    """One task in one Dask worker: its processes that build, and the one that measures."""

    def __init__(self, order: dict[str, Any], blobs: list[bytes]) -> None:
        self._limits = Limits(**{**order["limits"], "memory": host.memory() if order["limits"]["memory"] else 0})
        self._path = tuple(order["path"])
        self._task = order["task"]
        self._blobs = blobs
        self._measures = order["measures"]
        self._builders: list[Runner] = []
        self._bench: Runner | None = None
        self._users = 0
        self._closed = False
        self._timer: threading.Timer | None = None
        self._guard = threading.Lock()

    def build(self, candidate: dict[str, Any]) -> Outcome:
        """Compile, away from the cores that are measured on."""
        with self._used():
            runner = self._builder()
            try:
                return runner.build(candidate)
            finally:
                with self._guard:
                    self._builders.append(runner)

    def trial(self, candidate: dict[str, Any]) -> Outcome:
        """Verify and time; one at a time, as the worker's resource sees to."""
        with self._used():
            return self._measuring().trial(candidate)

    def paired(self, candidates: list[dict[str, Any]], seconds: float | None) -> Outcome:
        """Build the finalists, then time them in turns, in new processes."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._used():
            made: list[dict[str, Any]] = []
            for place, candidate in enumerate(candidates):
                outcome = self.build(candidate)
                if outcome.status != "ok":
                    return Outcome(outcome.status, outcome.told, outcome.error, place)
                made.append(outcome.told)
            kernels = [{**candidate, "kernel": told.pop("kernel")} for candidate, told in zip(candidates, made, strict=True)]
            outcome = self._measuring().paired(kernels, until)
        if outcome.status == "ok":
            outcome.told["rows"] = [{**row, **told} for row, told in zip(outcome.told["rows"], made, strict=True)]
        return outcome

    def close(self) -> None:
        """End the processes, those at work as soon as they are done."""
        self._closed = True
        self._rest()

    def _builder(self) -> Runner:
        with self._guard:
            if self._builders:
                return self._builders.pop()
        usable, measured = host.cores(), host.pinned(self._task["threads"]) if self._measures else []
        runner = Runner(self._limits, path=self._path)
        runner.task = {**self._task, "role": "build", "cores": [core for core in usable if core not in measured]}
        return runner

    def _measuring(self) -> Runner:
        if self._bench is None:
            self._bench = Runner(self._limits, path=self._path)
            self._bench.task = {**self._task, "blobs": self._blobs}
        return self._bench

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
            for runner in (*self._builders, self._bench):
                if runner is not None:
                    runner.close()
            self._builders, self._bench = [], None


_desks: OrderedDict[str, Desk] = OrderedDict()
_lock = threading.Lock()


def _answer(topic: str, token: str, name: str, work: Callable[[Desk], Outcome]) -> Outcome:
    """Say that the call has begun, do it, and add where that was. Trouble of this worker, not of the candidate, is "infra"."""
    from distributed import get_worker  # noqa: PLC0415 - only where Dask runs

    get_worker().log_event(topic, token)
    with _lock:
        desk = _desks.get(name)
        if desk is None:
            return Outcome("infra", {"stranger": True})
        _desks.move_to_end(name)
    try:
        outcome = work(desk)
    except (TensorlangError, OSError) as error:
        kind = "Worker" if isinstance(error, TuningError) else type(error).__name__
        outcome = Outcome("infra", {}, {"type": kind, "message": str(error)[:500], "signal": None})
    outcome.told.update(machine=host.machine(), software=host.software(), load=host.load())
    return outcome


def _spelled(outcome: Outcome) -> str:
    return json.dumps({"status": outcome.status, "told": outcome.told, "error": outcome.error, "place": outcome.place})
