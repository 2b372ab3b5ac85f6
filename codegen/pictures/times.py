"""Predicted against measured time: the cost model's estimate, and the kernel on this machine where it can run here.

The model speaks of one core, so a kernel that shares its loops among threads is measured with one thread, and then with all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tensorlang.codegen.kernel.kernel import Kernel
from tensorlang.codegen.reports.make import sample_call
from tensorlang.codegen.reports.report import Report
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.runtime.timing import sample
from tensorlang.codegen.target import why_foreign
from tensorlang.errors import TensorlangError
from tensorlang.ir import Nest
from tensorlang.ir.integers import ASSUMED_EXTENT, value_of
from tensorlang.schedules.rewriting.edit import loops

LONGEST: Final = 0.25
"""Seconds of a call that is measured, as predicted."""
LARGEST: Final = 2 << 30
"""Bytes of the operands of a call that is measured."""
REPEATS: Final = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """The report of a kernel on one thread, the seconds with all `threads` where these differ; or, `instead`, why there is none."""

    report: Report | None = None
    shared: float | None = None
    threads: int = 1
    instead: str = ""


def guessed(nest: Nest, dims: Mapping[str, int], otherwise: int = ASSUMED_EXTENT) -> dict[str, int]:
    """The extents of a call: those that are given, and `otherwise`, as far as a dim has it; that is what the cost model assumes."""
    return {name: dims.get(name, min(max(otherwise, least), most)) for name, (least, most) in nest.bounds.items()}


def measured(kernel: Kernel, nest: Nest, dims: Mapping[str, int], predicted: float) -> Measured:
    """Measure a kernel with these extents."""
    foreign = why_foreign(kernel.target)
    if foreign is not None:
        return Measured(instead=f"It is built for {kernel.target}, and this machine cannot run it: {foreign}.")
    if predicted > LONGEST:
        return Measured(instead=f"A call is predicted to take {predicted:.3g} s; up to {LONGEST:g} s are measured.")
    size = value_of(kernel.program.bytes, dims)
    if size > LARGEST:
        return Measured(instead=f"The operands of a call take {size / 2**30:.3g} GiB; up to {LARGEST >> 30} GiB are measured.")
    shared = any(loop.kind == "parallel" for loop in loops(nest.body))
    try:
        alone = Kernel(replace(kernel.program, threads=1)) if shared else kernel
        report = alone.report(repeats=REPEATS, **dims)
        if not shared or get_threads() == 1:
            return Measured(report)
        together = sample(sample_call(kernel, (), dims)[0], REPEATS).min
    except TensorlangError as error:
        return Measured(instead=f"A call could not be measured: {error}")
    return Measured(report, together, get_threads())
