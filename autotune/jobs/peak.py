"""What the machine can do: multiply-adds and bytes a second, measured by two small kernels in the disposable process.

They are those of `codegen.reports.machine`: nothing but multiply-adds, and a stream through memory that no cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_request
from tensorlang.autotune.workers.runner import Limits, Runner
from tensorlang.codegen.reports.machine import multiply_adds, stream
from tensorlang.codegen.target import Target
from tensorlang.dtype import dtype
from tensorlang.errors import TuningError
from tensorlang.schedules.schedule import Schedule

POLICY: Final = Policy(least=10, most=40, spread=0.005)


@dataclass(frozen=True, slots=True)
class Peak:
    """Operations (a multiply-add is two) and bytes a second; None where it could not be measured."""

    flops: float | None
    bandwidth: float | None


def measure_peak(target: Target, threads: int, kind: str) -> Peak:
    """Measure both with this many threads; the first in the type `kind`, float32 for types without multiply-add."""
    element = dtype(kind) if kind in ("float32", "float64") else dtype("float32")
    return Peak(_rate(multiply_adds(target, threads, element), target, threads, "flops"), _rate(stream(), target, threads, "bytes"))


def _rate(program: Any, target: Target, threads: int, what: str) -> float | None:
    given = isinstance(program, Schedule)
    task = Task.of(program.outputs if given else program, "peak")
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - as in session

    candidate = {"schedule": program.to_json()} if given else {"config": choose(task.outputs, target, threads).default}
    try:
        with Runner(Limits(memory=host.memory())) as runner:
            runner.task = worker_request(task, target, threads, POLICY)
            outcome = runner.trial(candidate)
    except TuningError:
        return None
    return outcome.told[what] / outcome.told["min"] if outcome.status == "ok" else None
