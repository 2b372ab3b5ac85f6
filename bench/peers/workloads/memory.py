"""What memory bounds: a chain of element by element operations on 64 MB, a transposition."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

FAMILY: Final = Family(
    "memory",
    "Chains and transposition",
    (
        Workload("chain_16M", "chain", ((1 << 24,),), 8 << 24, "GB/s"),
        Workload("transpose_4096", "transpose", ((4096, 4096),), 8 << 24, "GB/s"),
    ),
    geomean=1.0,
)
