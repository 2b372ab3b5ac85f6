"""What a call costs: 16 elements, with an array for the result."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

FAMILY: Final = Family(
    "calls",
    "A call of 16 elements",
    (Workload("add_16", "add", ((16,), (16,)), 1000, "M calls/s"),),
    least=1.0,
    against="numpy",
    note="Rows are held to `numpy.add`. Every peer is called from Python with its own kind of arrays, which are there.",
)
