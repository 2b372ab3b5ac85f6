"""Two threads against one, ours by ours: the threads of other libraries, which wait by spinning, would sit on the second core."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads import attention, convolution, matmul
from bench.peers.workloads.family import Family


def doubled(workload: Workload) -> Workload:
    """The workload on two threads."""
    return replace(workload, name=f"{workload.name}_2_threads", threads=2, probe=False)


FAMILY: Final = Family(
    "threads",
    "Two threads over one",
    tuple(
        map(
            doubled,
            (
                matmul.square(512),
                matmul.square(1024),
                convolution.layer(64, 64, 56, 3, 1),
                convolution.layer(256, 1024, 14, 1, 1),
                attention.heads(12, 512, 64),
            ),
        )
    ),
    least=1.85,
    note="The same kernel on two threads and on one; no peer takes part.",
    against="tensorlang one thread",
    engines=("tensorlang",),
)
