"""The 23 distinct convolutions of ResNet-50 v1.5, one image, NCHW, weights that stay."""

from __future__ import annotations

from typing import Final

from bench.peers.workload import Workload
from bench.peers.workloads.family import Family

LAYERS: Final = (
    (3, 64, 224, 7, 2),
    (64, 64, 56, 1, 1),
    (64, 64, 56, 3, 1),
    (64, 256, 56, 1, 1),
    (256, 64, 56, 1, 1),
    (256, 128, 56, 1, 1),
    (128, 128, 56, 3, 2),
    (128, 512, 28, 1, 1),
    (256, 512, 56, 1, 2),
    (512, 128, 28, 1, 1),
    (128, 128, 28, 3, 1),
    (512, 256, 28, 1, 1),
    (256, 256, 28, 3, 2),
    (256, 1024, 14, 1, 1),
    (512, 1024, 28, 1, 2),
    (1024, 256, 14, 1, 1),
    (256, 256, 14, 3, 1),
    (1024, 512, 14, 1, 1),
    (512, 512, 14, 3, 2),
    (512, 2048, 7, 1, 1),
    (1024, 2048, 14, 1, 2),
    (2048, 512, 7, 1, 1),
    (512, 512, 7, 3, 1),
)
"""Input channels, output channels, height and width of the input, of the window, stride."""


def layer(channels: int, outputs: int, size: int, window: int, stride: int) -> Workload:
    """Operations count the border of zeros, as everybody does: who skips it can pass the machine's rate."""
    padding = window // 2
    out = (size + 2 * padding - window) // stride + 1
    return Workload(
        f"conv{window}x{window}{'s2' if stride == 2 else ''}_{channels}-{outputs}_{size}",
        "conv2d",
        ((1, channels, size, size), (outputs, channels, window, window)),
        2 * outputs * out * out * channels * window * window,
        constants=(1,),
        attributes={"stride": stride, "padding": padding},
    )


FAMILY: Final = Family("convolution", "ResNet-50's convolutions", tuple(layer(*row) for row in LAYERS), geomean=1.0, least=0.9)
