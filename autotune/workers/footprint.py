"""What a task takes of memory, told before anything of it is made.

The process that measures holds each operand once, of the results a copy, those of the default schedule, and what the kernel that runs takes
for intermediate results. That differs from one schedule to the next; what the default takes, which is the first trial, is known from its
loops, and a candidate for which there is too little fails by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorlang.autotune.measurement.arrays import Spec
from tensorlang.autotune.task import Task
from tensorlang.autotune.workers.limited import LimitError
from tensorlang.codegen.cost.definition_cost import workspace
from tensorlang.codegen.target import Target
from tensorlang.errors import TensorlangError
from tensorlang.system.memory import MemoryBound, tightest

SMALL: Final = 16 << 20
"""Bytes of intermediate results that are not looked for: they are lost in what the processes take."""
PROCESSES: Final = 384 << 20
"""Bytes that the processes of a run hold beside operands: one that compiles and one that measures."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the operands (arguments and results), of the results alone, and of the intermediate results of the default schedule."""

    operands: int
    results: int
    intermediates: int = 0

    @classmethod
    def of(cls, task: Task, target: Target, threads: int) -> Footprint:
        """That of a task."""
        results = _bytes(task.results)
        return cls(_bytes(task.inputs) + results, results, _intermediates(task, target, threads))

    @property
    def peak(self) -> int:
        """Bytes that are needed at once."""
        return self.operands + self.results + self.intermediates + PROCESSES

    def why_too_large(self, bound: MemoryBound | None = None) -> str | None:
        """Why it does not fit into the bound (default: what leaves the least free here); None if it does."""
        least = tightest() if bound is None else bound
        if least is None or self.peak <= least.free:
            return None
        return (
            f"it needs {in_words(self.peak)} of memory (operands of {in_words(self.operands)}, a copy of the results, "
            + (f"intermediate results of {in_words(self.intermediates)}, " if self.intermediates else "")
            + f"{in_words(PROCESSES)} for processes), and {least.what} leaves {in_words(least.free)} of {in_words(least.size)}; "
            "make its extents smaller or the limit larger"
        )


def require_memory(task: Task, target: Target, threads: int) -> None:
    """Raise `LimitError` for a task that does not fit."""
    if (why := Footprint.of(task, target, threads).why_too_large()) is not None:
        raise LimitError(f"{task.op}: {why}")


def in_words(count: int) -> str:
    """A number of bytes, as in `1.5 GB`."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def _intermediates(task: Task, target: Target, threads: int) -> int:
    """What the default schedule takes from the heap; 0 where it is hardly anything, or there is none."""
    from tensorlang.codegen.compilation import default_schedule  # noqa: PLC0415 - tests of jobs need no compiler
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415

    try:
        if workspace(Schedule(task.outputs).nest, task.dims) < SMALL:  # every stage whole: that takes no strategy
            return 0
        return workspace(default_schedule(task.outputs, target, threads=threads).nest, task.dims)
    except TensorlangError:  # whoever builds it says why
        return 0


def _bytes(specs: Sequence[Spec]) -> int:
    return sum(prod(spec.shape) * spec.dtype.numpy.itemsize for spec in specs)
