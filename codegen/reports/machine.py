"""What this machine can do now, with some threads: multiply-adds, bytes from each level of memory, the cost of a call.

    multiply-adds    a tile of accumulators stays in registers, nothing but products are added to it
    bytes            the sum of an array that fits half of L1, L2 or L3, again and again; for memory also a stream that writes
    call             an addition of two numbers
    fork             a parallel loop with a sum for each thread, beyond one of these sums alone

The kernels are those of `codegen.calibration`. Each rate is that of the fastest of a few samples, so that other load on the machine
counts little. The numbers are measured once in a process, for each element type and number of threads, in about half a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from tensorlang.codegen.calibration import kernels
from tensorlang.codegen.calibration.kernels import FLOAT, linked
from tensorlang.codegen.calibration.rounds import fastest
from tensorlang.codegen.reports.levels import Home
from tensorlang.codegen.runtime import arrays, timing
from tensorlang.codegen.target import Target, target
from tensorlang.ir.dtype import dtype

STREAM: Final = 16 << 20
MOST: Final = 256 << 20
CHUNK: Final = 8 << 20


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
    machine, element = target("native"), dtype(kind)
    kernel = linked(kernels.multiply_adds(machine, threads, element), machine)
    flops = kernels.operations(machine, threads, element) / fastest(kernel.bind(*kernels.factors(machine, element)))
    call, fork = _overheads(machine, threads)
    bandwidth = _bandwidths(machine, threads)
    if alone is not None:
        flops = max(flops, alone.flops)
        bandwidth = {name: max(rate, alone.bandwidth[name]) for name, rate in bandwidth.items()}
    return Rates(flops, bandwidth, call, fork, kind, threads)


def _bandwidths(machine: Target, threads: int) -> dict[Home, float]:
    kernel = linked(kernels.sums(machine, threads), machine)
    caches = machine.caches
    row = 4 * kernels.row_of_sums(machine)
    beyond = min(max(2 * caches.l3, 4 * STREAM), MOST) // threads
    data = arrays.empty_aligned((max(beyond // 4 * threads, STREAM),), FLOAT.numpy)
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
        found[name] = threads * again * rows * row / fastest(kernel.bind(X, again=again))
    out = np.empty(STREAM, np.float32)
    written = 2 * out.nbytes / fastest(linked(kernels.doubled(machine, STREAM, threads), machine).bind(data[:STREAM], out=out))
    found["memory"] = max(found["memory"], written)
    return found


def _overheads(machine: Target, threads: int) -> tuple[float, float]:
    """Seconds of a call that does next to nothing, and what a parallel loop adds."""
    call = timing.sample(linked(kernels.alone(), machine).bind(np.ones(2, np.float32)), 5).min
    if threads == 1:
        return call, 0.0
    one, all_of_them = (
        fastest(linked(kernels.shares(count), machine).bind(np.ones((count, kernels.SUMMANDS), np.float32))) for count in (1, threads)
    )
    return call, max(all_of_them - one, 0.0)
