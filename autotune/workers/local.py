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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.host import MachineFields
from tensorlang.autotune.measurement.sentinel import usual_best
from tensorlang.autotune.measurement.steady import REMEMBERED
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import NOTHING, UNMEASURED, Build, Candidate, Facts, Measure, Outcome, Request, Spans, WorkerTask
from tensorlang.autotune.workers.runner import allowed, in_turns, incumbent, kernels_of, with_builds, with_cores
from tensorlang.autotune.workers.worker_slot import WorkerSlot, wait


@dataclass(slots=True)
class Flight:
    """A candidate under way: what is known of it, its kernel once it is built, and when it was built and measured."""

    key: str
    candidate: Candidate
    facts: Facts = NOTHING
    spans: Spans = UNMEASURED


class LocalEvaluator:
    """Builds with `builders` processes and measures with one; see `evaluator.Evaluator`."""

    def __init__(self, limits: Limits, *, builders: int = 1, path: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self._measurer = WorkerSlot(limits, path)
        self._builders = [WorkerSlot(limits, path) for _ in range(builders)]
        self._waiting: deque[Flight] = deque()
        self._ready: deque[Flight] = deque()
        self._finished: deque[tuple[str, Outcome]] = deque()
        self._flights: dict[int, Flight] = {}
        self._best = math.inf
        self._sentinels: deque[float] = deque(maxlen=REMEMBERED)
        self._alone = True
        self._spare: list[int] = []
        self._usable = host.cores()
        self._confined: dict[int, bool] = {}
        for slot in self._slots:
            slot.prestart()

    @property
    def capacity(self) -> int:
        """One for each builder, and one that is measured."""
        return len(self._builders) + 1

    @property
    def machine(self) -> MachineFields:
        """This one."""
        return host.machine()

    @property
    def _slots(self) -> tuple[WorkerSlot, ...]:
        return (*self._builders, self._measurer)

    def open(self, task: WorkerTask) -> None:
        """Take the task."""
        task = with_cores(task)
        cores = task.cores
        self._spare = [core for core in self._usable if core not in cores] if cores else []
        self._alone = not self._spare
        self._measurer.task = task.for_measurer()
        for slot in self._builders:
            slot.task = task.for_builder()
        for slot in self._slots:
            slot.ready()
            slot.step()

    def close(self) -> None:
        """Kill the processes."""
        for slot in self._slots:
            slot.close()
        self._confine(measuring=False)

    def submit(self, key: str, candidate: Candidate) -> None:
        """Queue a candidate; building starts at once where that disturbs nothing."""
        self._waiting.append(Flight(key, candidate))
        self._step()
        self._start(thinking=True)

    def next(self, until: float | None = None) -> tuple[str, Outcome] | None:
        """The next candidate that is finished; None if there is none before `until`."""
        while True:
            self._step()
            self._start(thinking=bool(self._finished))
            self._confine(measuring=self._measurer.busy)
            if self._finished:
                return self._finished.popleft()
            if until is not None and time.monotonic() >= until:
                return None
            wait(self._slots, math.inf if until is None else until)

    def paired(self, candidates: Sequence[Candidate], until: float | None = None) -> Outcome:
        """Build the finalists, then time them in turns in one fresh process after the other, and pool the rounds."""
        compiled = self._built(candidates)
        if isinstance(compiled, Outcome):
            return compiled
        return with_builds(compiled, in_turns(self._measurer, candidates, kernels_of(compiled), until))

    def _built(self, candidates: Sequence[Candidate]) -> list[Facts] | Outcome:
        """What is known of each candidate, its kernel included; or how the first that could not be built failed."""
        places = deque(enumerate(candidates))
        done: dict[int, Facts] = {}
        busy: dict[int, int] = {}
        failed: Outcome | None = None
        while places or busy:
            for number, slot in enumerate(self._builders):
                if number not in busy and places and failed is None:
                    place, candidate = places.popleft()
                    busy[number] = place
                    slot.begin(Build(candidate))
                if number in busy and (outcome := slot.step()) is not None:
                    place = busy.pop(number)
                    if outcome.status == "ok":
                        done[place] = outcome.facts
                    elif failed is None:
                        failed = msgspec.structs.replace(outcome, place=place)
                        places.clear()
            if busy:
                wait(self._builders)
        return [done[place] for place in sorted(done)] if failed is None else failed

    def _step(self) -> None:
        for slot in self._slots:
            if (outcome := slot.step()) is not None:
                self._landed(slot, outcome)

    def _landed(self, slot: WorkerSlot, outcome: Outcome) -> None:
        """A request ended: a built kernel goes on to be measured, everything else is finished."""
        flight = self._flights.pop(id(slot))
        measured = slot is self._measurer
        span = (slot.began, time.monotonic())
        flight.spans = replace(flight.spans, run=span) if measured else replace(flight.spans, build=span)
        facts = flight.facts.then(outcome.facts)
        if not measured and outcome.status == "ok":
            flight.facts = facts
            self._ready.append(flight)
            return
        facts = facts.without_kernel()
        if outcome.status == "ok" and facts.time:
            self._best = min(self._best, facts.time)
        if facts.sentinel is not None:
            self._sentinels.append(facts.sentinel)
        if flight.candidate.trusted and outcome.status != "ok" and self._measurer.task is not None:
            self._measurer.task = msgspec.structs.replace(self._measurer.task, default=None)
        self._finished.append((flight.key, msgspec.structs.replace(outcome, facts=facts, place=0, spans=flight.spans)))

    def _start(self, *, thinking: bool) -> None:
        """Begin what may begin; while the caller is `thinking`, nothing is measured that needs every core."""
        quiet = not thinking and not any(slot.busy for slot in self._builders)
        if self._ready and not self._measurer.busy and (quiet or not self._alone) and (flight := self._first()) is not None:
            usual = usual_best(self._sentinels) if self._sentinels else None
            candidate, kernel = incumbent(flight.candidate, self._best, usual), flight.facts.kernel
            flight.facts = flight.facts.without_kernel()
            self._begin(self._measurer, flight, Measure(candidate, kernel), allowed(candidate, self.limits))
        for slot in self._builders:
            if self._waiting and not slot.busy and not (self._alone and self._measurer.busy):
                flight = self._waiting.popleft()
                self._begin(slot, flight, Build(flight.candidate))

    def _confine(self, *, measuring: bool) -> None:
        """Keep the caller's thread and the builders off the measured cores, or let them go where they like."""
        if not self._spare or not hasattr(os, "sched_setaffinity"):
            return
        for process in (0, *(slot.worker.pid for slot in self._builders if slot.worker is not None)):
            if self._confined.get(process, False) != measuring:
                self._confined[process] = measuring
                with contextlib.suppress(OSError):  # it may be gone
                    os.sched_setaffinity(process, self._spare if measuring else self._usable)

    def _first(self) -> Flight | None:
        """What is measured next: the default before all others, even if another is built before it."""
        trusted = next((flight for flight in self._ready if flight.candidate.trusted), None)
        if trusted is not None:
            self._ready.remove(trusted)
            return trusted
        underway = [*self._waiting, *self._flights.values()]
        return None if any(flight.candidate.trusted for flight in underway) else self._ready.popleft()

    def _begin(self, slot: WorkerSlot, flight: Flight, request: Request, run_s: float = math.inf) -> None:
        self._flights[id(slot)] = flight
        slot.begin(request, run_s)
