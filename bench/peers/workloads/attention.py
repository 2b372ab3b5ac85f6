"""Attention of 12 heads of 64, without a mask."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family


def heads(count: int, length: int, width: int) -> Workload:
    """Operations of the two products."""
    shape = (1, count, length, width)
    return Workload(f"attention_{count}x{length}x{width}", "attention", (shape,) * 3, 4 * count * length * length * width)


FAMILY: Final = Family("attention", "Attention", (heads(12, 128, 64), heads(12, 512, 64)), geomean=1.0)
