"""Operators on rows: softmax, layer normalisation, exact GELU."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family


def row(name: str, operator: str, m: int, n: int, *more: tuple[int, ...]) -> Workload:
    """Bytes: each element is read once and written once."""
    return Workload(f"{name}_{m}x{n}", operator, ((m, n), *more), 8 * m * n, "GB/s")


FAMILY: Final = Family(
    "rows",
    "Softmax, layer normalisation, GELU",
    (
        row("softmax", "softmax", 128, 1000),
        row("softmax", "softmax", 1536, 128),
        row("layer_norm", "layer_norm", 128, 768, (768,), (768,)),
        row("layer_norm", "layer_norm", 4096, 1024, (1024,), (1024,)),
        row("gelu", "gelu", 128, 3072),
    ),
    geomean=1.0,
)
