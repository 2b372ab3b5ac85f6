"""One request at a time, waited for: what a job does with candidates, in one call each.

Used where nothing runs beside it: a record verified, a peak measured, a cluster's host that builds or measures what it was sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from statistics import median
from typing import Self

import msgspec

from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.quality import worst
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Blob, Build, Candidate, Facts, Measure, Outcome, Paired, WorkerTask
from tensorlang.autotune.workers.worker_slot import WorkerSlot, finish


class Runner:
    """Runs requests on one task, one at a time, each in a worker that may die of it.

    A task that does not say on which cores to measure gets those of this host. Every method raises `TuningError` if no worker can be
    started.
    """

    def __init__(self, task: WorkerTask, limits: Limits, *, path: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self.slot = WorkerSlot(limits, path)
        self.slot.task = with_cores(task)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def started(self) -> int:
        """How many workers were started."""
        return self.slot.started

    def close(self) -> None:
        """Kill the worker, if there is one."""
        self.slot.close()

    def build(self, candidate: Candidate) -> Outcome:
        """Compile one candidate; `facts.kernel` is what `trial` takes here or on another host of the same CPU."""
        self.slot.begin(Build(candidate))
        return finish(self.slot)

    def trial(self, candidate: Candidate, kernel: Blob | None = None) -> Outcome:
        """Verify and time one candidate: this kernel of it, else what the worker builds."""
        self.slot.begin(Measure(candidate, kernel), allowed(candidate, self.limits))
        return finish(self.slot)

    def paired(self, candidates: Sequence[Candidate], kernels: Sequence[Blob] = (), until: float | None = None) -> Outcome:
        """Verify and time several candidates in turns, in fresh workers. `place` tells which one failed."""
        return in_turns(self.slot, candidates, kernels, until)


def with_cores(task: WorkerTask) -> WorkerTask:
    """The task, with the cores of this host to measure on if it does not say which."""
    return task if task.cores is not None else msgspec.structs.replace(task, cores=tuple(host.pinned(task.threads)))


def in_turns(slot: WorkerSlot, candidates: Sequence[Candidate], kernels: Sequence[Blob], until: float | None = None) -> Outcome:
    """Time candidates in turns in one fresh process after the other, as many as the policy says, and pool the rounds.

    Each process loads them in another order: who comes first finds another memory than who comes last, in every process alike.
    """
    assert slot.task is not None, "a task is set first"
    runs: list[tuple[Facts, ...]] = []
    count = slot.task.policy.processes
    for turn in range(count):
        left = None if until is None else (until - time.monotonic()) / (count - turn)
        if runs and left is not None and left <= 0:
            break
        slot.close()
        order = [(place + turn) % len(candidates) for place in range(len(candidates))]
        slot.begin(Paired(tuple(candidates[at] for at in order), tuple(kernels[at] for at in order) if kernels else (), left))
        outcome = finish(slot)
        if outcome.status != "ok":
            return msgspec.structs.replace(outcome, place=order[min(outcome.place, len(order) - 1)])
        runs.append(tuple(outcome.rows[order.index(at)] for at in range(len(order))))
    return Outcome("ok", rows=tuple(pooled(rows) for rows in zip(*runs, strict=True)))


def pooled(rows: tuple[Facts, ...]) -> Facts:
    """What is known of a finalist after all processes: samples in turn, the worst quality, the median sentinel."""
    samples = tuple(sample for row in rows for sample in row.samples)
    runs = tuple(count for row in rows for count in (row.runs or (len(row.samples),)))
    sentinels = [row.sentinel for row in rows if row.sentinel is not None]
    return msgspec.structs.replace(
        rows[0], samples=samples, runs=runs, sentinel=median(sentinels) if sentinels else None, quality=worst(row.quality for row in rows)
    )


def allowed(candidate: Candidate, limits: Limits) -> float:
    """Seconds that a candidate may run: far more than the best known needs."""
    return limits.run_s if candidate.incumbent is None else min(limits.run_s, 10 + 40 * candidate.incumbent)


def incumbent(candidate: Candidate, best: float, usual: float | None = None) -> Candidate:
    """The candidate, told of the best time known here too, in seconds (infinite for none), and of the sentinel's usual time."""
    known = min(candidate.incumbent or math.inf, best)
    return msgspec.structs.replace(candidate, incumbent=None if known == math.inf else known, usual=usual)


def kernels_of(built: Sequence[Facts]) -> tuple[Blob, ...]:
    """The kernels of candidates that were built."""
    return tuple(facts.kernel for facts in built if facts.kernel is not None)


def with_builds(built: Sequence[Facts], outcome: Outcome) -> Outcome:
    """The outcome of measuring what was built, its rows with what is known of the builds."""
    if outcome.status != "ok":
        return outcome
    rows = (row.then(facts.without_kernel()) for row, facts in zip(outcome.rows, built, strict=True))
    return msgspec.structs.replace(outcome, rows=tuple(rows))
