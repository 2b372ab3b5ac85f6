"""Candidates on this machine: processes that build, in parallel, and one that measures.

A kernel is compiled in one process and timed in another, to which it goes as bytes. While one candidate is measured on its cores, the
builders and the search are confined to the others; at all other times they may use every core. Where every core is measured on, nothing
runs beside a measurement: building waits for it, and measuring for the builders. A builder that dies takes nothing with it that was
measured, and the other way round. Everything is driven from the caller's thread, by `next`; the default candidate is measured before all
others.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.runner import built, in_turns, trial_request
from tensorlang.autotune.workers.worker_slot import Outcome, Seat, wait


@dataclass(slots=True)
class Flight:
    """A candidate under way: its kernel once it is built, and when it was built and measured."""

    key: str
    candidate: dict[str, Any]
    told: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, list[float]] = field(default_factory=dict)


class LocalEvaluator:
    """Builds with `builders` processes and measures with one; see `evaluator.Evaluator`."""

    def __init__(self, limits: Limits, *, builders: int = 1, path: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self._bench = Seat(limits, path)
        self._builders = [Seat(limits, path) for _ in range(builders)]
        self._waiting: deque[Flight] = deque()
        self._ready: deque[Flight] = deque()
        self._finished: deque[tuple[str, Outcome]] = deque()
        self._flights: dict[int, Flight] = {}
        self._best = math.inf
        self._alone = True
        self._spare: list[int] = []
        self._usable = host.cores()
        self._confined: dict[int, bool] = {}
        for seat in self._seats:
            seat.prestart()

    @property
    def capacity(self) -> int:
        """One for each builder, and one that is measured."""
        return len(self._builders) + 1

    @property
    def machine(self) -> dict[str, Any]:
        """This one."""
        return host.machine()

    @property
    def _seats(self) -> tuple[Seat, ...]:
        return (*self._builders, self._bench)

    def open(self, task: dict[str, Any]) -> None:
        """Take the task."""
        told = {name: value for name, value in task.items() if name != "blobs"}
        cores = told.setdefault("cores", host.pinned(task["threads"]))
        self._spare = [core for core in self._usable if core not in cores] if cores else []
        self._alone = not self._spare
        self._bench.task, self._bench.blobs = told, task.get("blobs", ())
        for seat in self._builders:
            seat.task = {**told, "role": "build"}
        for seat in self._seats:
            seat.ready()
            seat.step()

    def close(self) -> None:
        """Kill the processes."""
        for seat in self._seats:
            seat.close()
        self._confine(measuring=False)

    def submit(self, key: str, candidate: dict[str, Any]) -> None:
        """Queue a candidate; building starts at once where that disturbs nothing."""
        self._waiting.append(Flight(key, candidate))
        self._step()
        self._start(thinking=True)

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished; None if there is none before `until`."""
        while True:
            self._step()
            self._start(thinking=bool(self._finished))
            self._confine(measuring=self._bench.busy)
            if self._finished:
                return self._finished.popleft()
            if until is not None and time.monotonic() >= until:
                return None
            wait(self._seats, math.inf if until is None else until)

    def paired(self, candidates: list[dict[str, Any]], until: float | None = None) -> Outcome:
        """Build the finalists, then time them in turns in one fresh process after the other, and pool the rounds."""
        compiled = self._built(candidates)
        if isinstance(compiled, Outcome):
            return compiled
        kernels = [{**candidate, "kernel": told["kernel"]} for candidate, told in zip(candidates, compiled, strict=True)]
        tolds = [{name: value for name, value in told.items() if name != "kernel"} for told in compiled]
        outcome = in_turns(self._bench, kernels, until)
        if outcome.status != "ok":
            return outcome
        rows = [{**row, **built} for row, built in zip(outcome.told["rows"], tolds, strict=True)]
        return Outcome("ok", {**outcome.told, "rows": rows})

    def _built(self, candidates: list[dict[str, Any]]) -> list[dict[str, Any]] | Outcome:
        """What is told of each candidate, its kernel included; or how the first that could not be built failed."""
        places = deque(enumerate(candidates))
        done: dict[int, dict[str, Any]] = {}
        busy: dict[int, int] = {}
        failed: Outcome | None = None
        while places or busy:
            for number, seat in enumerate(self._builders):
                if number not in busy and places and failed is None:
                    place, candidate = places.popleft()
                    busy[number] = place
                    seat.begin({"build": candidate})
                if number in busy and (outcome := seat.step()) is not None:
                    outcome, place = built(outcome), busy.pop(number)
                    if outcome.status == "ok":
                        done[place] = outcome.told
                    elif failed is None:
                        failed = Outcome(outcome.status, outcome.told, outcome.error, place)
                        places.clear()
            if busy:
                wait(self._builders)
        return [done[place] for place in sorted(done)] if failed is None else failed

    def _step(self) -> None:
        for seat in self._seats:
            if (outcome := seat.step()) is not None:
                self._landed(seat, outcome)

    def _landed(self, seat: Seat, outcome: Outcome) -> None:
        """A request ended: a built kernel goes on to be measured, everything else is finished."""
        flight = self._flights.pop(id(seat))
        measured = seat is self._bench
        flight.spans["run" if measured else "build"] = [seat.began, time.monotonic()]
        told = flight.told | outcome.told
        if not measured and outcome.status == "ok":
            flight.told = built(Outcome("ok", told)).told
            self._ready.append(flight)
            return
        told.pop("kernel", None)
        if outcome.status == "ok" and told.get("min"):
            self._best = min(self._best, told["min"])
        if flight.candidate.get("trusted") and outcome.status != "ok":
            self._bench.task = {name: value for name, value in self._bench.task.items() if name != "default"}
        self._finished.append((flight.key, Outcome(outcome.status, {**told, "spans": flight.spans}, outcome.error)))

    def _start(self, *, thinking: bool) -> None:
        """Begin what may begin; while the caller is `thinking`, nothing is measured that needs every core."""
        quiet = not thinking and not any(seat.busy for seat in self._builders)
        if self._ready and not self._bench.busy and (quiet or not self._alone) and (flight := self._first()) is not None:
            known = min(flight.candidate.get("incumbent") or math.inf, self._best)
            kernel = flight.told.pop("kernel")
            candidate = {**flight.candidate, "incumbent": None if known == math.inf else known, "kernel": kernel}
            self._begin(self._bench, flight, *trial_request(candidate, self.limits))
        for seat in self._builders:
            if self._waiting and not seat.busy and not (self._alone and self._bench.busy):
                flight = self._waiting.popleft()
                self._begin(seat, flight, {"build": flight.candidate})

    def _confine(self, *, measuring: bool) -> None:
        """Keep the caller's thread and the builders off the measured cores, or let them go where they like."""
        if not self._spare or not hasattr(os, "sched_setaffinity"):
            return
        for process in (0, *(seat.worker.pid for seat in self._builders if seat.worker is not None)):
            if self._confined.get(process, False) != measuring:
                self._confined[process] = measuring
                with contextlib.suppress(OSError):  # it may be gone
                    os.sched_setaffinity(process, self._spare if measuring else self._usable)

    def _first(self) -> Flight | None:
        """What is measured next: the default before all others, even if another is built before it."""
        trusted = next((flight for flight in self._ready if flight.candidate.get("trusted")), None)
        if trusted is not None:
            self._ready.remove(trusted)
            return trusted
        underway = [*self._waiting, *self._flights.values()]
        return None if any(flight.candidate.get("trusted") for flight in underway) else self._ready.popleft()

    def _begin(self, seat: Seat, flight: Flight, request: dict[str, Any], run_s: float = math.inf) -> None:
        self._flights[id(seat)] = flight
        seat.begin(request, run_s)
