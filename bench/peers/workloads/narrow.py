"""Products of narrow numbers: unsigned by signed bytes to int32, exactly; bfloat16 to bfloat16. Convolutions of bytes, NCHW, to int32."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.convolution import layer
from bench.peers.workloads.family import Family


def product(kind: str, m: int, k: int, n: int, *, constant: bool) -> Workload:
    """(m, k) by (k, n)."""
    types, tolerance = (("uint8", "int8"), 0.0) if kind == "int8" else (("bfloat16", "bfloat16"), 1e-2)
    shape = f"{m}" if m == k == n else f"{m}x{k}x{n}"
    return Workload(
        f"matmul_{kind}_{shape}{'_weights' if constant else ''}",
        "matmul",
        ((m, k), (k, n)),
        2 * m * k * n,
        dtypes=types,
        constants=(1,) if constant else (),
        tolerance=tolerance,
    )


def convolution(channels: int, outputs: int, size: int, window: int, stride: int) -> Workload:
    """A layer of ResNet-50 in bytes, whose weights stay."""
    same = layer(channels, outputs, size, window, stride)
    return replace(same, name=f"{same.name}_int8", dtypes=("uint8", "int8"), tolerance=0.0)


CONVOLUTIONS: Final = ((64, 64, 56, 3, 1), (256, 64, 56, 1, 1), (128, 128, 56, 3, 2))
"""As in `convolution`."""

FAMILY: Final = Family(
    "narrow",
    "int8 and bfloat16 matrix products, int8 convolutions",
    tuple(
        product(kind, *shape, constant=constant)
        for kind in ("int8", "bf16")
        for shape, constant in (((512, 512, 512), False), ((1024, 1024, 1024), False), ((128, 768, 3072), True))
    )
    + tuple(convolution(*row) for row in CONVOLUTIONS),
    geomean=1.0,
    least=1.0,
)
