"""What a chain of stages costs to define and to build, by its length: `python -m bench.stages`.

The figure is the time for 1,000 stages over the time for 100, of which proportional growth makes 10. Times are of the processor, in one
process with the files of earlier builds out of play; the lengths take turns, and the least time of each counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final

os.environ["TENSORLANG_CACHE"] = "off"

import tensorlang as tl

SHORT: Final = 100
LONG: Final = 1000
BOUND: Final = 20.0
"""The most that ten times the stages may cost."""


def pointwise(x: Any, name: str) -> Any:
    """Each element from its own: what a default schedule writes into one another."""
    return tl.compute(x.shape, lambda i: x[i] + 1.0, name=name)


def mirrored(x: Any, name: str) -> Any:
    """Each element from another: every stage stays a loop of its own."""
    return tl.compute(x.shape, lambda i: x[x.shape[0] - 1 - i] + 1.0, name=name)


def chain(step: Callable[[Any, str], Any], stages: int) -> Any:
    """So many stages, each of which reads the one before."""
    x = tl.placeholder((8,), name="x")
    for number in range(stages):
        x = step(x, f"s{number}")
    return x


def seconds(step: Callable[[Any, str], Any], stages: int) -> tuple[float, float]:
    """Processor time to define a chain, and to build its default schedule."""
    marks = [time.process_time()]
    result = chain(step, stages)
    marks.append(time.process_time())
    tl.build(result, name=f"chain_{time.monotonic_ns()}")
    marks.append(time.process_time())
    return marks[1] - marks[0], marks[2] - marks[1]


def main(rounds: int = 2) -> int:
    """Measure and print; 1 where the bound is not kept."""
    seconds(pointwise, 3)
    failed = False
    for step in (pointwise, mirrored):
        found: dict[int, list[tuple[float, float]]] = {SHORT: [], LONG: []}
        for _ in range(rounds):
            for stages, times in found.items():
                times.append(seconds(step, stages))
        totals = {stages: min(define + build for define, build in times) for stages, times in found.items()}
        ratio = totals[LONG] / totals[SHORT]
        failed |= ratio > BOUND
        for stages, times in found.items():
            define, build = min(times, key=sum)
            print(f"{step.__name__:10} {stages:5} stages: defined in {define:.3f} s, built in {build:.3f} s")
        print(f"{step.__name__:10} {LONG} stages over {SHORT}: {ratio:.1f} (at most {BOUND:.0f})")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
