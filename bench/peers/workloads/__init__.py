"""The families of workloads and the goals they are held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads import attention, calls, convolution, depthwise, matmul, memory, narrow, rows, stencils, threads, variants
from bench.peers.workloads.family import Family

FAMILIES: Final[Mapping[str, Family]] = {
    family.name: family
    for family in (
        matmul.FAMILY,
        matmul.WEIGHTS,
        convolution.FAMILY,
        depthwise.FAMILY,
        variants.FAMILY,
        narrow.FAMILY,
        rows.FAMILY,
        memory.FAMILY,
        attention.FAMILY,
        stencils.FAMILY,
        threads.FAMILY,
        calls.FAMILY,
    )
}


def named(name: str) -> Workload:
    """The workload of a name. Raises `KeyError` where there is none."""
    return {workload.name: workload for family in FAMILIES.values() for workload in family.workloads}[name]
