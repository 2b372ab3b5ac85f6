"""What the machine can do: multiply-adds and bytes a second, measured by two small kernels in the disposable process.

They are those of `codegen.calibration`: nothing but multiply-adds, and a stream through memory that no cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from tensorlang.autotune.measurement.measure import Policy
from tensorlang.autotune.task import Task
from tensorlang.autotune.verification.reference import worker_task
from tensorlang.autotune.workers.process import Limits
from tensorlang.autotune.workers.protocol import Candidate
from tensorlang.autotune.workers.runner import Runner
from tensorlang.codegen.target import Target
from tensorlang.errors import TuningError
from tensorlang.ir.dtype import dtype
from tensorlang.system.memory import memory

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule

STREAM: Final = 16 << 20
"""Elements of an array that few caches hold."""
POLICY: Final = Policy(least=10, most=40, spread=0.005)


@dataclass(frozen=True, slots=True)
class Peak:
    """Operations (a multiply-add is two) and bytes a second; None where it could not be measured."""

    flops: float | None
    bandwidth: float | None


def measure_peak(target: Target, threads: int, kind: str) -> Peak:
    """Measure both with this many threads; the first in the type `kind`, float32 for types without multiply-add."""
    from tensorlang.codegen.calibration.kernels import doubled, multiply_adds  # noqa: PLC0415 - the compiler; tables of logs do without

    element = dtype(kind) if kind in ("float32", "float64") else dtype("float32")
    products, stream = multiply_adds(target, threads, element), doubled(target, STREAM, threads)
    return Peak(_rate(products, target, threads, "flops"), _rate(stream, target, threads, "bytes"))


def _rate(schedule: Schedule, target: Target, threads: int, what: Literal["flops", "bytes"]) -> float | None:
    task = Task.of(schedule.outputs, "peak")
    candidate = Candidate(schedule=schedule.to_json())
    try:
        with Runner(worker_task(task, target, threads, POLICY, sampling_s=0.0), Limits(memory=memory())) as runner:
            outcome = runner.trial(candidate)
    except TuningError:
        return None
    work = outcome.facts.flops if what == "flops" else outcome.facts.bytes
    return work / outcome.facts.time if outcome.status == "ok" and work is not None and outcome.facts.time is not None else None
