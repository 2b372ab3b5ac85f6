"""What two threads gain, in a process of its own: peers bring OpenMP runtimes and threads, beside which ours sleep between two loops."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import tensorlang as tl
from bench.programs.engines import results
from bench.programs.known import PROGRAMS
from bench.programs.timing import ratio, same, turns
from tensorlang import kernels

LONG: Final = 1e-3
"""Seconds from which a program is worth two threads."""
ROUNDS: Final = 3
"""Times that all of them are measured, one after the other: somebody else may have the second core for seconds."""


def gains(names: Sequence[str]) -> dict[str, float]:
    """Time on one thread by that on two, each with its own schedule, of those that take long enough on one; the median of some rounds."""
    found: dict[str, list[float]] = {}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        for _ in range(ROUNDS):
            names = [*found] or list(names)
            for name, gain in zip(names, apart.map(_gain, names), strict=True):
                if gain is not None:
                    found.setdefault(name, []).append(gain)
            if not found:
                break
    return {name: statistics.median(taken) for name, taken in found.items()}


def _gain(name: str) -> float | None:
    """Raises `SystemExit` where the two kernels compute something else."""
    tl.set_threads(1)
    outputs, given = next(program for program in PROGRAMS if program.name == name).define()
    one = tl.build(outputs)
    out = one(*given)
    start = time.perf_counter()
    one(*given, out=out)
    if time.perf_counter() - start < LONG:
        return None
    two = kernels.compile(outputs, threads=2)
    other = two(*given)
    if not same(results(out), results(other)):
        raise SystemExit(f"{name}: the kernels for one and for two threads differ")
    samples = turns({"one": lambda: one(*given, out=out), "two": lambda: two(*given, out=other)}, time.perf_counter)
    return ratio(samples["one"], samples["two"])
