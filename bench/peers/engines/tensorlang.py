"""Ours: the default schedule or, where `TENSORLANG_BENCH_DATABASE` names tuned records, the best that these know beside the default."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Final

import tensorlang as tl
from bench.peers.definitions import definition
from bench.peers.engines import Candidate, Makers, kept
from bench.peers.isa import NATIVE, VARIABLE, ours
from bench.peers.tuning import SUBSET
from bench.peers.workload import Array, Workload, blank
from tensorlang.codegen.calibration.kernels import factors, multiply_adds, operations
from tensorlang.codegen.target import target
from tensorlang.ir.dtype import dtype

PROBE: Final = "multiply-adds"
DATABASE: Final = "TENSORLANG_BENCH_DATABASE"


def available() -> None:
    """Always."""


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """One kernel; the default one where it may be tuned; one on one thread where the workload has several; a probe where it asks for it."""
    database = os.environ.get(DATABASE) or None
    makers: dict[str, Callable[[], Candidate]] = {"": functools.partial(candidate, workload, operands, workload.threads, database)}
    if database is not None and workload.name in SUBSET:
        makers["default"] = functools.partial(candidate, workload, operands, workload.threads, aside="the default schedule")
    if workload.threads > 1:
        makers["one thread"] = functools.partial(candidate, workload, operands, 1)
    if workload.probe:
        makers[PROBE] = probe
    return makers


def candidate(workload: Workload, operands: Sequence[Array], threads: int, database: str | None = None, *, aside: str = "") -> Candidate:
    """Constants are packed once, the result goes to an array that is there."""
    tl.set_threads(threads)
    defined = definition(workload)
    kernel = tl.compile(defined, held(), database=database)
    provenance = kernel.provenance
    if workload.constants:
        kernel = kernel.prepack(**{f"operand{place}": operands[place] for place in workload.constants})
    given = [array for place, array in enumerate(operands) if place not in workload.constants]
    out = blank(*workload.result)
    call = functools.partial(kernel, *given, out=out) if workload.operator == "add" else kernel.bind(*given, out=out)
    before = functools.partial(tl.set_threads, threads) if workload.threads > 1 else None
    return Candidate(call, kept(out), before=before, aside=aside, note=str(provenance))


def held() -> str:
    """The target to build for, by what everybody is held to."""
    return ours(os.environ.get(VARIABLE, NATIVE))


def probe() -> Candidate:
    """Nothing but multiply-adds in registers. `note` is how many operations a call makes."""
    machine, element = target(held()), dtype("float32")
    rows, columns = factors(machine, element)
    kernel = tl.build(multiply_adds(machine, 1, element), machine)
    return Candidate(kernel.bind(rows, columns), kept(columns), aside="a probe", note=str(operations(machine, 1, element)))
