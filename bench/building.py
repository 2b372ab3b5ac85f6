"""`python -m bench.building`: where the time of a first build goes, by phase.

Each sample is a process of its own: imports are done, no kernel has a file. What is counted is the time of the thread, so that other
work on the machine counts less. The definition with its proofs, the search for the default point by the cost model, the steps of its
schedule with their proofs, lowering, emission, LLVM's passes, its code generation; the rest is what stands around that and is done once in
a process: the entry for calls from Python, linking, what processor this is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Final
from unittest import mock

import tensorlang as tl
from bench import child
from bench.peers import definitions
from bench.run import machine
from bench.sections import PAGE, name_of, written
from tensorlang import ops

PHASES: Final = ("definition", "search", "schedule", "lowering", "emission", "LLVM passes", "LLVM code", "rest")
PROCESSES: Final = 7


def _p(*shape: int) -> Any:
    return tl.placeholder(shape)


def _chain(rows: int, columns: int) -> Any:
    """Twelve stages, every third one a stencil of three rows."""
    made, rows = _p(rows + 8, columns), rows + 8
    for stage in range(12):
        if stage % 3 == 2:
            rows -= 2
            made = tl.compute((rows, columns), lambda i, j, of=made: of[i, j] + of[i + 1, j] * 0.5 + of[i + 2, j], name=f"s{stage}")
        else:
            made = tl.compute((rows, columns), lambda i, j, of=made: tl.maximum(of[i, j] * 1.5, 0.25), name=f"s{stage}")
    return made


def _gemv(n: int) -> Any:
    a, x, k = _p(n, n), _p(n), tl.reduce_axis(n, name="k")
    return tl.compute((n,), lambda i: tl.sum(a[i, k] * x[k], axis=k), name="gemv")


def _transposed(rows: int, columns: int) -> Any:
    x = _p(rows, columns)
    return tl.compute((columns, rows), lambda i, j: x[j, i], name="transposed")


PROGRAMS: Final[Mapping[str, Callable[[], Any]]] = {
    "matmul 512": lambda: ops.matmul(_p(512, 512), _p(512, 512)),
    "matmul 500": lambda: ops.matmul(_p(500, 500), _p(500, 500)),
    "conv2d 3x3, 64 to 64, 56x56": lambda: ops.conv2d(_p(1, 64, 56, 56), _p(64, 64, 3, 3), padding=1),
    "conv2d 3x3, 256 to 256, 14x14": lambda: ops.conv2d(_p(1, 256, 14, 14), _p(256, 256, 3, 3), padding=1),
    "conv2d 1x1 at stride 2, 256 to 512": lambda: ops.conv2d(_p(1, 256, 56, 56), _p(512, 256, 1, 1), stride=2),
    "softmax 4096x4096": lambda: ops.softmax(_p(4096, 4096)),
    "attention, 8 heads of 128x64": lambda: ops.attention(*(_p(1, 8, 128, 64) for _ in range(3))),
    "layer norm 1024x1024": lambda: ops.layer_norm(_p(1024, 1024), (1024,), _p(1024), _p(1024)),
    "Harris 1530x2554, 10 stages": lambda: definitions.harris({}, _p(3, 1534, 2558)),
    "chain of 12 stages, 1000x1000": lambda: _chain(1000, 1000),
    "gemv 1024": lambda: _gemv(1024),
    "transposition 1024x768": lambda: _transposed(1024, 768),
}


class Clock:
    """Milliseconds of this thread by phase; a phase within another one stops that one meanwhile."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(PHASES, 0.0)
        self._running = ["rest"]
        self._since = time.thread_time()

    def turn(self) -> None:
        """Count what has passed to the phase that runs."""
        now = time.thread_time()
        self.spent[self._running[-1]] += (now - self._since) * 1e3
        self._since = now

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """What runs inside is this phase."""
        self.turn()
        self._running.append(phase)
        try:
            yield
        finally:
            self.turn()
            self._running.pop()

    def counting(self, owner: Any, function: str, phase: str) -> Any:
        """A patch by which a function is this phase."""
        made = getattr(owner, function)

        @wraps(made)
        def call(*args: Any, **options: Any) -> Any:
            with self.within(phase):
                return made(*args, **options)

        return mock.patch.object(owner, function, call)


def phases(name: str) -> dict[str, float]:
    """Milliseconds of each phase of defining and building a program, which has to be the first that this process builds."""
    import islpy  # noqa: F401, PLC0415 - what is imported is not counted
    import llvmlite.binding as llvm  # noqa: PLC0415

    from tensorlang.codegen import compilation  # noqa: PLC0415
    from tensorlang.codegen.llvm import binding  # noqa: PLC0415
    from tensorlang.schedules.strategies.program import ProgramStrategy  # noqa: PLC0415

    build, clock = tl.build, Clock()
    with ExitStack() as patches:
        for owner, function, phase in (
            (compilation, "lower_program", "definition"),
            (compilation, "default_schedule", "search"),
            (ProgramStrategy, "schedule", "schedule"),
            (compilation, "lower", "lowering"),
            (compilation, "emitted", "emission"),
            (binding, "optimize", "LLVM passes"),
            (llvm.TargetMachine, "emit_object", "LLVM code"),
        ):
            patches.enter_context(clock.counting(owner, function, phase))
        clock.turn()
        clock.spent = dict.fromkeys(PHASES, 0.0)
        with clock.within("definition"):
            outputs = PROGRAMS[name]()
        build(outputs)
        clock.turn()
    return clock.spent


def rows(processes: int) -> Iterator[str]:
    """A table of medians over processes, a row for each program."""
    yield f"| program | {' | '.join(PHASES)} | all |"
    yield f"| --- |{' ---: |' * (len(PHASES) + 1)}"
    for name in PROGRAMS:
        env = {**os.environ, "TENSORLANG_CACHE": "off"}
        samples = [child.run("-m", "bench.building", "--one", name, env=env) for _ in range(processes)]
        found = [statistics.median(sample[phase] for sample in samples) for phase in PHASES]
        whole = statistics.median(sum(sample.values()) for sample in samples)
        yield f"| {name} | {' | '.join(f'{value:.1f}' for value in found)} | {whole:.0f} |"


def main() -> int:
    """The table, or one sample of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", choices=PROGRAMS, help="build this program here, and print its phases")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="fresh processes for each program (default %(default)s)")
    parser.add_argument("--page", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(phases(options.one)))
        return 0
    name = name_of(machine())
    load = f"{os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
    text = [f"### First builds on {name}, by phase", ""]
    text += [
        f"Milliseconds of thread time by `python -m bench.building --page`, medians of {options.processes} processes; load {load}.",
        "",
    ]
    text += rows(options.processes)
    print("\n".join(text))
    if options.page:
        written(PAGE, {("figures", f"of first builds on {name}"): "\n".join(text)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
