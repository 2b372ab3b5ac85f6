"""A stencil repeated in time, and an image pipeline of many stages."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

N: Final = 1000
STEPS: Final = 100
HEIGHT: Final = 1530
WIDTH: Final = 2554

FAMILY: Final = Family(
    "stencils",
    "Stencils and image pipelines",
    (
        Workload("jacobi2d_1000_100", "jacobi", ((N, N),), 5 * STEPS * (N - 2) ** 2, attributes={"steps": STEPS}),
        Workload(
            f"harris_{HEIGHT}x{WIDTH}",
            "harris",
            ((3, HEIGHT + 4, WIDTH + 4),),
            4 * (3 * (HEIGHT + 4) * (WIDTH + 4) + HEIGHT * WIDTH),
            "GB/s",
        ),
    ),
    geomean=1.0,
)
