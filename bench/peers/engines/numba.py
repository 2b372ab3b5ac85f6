"""Numba: loops as one writes them, compiled with fastmath; no BLAS under it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from bench.peers.engines import Candidate, Makers, kept, missing
from bench.peers.engines.numba_loops import OPERATORS
from bench.peers.workload import Array, Workload, blank


def available() -> str | None:
    """Why not, if not."""
    return missing("numba")


def make(workload: Workload, operands: Sequence[Array]) -> Makers:
    """A compiled loop nest, on one thread."""
    if workload.operator not in OPERATORS or not workload.plain_types or workload.threads > 1:
        return {}
    if workload.operator == "matmul" and any(len(shape) != 2 for shape in workload.shapes):
        return {}
    return {"": functools.partial(candidate, workload, operands)}


@functools.cache
def compiled(operator: str) -> Callable[..., None]:
    """Machine code, made for the operands of the first call."""
    import numba  # noqa: PLC0415 - an optional peer

    function: Callable[..., None] = numba.njit(OPERATORS[operator][0], fastmath=True, error_model="numpy")
    return function


def candidate(workload: Workload, operands: Sequence[Array]) -> Candidate:
    """A call with an array for the result that is there."""
    out = blank(*workload.result)
    attributes = [workload.attributes[name] for name in OPERATORS[workload.operator][1]]
    return Candidate(functools.partial(compiled(workload.operator), *operands, out, *attributes), kept(out))
