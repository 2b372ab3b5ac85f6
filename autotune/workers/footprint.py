"""What a task takes of memory, told before anything of it is made.

The process that measures holds each operand once, and of the results a copy, those of the default schedule; nothing else grows with the
operands. What a schedule needs for intermediate results differs from one to the next and is left out: a candidate for which there is
too little fails by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorlang.autotune.measurement.arrays import Spec
from tensorlang.autotune.task import Task
from tensorlang.autotune.workers.limited import LimitError
from tensorlang.system.memory import MemoryBound, tightest

PROCESSES: Final = 384 << 20
"""Bytes that the processes of a run hold beside operands: one that compiles and one that measures."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of the operands (arguments and results), and of the results alone."""

    operands: int
    results: int

    @classmethod
    def of(cls, task: Task) -> Footprint:
        """That of a task."""
        results = _bytes(task.results)
        return cls(_bytes(task.inputs) + results, results)

    @property
    def peak(self) -> int:
        """Bytes that are needed at once."""
        return self.operands + self.results + PROCESSES

    def why_too_large(self, bound: MemoryBound | None = None) -> str | None:
        """Why it does not fit into the bound (default: what leaves the least free here); None if it does."""
        least = tightest() if bound is None else bound
        if least is None or self.peak <= least.free:
            return None
        return (
            f"it needs {in_words(self.peak)} of memory (operands of {in_words(self.operands)}, a copy of the results, "
            f"{in_words(PROCESSES)} for processes), and {least.what} leaves {in_words(least.free)} of {in_words(least.size)}; "
            "make its extents smaller or the limit larger"
        )


def require_memory(task: Task) -> None:
    """Raise `LimitError` for a task that does not fit."""
    if (why := Footprint.of(task).why_too_large()) is not None:
        raise LimitError(f"{task.op}: {why}")


def in_words(count: int) -> str:
    """A number of bytes, as in `1.5 GB`."""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def _bytes(specs: Sequence[Spec]) -> int:
    return sum(prod(spec.shape) * spec.dtype.numpy.itemsize for spec in specs)
