"""One request at a time, waited for: what a job does with candidates, in one call each.

Used where nothing runs beside it: a record verified, a peak measured, a cluster's host that builds or measures what it was sent.
"""

from __future__ import annotations

import time
from typing import Any, Self

from tensorlang.autotune.log.record import summary
from tensorlang.autotune.measurement import host
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.worker_slot import Outcome, Seat, finish

__all__ = ["Limits", "Outcome", "Runner", "built", "in_turns", "trial_request"]


class Runner:
    """Runs requests on one task, one at a time, each in a worker that may die of it. `task` is set before the first request.

    Every method raises `TuningError` if no worker can be started.
    """

    def __init__(self, limits: Limits, *, path: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self.seat = Seat(limits, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def task(self) -> dict[str, Any]:
        """What workers are told, as `request.worker_request` makes it; its "cores" are those of this host."""
        return {**self.seat.task, "blobs": self.seat.blobs}

    @task.setter
    def task(self, task: dict[str, Any]) -> None:
        self.seat.blobs = task.get("blobs", ())
        rest = {name: value for name, value in task.items() if name != "blobs"}
        self.seat.task = {"cores": host.pinned(task["threads"]), **rest} if "threads" in task else rest

    @property
    def started(self) -> int:
        """How many workers were started."""
        return self.seat.started

    def prestart(self) -> None:
        """Let a worker start while the caller does something else."""
        self.seat.prestart()

    def close(self) -> None:
        """Kill the worker, if there is one."""
        self.seat.close()

    def build(self, candidate: dict[str, Any]) -> Outcome:
        """Compile one candidate; `told["kernel"]` has the bytes that `trial` takes here or on another host of the same CPU."""
        self.seat.begin({"build": candidate})
        return built(finish(self.seat))

    def trial(self, candidate: dict[str, Any]) -> Outcome:
        """Verify and time one candidate: its "kernel" if it has one, else what the worker builds of it."""
        self.seat.begin(*trial_request(candidate, self.limits))
        return finish(self.seat)

    def paired(self, candidates: list[dict[str, Any]], until: float | None = None) -> Outcome:
        """Verify and time several candidates in turns, in fresh workers. `place` tells which one failed."""
        return in_turns(self.seat, candidates, until)


def in_turns(seat: Seat, candidates: list[dict[str, Any]], until: float | None = None) -> Outcome:
    """Time candidates in turns in one fresh process after the other, as many as the policy says, and pool the rounds."""
    runs: list[list[dict[str, Any]]] = []
    count = int(seat.task["policy"].get("processes", 1))
    for turn in range(count):
        left = None if until is None else (until - time.monotonic()) / (count - turn)
        if runs and left is not None and left <= 0:
            break
        seat.close()
        seat.begin(paired_request(candidates, left))
        outcome = finish(seat)
        if outcome.status != "ok":
            return outcome
        runs.append(outcome.told["rows"])
    return Outcome("ok", {"rows": [_pooled([run[place] for run in runs]) for place in range(len(candidates))]})


def _pooled(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of a finalist after all processes."""
    samples = [sample for row in rows for sample in row["samples"]]
    return {**rows[0], "samples": samples, "runs": [len(row["samples"]) for row in rows], **summary(samples)}


def built(outcome: Outcome) -> Outcome:
    """The outcome of a build, its bytes under a name."""
    blobs = outcome.told.pop("blobs", None)
    return outcome if blobs is None else Outcome(outcome.status, {**outcome.told, "kernel": blobs[0]}, outcome.error, outcome.place)


def trial_request(candidate: dict[str, Any], limits: Limits) -> tuple[dict[str, Any], float]:
    """What a worker is sent to time a candidate, and the seconds that it may run: far more than the best known needs."""
    known = candidate.get("incumbent")
    run_s = limits.run_s if known is None else min(limits.run_s, 10 + 40 * known)
    return _with_kernels("trial", [candidate], {}), run_s


def paired_request(candidates: list[dict[str, Any]], seconds: float | None) -> dict[str, Any]:
    """What a worker is sent to time candidates in turns."""
    return _with_kernels("paired", candidates, {} if seconds is None else {"seconds": seconds})


def _with_kernels(kind: str, candidates: list[dict[str, Any]], more: dict[str, Any]) -> dict[str, Any]:
    plain = [{name: value for name, value in candidate.items() if name != "kernel"} for candidate in candidates]
    kernels = [candidate["kernel"] for candidate in candidates if "kernel" in candidate]
    if len(kernels) not in (0, len(candidates)):
        raise ValueError("either all candidates bring a kernel or none does")
    request = {kind: plain[0] if kind == "trial" else plain, **more}
    return {**request, "blobs": kernels} if kernels else request
