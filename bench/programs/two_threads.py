"""What two threads gain, in a process of its own: peers bring OpenMP runtimes and threads, beside which ours sleep between two loops."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Final, NamedTuple

import numpy as np

import tensorlang as tl
from bench.programs.engines import results
from bench.programs.known import PROGRAMS
from bench.programs.timing import ratio, same, turns
from tensorlang import Kernel, kernels

LONG: Final = 1e-3
"""Seconds from which a program is worth two threads."""
ROUNDS: Final = 3
"""Times that each is measured in calm."""
MOST_ROUNDS: Final = 6
"""Times that all of them are measured, one after the other, at most."""
CALM: Final = 1.5
"""How many times as long as the quickest forks of all those take at most where a measurement counts: for a while the two cores of a virtual
machine may be far from one another, and what they tell one another takes twice as long."""
FORKS: Final = 100
"""Parallel loops that do little, one after the other, by which that is told."""
LITTLE: Final = 256
"""Additions of each thread in one of them: fewer, and the first thread does them all before the second has come."""


def gains(names: Sequence[str]) -> dict[str, float]:
    """Time on one thread by that on two, each with its own schedule, of those that take long enough on one; the median of some rounds.

    Of all rounds where none was calm.
    """
    found: dict[str, list[Gain]] = {}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        for done in range(MOST_ROUNDS):
            left = [name for name in (found if done else names) if len(_calm(found, name)) < ROUNDS]
            for name, gain in zip(left, apart.map(_gain, left), strict=True):
                if gain is not None:
                    found.setdefault(name, []).append(gain)
            if not found:
                break
    return {name: statistics.median(_calm(found, name) or [gain.ratio for gain in taken]) for name, taken in found.items()}


class Gain(NamedTuple):
    """Time on one thread by that on two, and the seconds of a fork meanwhile."""

    ratio: float
    fork: float


def _calm(found: Mapping[str, Sequence[Gain]], name: str) -> list[float]:
    """The ratios of a program that were measured while forks took hardly longer than the quickest of all."""
    quickest = min((gain.fork for taken in found.values() for gain in taken), default=0.0)
    return [gain.ratio for gain in found.get(name, ()) if gain.fork < CALM * quickest]


def _gain(name: str) -> Gain | None:
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
    before = _fork()
    samples = turns({"one": lambda: one(*given, out=out), "two": lambda: two(*given, out=other)}, time.perf_counter)
    return Gain(ratio(samples["one"], samples["two"]), max(before, _fork()))


@cache
def _forks() -> Kernel:
    x, k = tl.placeholder((2, LITTLE), name="x"), tl.reduce_axis(LITTLE, name="k")
    zero = tl.compute((2,), lambda i: 0.0, name="zero")
    s = tl.Schedule(
        tl.scan(lambda _, y: tl.compute((2,), lambda i: y[i] + tl.sum(x[i, k], k), name="next"), zero, FORKS, keep="last", name="forks")
    )
    s.parallel("next.i")
    return tl.build(s)


def _fork() -> float:
    """Seconds of a parallel loop that does little: the quickest of a few runs of many, one after the other."""
    tl.set_threads(2)
    kernel, given, taken = _forks(), np.zeros((2, LITTLE), np.float32), list[float]()
    for _ in range(5):
        start = time.perf_counter()
        kernel(given)
        taken.append((time.perf_counter() - start) / FORKS)
    return min(taken)
