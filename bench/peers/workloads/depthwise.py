"""Depthwise convolutions of MobileNet (3 x 3) and EfficientNet-B0 (5 x 5), one image, NCHW, weights that stay."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

LAYERS: Final = (
    (32, 112, 3, 1),
    (64, 112, 3, 2),
    (128, 56, 3, 1),
    (256, 28, 3, 1),
    (512, 14, 3, 1),
    (1024, 7, 3, 1),
    (144, 56, 5, 2),
    (240, 28, 5, 1),
    (480, 14, 5, 1),
    (672, 14, 5, 2),
    (1152, 7, 5, 1),
)
"""Channels, height and width of the input, of the window, stride."""


def layer(channels: int, size: int, window: int, stride: int) -> Workload:
    """Operations count the border of zeros."""
    padding = window // 2
    out = (size + 2 * padding - window) // stride + 1
    return Workload(
        f"depthwise{window}x{window}{'s2' if stride == 2 else ''}_{channels}_{size}",
        "depthwise",
        ((1, channels, size, size), (channels, 1, window, window)),
        2 * channels * out * out * window * window,
        constants=(1,),
        attributes={"stride": stride, "padding": padding},
    )


FAMILY: Final = Family("depthwise", "Depthwise convolutions", tuple(layer(*row) for row in LAYERS), geomean=1.2, least=1.2)
