"""What this machine can do, measured with kernels of our own: multiply-adds, bytes from each level of memory, the cost of a call.

    multiply-adds    a dozen vectors of accumulators stay in registers, nothing but `sum over k of a[i] * b[i]` (which may not be folded)
    bytes            the sum of an array that fits half of L1, L2 or L3, again and again; for memory also a stream that writes
    call, fork       an addition of two numbers, alone and in a parallel loop with one iteration for each thread

Each is the fastest of a few samples, so that other load on the machine counts little. The numbers are measured once in a process, for
each element type and number of threads, in about half a second; `multiply_adds` and `stream` also serve the tuner.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from tensorlang.codegen.calling.runnable import Runnable
from tensorlang.codegen.compilation import of_schedule
from tensorlang.codegen.reports.levels import Home
from tensorlang.codegen.runtime import arrays, timing
from tensorlang.codegen.target import Target, target
from tensorlang.definition.extent import dim
from tensorlang.ir.dtype import DType, dtype
from tensorlang.language.definitions import compute, placeholder, reduce_axis
from tensorlang.language.reduction import sum as total
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import choose

VECTORS: Final = 12
DEPTH: Final = 4096
STREAM: Final = 16 << 20
MOST: Final = 256 << 20
CHUNK: Final = 8 << 20
SPAN: Final = 0.015
PATIENCE: Final = 0.1
CALLS: Final = 8


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations (a multiply-add is two) and bytes a second, and what a call and a parallel loop cost in seconds."""

    flops: float
    bandwidth: Mapping[Home, float]
    call: float
    fork: float
    kind: str
    threads: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@cache
def rates(kind: str, threads: int) -> Rates:
    """What this machine does in "float32" or "float64" with one thread, or with the number of threads that is set."""
    alone = rates(kind, 1) if threads > 1 else None  # more threads do no less, unless something else has the machine
    machine = target("native")
    element = dtype(kind)
    schedule = multiply_adds(machine, threads, element)
    width = VECTORS * machine.lanes(element)
    ones = np.ones(width, element.numpy)
    flops = 2 * DEPTH * width * 4 * threads / _fastest(_linked(schedule, machine).bind(ones, ones))
    call, fork = _overheads(machine, threads)
    bandwidth = _bandwidths(machine, threads)
    if alone is not None:
        flops = max(flops, alone.flops)
        bandwidth = {name: max(rate, alone.bandwidth[name]) for name, rate in bandwidth.items()}
    return Rates(flops, bandwidth, call, fork, kind, threads)


def _linked(schedule: Schedule, machine: Target) -> Runnable:
    return Runnable(of_schedule(schedule, machine).program())


def _fastest(call: Callable[[], Any]) -> float:
    """The fastest of the single calls of a few milliseconds: what disturbs one of them need not disturb another."""
    call()
    begin = last = time.perf_counter()
    best, calls = math.inf, 0
    while last - begin < SPAN or (calls < CALLS and last - begin < PATIENCE):
        call()
        now = time.perf_counter()
        best, last, calls = min(best, now - last), now, calls + 1
    return best


def multiply_adds(machine: Target, threads: int, element: DType) -> Schedule:
    """Nothing but multiply-adds, on each thread."""
    width = VECTORS * machine.lanes(element)
    A, B = placeholder((width,), element, name="A"), placeholder((width,), element, name="B")
    k = reduce_axis(DEPTH, name="k")
    s = Schedule(compute((4 * threads, width), lambda _, i: total(A[i] * B[i], axis=k), name="P"))
    group, lane, depth = s.loops("P")
    return _in_registers(s, machine, element, (group, depth, lane), threads)


def stream() -> Any:
    """Twice an array that no cache holds."""
    X = placeholder((STREAM,), "float32", name="X")
    return compute((STREAM,), lambda i: X[i] * 2, name="Y")


def _sums(machine: Target, threads: int) -> Schedule:
    """Each thread sums its own array, again and again."""
    element = dtype("float32")
    n, again = dim("n"), dim("again")
    width = VECTORS * machine.lanes(element)
    X = placeholder((threads, n, width), element, name="X")
    k = reduce_axis(n, name="k")
    s = Schedule(compute((threads, again, width), lambda p, _, i: total(X[p, k, i], axis=k), name="S"))
    thread, turn, lane, depth = s.loops("S")
    return _in_registers(s, machine, element, (thread, turn, depth, lane), threads)


def _in_registers(s: Schedule, machine: Target, element: DType, order: tuple[str, ...], threads: int) -> Schedule:
    """The accumulators of the innermost loop in registers, the first loop parallel."""
    *groups, depth, lane = order
    outer, inner = s.split(lane, machine.lanes(element))
    s.reorder(*groups, depth, outer, inner)
    s.vectorize(inner)
    s.unroll(outer)
    s.accumulate(s.stages()[-1], at=groups[-1])
    if threads > 1:
        s.parallel(groups[0])
    return s


def _bandwidths(machine: Target, threads: int) -> dict[Home, float]:
    kernel = _linked(_sums(machine, threads), machine)
    caches = machine.caches
    row = 4 * VECTORS * machine.lanes(dtype("float32"))
    beyond = min(max(2 * caches.l3, 4 * STREAM), MOST) // threads
    data = arrays.empty_aligned((max(beyond // 4 * threads, STREAM),), np.dtype(np.float32))
    data.fill(1)
    found: dict[Home, float] = {}
    sizes: tuple[tuple[Home, int], ...] = (
        ("L1", caches.l1 // 2),
        ("L2", caches.l2 // 2),
        ("L3", caches.l3 // (2 * threads)),
        ("memory", beyond),
    )
    for name, size in sizes:
        rows = max(size // row, 1)
        again = max(CHUNK // (rows * row), 1)
        X = data[: threads * rows * row // 4].reshape(threads, rows, row // 4)
        found[name] = threads * again * rows * row / _fastest(kernel.bind(X, again=again))
    strategy = choose(stream(), machine, threads)
    out = np.empty(STREAM, np.float32)
    written = 2 * out.nbytes / _fastest(_linked(strategy.schedule(strategy.default), machine).bind(data[:STREAM], out=out))
    found["memory"] = max(found["memory"], written)
    return found


def _overheads(machine: Target, threads: int) -> tuple[float, float]:
    """Seconds of a call that does next to nothing, and what a parallel loop adds."""
    X = placeholder((max(threads, 2),), "float32", name="X")
    alone = Schedule(compute(X.shape, lambda i: X[i] + 1, name="Y"))
    call = timing.sample(_linked(alone, machine).bind(np.ones(max(threads, 2), np.float32)), 5).min
    if threads == 1:
        return call, 0.0
    alone.parallel(*alone.loops("Y"))
    forked = _fastest(_linked(alone, machine).bind(np.ones(max(threads, 2), np.float32)))
    return call, max(forked - call, 0.0)
